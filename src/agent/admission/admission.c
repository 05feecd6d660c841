#include "agent/admission/admission.h"

#include "agent/admission/group_store.h"
#include "agent/admission/join_store.h"
#include "agent/members/member_table.h"
#include "agent/members/members.h"
#include "base/log.h"
#include "base/mem.h"

#include <string.h>

enum {
    REQUESTS_MAX = LIMIT_WORKERS,
    AGAIN_MS = 200,  // while this coordinator may admit no member
    STORE_AGAIN_MS = 1000,
    WRITE_S = 10  // an answer
};

// The request of a worker that wants to join.
typedef struct join_request {
    list_node link;
    gw_worker worker;
    char name[LIMIT_NAME_BYTES + 1];  // perhaps with %d in place of the rank
    char addresses[LIMIT_ADDRESSES_BYTES + 1];
} join_request;

struct admission {
    agent *agent;
    list_node requests;  // in the order of arrival
    int request_count;
    bool ending, gone;
    waiter waiter, *closer;
};

// ---- Join requests in the store -----------------------------------------------------------------

static bool read_request(join_request *k, const void *value, size_t size) {
    reader r = reader_of(value, size);
    reader_text(&r, k->name, sizeof k->name);
    reader_text(&r, k->addresses, sizeof k->addresses);
    k->worker = (gw_worker){ .name = k->name, .rank = -1, .incarnation = reader_u64(&r) };
    return !r.failed && options_is_pattern(k->name) && k->worker.incarnation;
}

static void keep_request(admission *d, const char *key, const void *value, size_t size) {
    join_request *k = d->request_count < REQUESTS_MAX ? mem_calloc(sizeof *k) : NULL;
    char own_key[JOIN_KEY_MAX] = "";
    if (k && read_request(k, value, size)) join_key(own_key, "join", k->worker.incarnation);
    if (!k || strcmp(key, own_key)) {
        log_line("%s has not admitted %s to the elastic job: %s", d->agent->name, key,
                 k ? "a malformed join request" : "no memory, or too many join requests");
        mem_free(k);
        return;
    }
    list_append(&d->requests, &k->link);
    d->request_count++;
}

static void drop_request(admission *d, join_request *k) {
    list_remove(&k->link);
    d->request_count--;
    mem_free(k);
}

static void answered_already(admission *d, const char *key) {
    char own_key[JOIN_KEY_MAX];
    list_each(l, &d->requests) {
        join_request *k = list_entry(l, join_request, link);
        join_key(own_key, "admitted", k->worker.incarnation);
        if (!strcmp(key, own_key)) drop_request(d, k);
    }
}

static void found(void *user, const char *key, const void *value, size_t size) {
    admission *d = user;
    if (!strncmp(key, "join/", 5)) keep_request(d, key, value, size);
    if (!strncmp(key, "admitted/", 9)) answered_already(d, key);
    if (!list_is_empty(&d->requests) && !d->waiter.woken) env_wake(d->agent->env, &d->waiter);
}

// ---- Answers ------------------------------------------------------------------------------------

static void write_worker(bytes *out, const agent *a, int rank) {
    const member *m = a->members[rank];
    bytes_put_u32(out, (uint32_t)rank);
    bytes_put_u64(out, m->worker.incarnation);
    bytes_put_text(out, m->name);
    bytes_put_text(out, m->addresses);
}

static gw_status answer(admission *d, const join_request *k, int rank, const gw_error *refusal,
                        gw_error *error) {
    agent *a = d->agent;
    char key[JOIN_KEY_MAX];
    bool set;
    bytes value = { 0 };
    bytes_put_u8(&value, refusal ? (uint8_t)refusal->status : GW_OK);
    bytes_put_text(&value, refusal ? refusal->text : "");
    bytes_put_u32(&value, (uint32_t)rank);
    write_worker(&value, a, a->rank);
    join_key(key, "admitted", k->worker.incarnation);
    gw_status status = value.failed
                           ? error_set(error, GW_NO_MEMORY, "no memory")
                           : store_set_if_absent(a->store, key, value.data, value.size,
                                                 env_now_ns(a->env) + WRITE_S * INT64_C(1000000000),
                                                 &set, NULL, error);
    bytes_fini(&value);
    return status;
}

static gw_status admit(agent *a, const join_request *k, int *out_rank, gw_error *error) {
    if (a->leaving.all_asked)
        return error_set(error, GW_WRONG_STATE, "the elastic job is shutting down");
    // It gets the next rank, or the one that it has got already.
    char name[LIMIT_NAME_BYTES + 1];
    if (!options_complete_name(k->name, membership_limit(a->membership->machine), name))
        return error_set(error, GW_INVALID,
                         "\"%s\" is not a valid name when the new rank replaces its %%d", k->name);
    return members_admit(a->membership, k->worker.incarnation, name, k->addresses, out_rank, error);
}

// Waits for a join request, the end of the admission, or |until_ns|.
static void pause_until(admission *d, int64_t until_ns) {
    d->waiter = (waiter){ .idle = until_ns == ENV_NEVER, .what = "a join request" };
    env_wait(d->agent->env, &d->waiter, until_ns);
}

// A coordinator without contact to a quorum admits no member meanwhile.
static bool is_passing(const agent *a, gw_status status) {
    return (status == GW_WRONG_STATE && !a->leaving.all_asked) || status == GW_NO_MEMORY;
}

static void serve(admission *d, join_request *k) {
    agent *a = d->agent;
    gw_error why, error;
    int rank = -1;
    gw_status status = admit(a, k, &rank, &why);
    if (is_passing(a, status)) {
        list_append(&d->requests, &k->link);
        pause_until(d, env_now_ns(a->env) + AGAIN_MS * INT64_C(1000000));
        return;
    }
    if (answer(d, k, rank, status ? &why : NULL, &error) && !d->ending)
        log_line("%s could not answer %s, which wants to join: %s", a->name, k->name, error.text);
    d->request_count--;
    mem_free(k);
}

// Hosts the group's store in place of the last coordinator, once one of the group's addresses is free.
static gw_status open_store(admission *d, gw_error *error) {
    agent *a = d->agent;
    for (bool again = false; !a->store && !d->ending; again = true) {
        gw_status status = group_store_open_on_loop(a, error);
        if (!status) status = store_watch(a->store, found, d, error);
        if (a->store) return status ? status : group_store_write_job_on_loop(a, error);
        if (!again)
            log_line("%s is the coordinator of the elastic job now, but listens at none of its "
                     "addresses yet, so that no worker can join: %s",
                     a->name, error->text);
        pause_until(d, env_now_ns(a->env) + STORE_AGAIN_MS * INT64_C(1000000));
    }
    return GW_OK;
}

static void admission_main(void *arg) {
    admission *d = arg;
    env *e = d->agent->env;
    gw_error error;
    env_enter(e);
    if (open_store(d, &error) && !d->ending)
        log_line("%s cannot admit workers to the elastic job: %s", d->agent->name, error.text);
    while (!d->ending) {
        list_node *l = list_take(&d->requests);
        if (l) {
            serve(d, list_entry(l, join_request, link));
        } else {
            pause_until(d, ENV_NEVER);
        }
    }
    d->gone = true;
    if (d->closer) env_wake(e, d->closer);
    env_leave(e);
}

// ---- Life ---------------------------------------------------------------------------------------

void admission_check_on_loop(agent *a) {
    bool has_store = a->store || a->group_addresses[0];
    if (a->admission || !a->job || !has_store || member_table_coordinator(a) != a->rank) return;
    admission *d = mem_calloc(sizeof *d);
    gw_error error;
    if (!d) {
        log_line("%s cannot admit workers to the elastic job: no memory for a thread", a->name);
        return;
    }
    d->agent = a;
    list_init(&d->requests);
    if (env_spawn(a->env, admission_main, d, &error)) {
        log_line("%s cannot admit workers to the elastic job: %s", a->name, error.text);
        mem_free(d);
        return;
    }
    a->admission = d;
    if (a->store && store_watch(a->store, found, d, &error))
        log_line("%s cannot admit workers to the elastic job: %s", a->name, error.text);
}

void admission_end_on_loop(agent *a) {
    if (!a->admission || a->admission->ending) return;
    a->admission->ending = true;
    if (!a->admission->waiter.woken) env_wake(a->env, &a->admission->waiter);
}

void admission_join_on_loop(agent *a) {
    admission *d = a->admission;
    if (!d) return;
    admission_end_on_loop(a);
    while (!d->gone) {
        waiter w = { .what = "the thread that admits others" };
        d->closer = &w;
        env_wait(a->env, &w, ENV_NEVER);
        d->closer = NULL;
    }
    while (!list_is_empty(&d->requests))
        drop_request(d, list_entry(d->requests.next, join_request, link));
    a->admission = NULL;
    mem_free(d);
}
