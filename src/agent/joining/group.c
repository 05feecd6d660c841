// Groups: founding one, and joining one that is running. docs/protocol/joining.md.
#include "agent/joining/joining.h"

#include "agent/admission/admission.h"
#include "agent/admission/group_store.h"
#include "agent/admission/join_store.h"
#include "agent/changes/member_changes.h"
#include "agent/members/member_table.h"
#include "agent/members/members.h"
#include "base/failpoint.h"
#include "base/log.h"

#include <stdio.h>
#include <string.h>

// How often a joining worker checks whether the group has a member left; how long a founder looks for an older group.
#define LOOK_NS INT64_C(1000000000)

// From here on others can send to this worker.
static gw_status take_rank(agent *a, int rank, bool joins, gw_error *error) {
    a->rank = rank;
    agent_set_identity_on_loop(a);
    gw_status status = connection_check_own(&a->protection, error);
    if (status) return status;
    a->ids.space = (uint64_t)rank + 1;
    peers_set_rank(a->peers, rank);
    status = member_table_add_self_on_loop(a, a->addresses, error);
    return status ? status : member_changes_open_on_loop(a, joins, error);
}

// ---- Founding -----------------------------------------------------------------------------------

static gw_status write_job(joining *j, gw_error *error) {
    bool set;
    uint32_t world_size;
    gw_status status = join_set_job(j, 0, &set, &world_size, error);
    if (status || set) return status;
    return error_set(error, world_size ? GW_MISMATCH : GW_DUPLICATE, "%s was %s at %s already%s",
                     world_size ? "a job with a fixed world size" : "an elastic job",
                     world_size ? "begun" : "created", join_place(j),
                     !join_is_over(j)                  ? ""
                     : strstr(j->options->path, "://") ? ", and has ended"
                                                       : ", and has ended: remove the file");
}

// Whether the group exists already: its members may host its store at another of its addresses.
static gw_status check_is_first(joining *j, gw_error *error) {
    env *e = j->agent->env;
    store *there;
    if (!strchr(j->options->master, ',')) return GW_OK;  // listening at the address fails then
    if (store_open_client(e, j->options->master, env_now_ns(e) + LOOK_NS, &there, NULL))
        return GW_OK;
    store_close(there);
    return error_set(error, GW_DUPLICATE, "an elastic job already exists at %s", join_place(j));
}

static gw_status claim_addresses(joining *j, gw_error *error) {
    agent *a = j->agent;
    snprintf(a->group_addresses, sizeof a->group_addresses, "%s", j->options->master);
    gw_status status = check_is_first(j, error);
    return status ? status : group_store_open_on_loop(a, error);
}

// The file may be another group's, whose store is not to be watched.
static gw_status claim_file(joining *j, gw_error *error) {
    gw_status status = join_open_store(j, false, error);
    if (status) return status;
    j->agent->store = j->store;
    status = write_job(j, error);
    if (!status) store_attend(j->store);
    return status;
}

gw_status group_found_on_loop(agent *a, const join_options *options, gw_error *error) {
    joining j = join_begin(a, options);
    gw_status status = options->path[0] ? claim_file(&j, error) : claim_addresses(&j, error);
    if (!status) status = take_rank(a, 0, false, error);
    if (status) return status;
    members_start(a->membership);
    admission_check_on_loop(a);
    return a->hosts_store ? group_store_write_job_on_loop(a, error) : GW_OK;
}

// ---- Joining ------------------------------------------------------------------------------------

// Waits for |key|; once the group has been |founded|, only while it has a member. Its store may move meanwhile.
static gw_status wait_for_key(joining *j, const char *key, bool founded, bytes *out,
                              gw_error *error) {
    env *e = j->agent->env;
    for (;;) {
        int64_t look_ns = env_now_ns(e) + LOOK_NS;
        bool is_last = look_ns >= j->until_ns;
        gw_status status = store_wait(j->store, key, is_last ? j->until_ns : look_ns, out, error);
        // A signal may have interrupted it.
        if (status != GW_TIMEOUT || is_last || env_now_ns(e) < look_ns) return status;
        if (join_is_line_due(j, status))
            log_line("%s waits %s at %s", j->agent->name,
                     founded ? "to be admitted to the elastic job"
                             : "for the worker that creates the elastic job",
                     join_place(j));
        if (founded && !store_is_attended(j->store))
            return error_set(error, GW_DISCONNECTED,
                             "the elastic job at %s has ended: it has no member", join_place(j));
    }
}

static gw_status check_job(joining *j, gw_error *error) {
    bytes value = { 0 };
    uint32_t world_size;
    gw_status status = wait_for_key(j, "job", false, &value, error);
    if (!status) status = join_read_job(j, &value, &world_size, error);
    if (!status && world_size)
        status = error_set(error, GW_WRONG_STATE,
                           "the job at %s cannot be joined: it has a fixed number of %u workers",
                           join_place(j), world_size);
    bytes_fini(&value);
    return status;
}

static gw_status send_join_request(joining *j, gw_error *error) {
    agent *a = j->agent;
    char key[JOIN_KEY_MAX];
    bool set;
    bytes value = { 0 };
    bytes_put_text(&value, a->name);
    bytes_put_text(&value, a->addresses);
    bytes_put_u64(&value, a->incarnation);
    join_key(key, "join", a->incarnation);
    gw_status status = join_set(j, key, &value, true, &set, NULL, error);
    bytes_fini(&value);
    return status;
}

typedef struct answer {
    int rank;
    gw_worker coordinator;
    char name[LIMIT_NAME_BYTES + 1], addresses[LIMIT_ADDRESSES_BYTES + 1];
} answer;

static gw_status read_answer(const bytes *value, answer *out, gw_error *error) {
    char why[GW_ERROR_TEXT_MAX];
    reader r = reader_of(value->data, value->size);
    gw_status refused = (gw_status)reader_u8(&r);
    reader_text(&r, why, sizeof why);
    uint32_t rank = reader_u32(&r), coordinator = reader_u32(&r);
    out->coordinator.incarnation = reader_u64(&r);
    reader_text(&r, out->name, sizeof out->name);
    reader_text(&r, out->addresses, sizeof out->addresses);
    if (refused && refused < GW_STATUS_COUNT && !r.failed)
        return error_set(error, refused, "%s", why);
    if (r.failed || refused || rank >= LIMIT_WORKERS || coordinator >= rank ||
        !options_is_name(out->name))
        return error_set(error, GW_PROTOCOL, "the store has a malformed entry for this worker");
    out->rank = (int)rank;
    out->coordinator.rank = (int)coordinator;
    out->coordinator.name = out->name;
    return GW_OK;
}

static gw_status wait_for_answer(joining *j, answer *out, gw_error *error) {
    char key[JOIN_KEY_MAX];
    bytes value = { 0 };
    join_key(key, "admitted", j->agent->incarnation);
    gw_status status = wait_for_key(j, key, true, &value, error);
    if (status == GW_TIMEOUT)
        error_set(error, GW_TIMEOUT,
                  "no member of the elastic job at %s has admitted this worker within %lld s",
                  join_place(j), (long long)(j->options->join_timeout_ms + 999) / 1000);
    if (!status) status = read_answer(&value, out, error);
    bytes_fini(&value);
    return status;
}

// Members that the coordinator has notified of this worker may send to it before it has all members.
static gw_status await_members(joining *j, const answer *by, gw_error *error) {
    agent *a = j->agent;
    char name[LIMIT_NAME_BYTES + 1];
    if (options_complete_name(a->name, by->rank, name))
        snprintf(a->name, sizeof a->name, "%s", name);
    gw_status status = take_rank(a, by->rank, true, error);
    if (!status) status = member_table_add_on_loop(a, &by->coordinator, by->addresses, error);
    if (status) return status;
    members_start(a->membership);
    while (!membership_has_joined(a->membership->machine)) {
        waiter w = { .what = "the list of members" };
        const member *coordinator = agent_member(a, by->coordinator.rank);
        a->joining = &w;
        bool woken = env_wait(a->env, &w, j->until_ns);
        a->joining = NULL;
        if (a->fence.status) return error_copy(error, &a->fence);
        if (coordinator->lost) {
            error_set(error, GW_DISCONNECTED,
                      "the member %s, which has admitted this worker, is lost: %.500s", by->name,
                      coordinator->why->text);
            error->lost = coordinator->why->lost;
            return error->status;
        }
        if (!woken && !membership_has_joined(a->membership->machine))
            return error_set(
                error, GW_TIMEOUT,
                "%s has admitted this worker, but the other members have not confirmed it in time",
                by->name);
    }
    return GW_OK;
}

gw_status group_join_on_loop(agent *a, const join_options *options, gw_error *error) {
    joining j = join_begin(a, options);
    answer by;
    gw_status status = join_open_store(&j, false, error);
    if (!status) store_expect_move(j.store, STORE_MOVES_MS);
    if (!status) status = check_job(&j, error);
    failpoint("join");
    if (!status) status = send_join_request(&j, error);
    failpoint("join_published");
    if (!status) status = wait_for_answer(&j, &by, error);
    if (status) error_prefix(error, "joining the elastic job");
    if (!status) status = await_members(&j, &by, error);
    // Any member admits others once it is the coordinator.
    if (!status && options->path[0]) {
        a->store = j.store;
        store_attend(a->store);
    } else {
        store_close(j.store);
    }
    if (status) return status;
    snprintf(a->group_addresses, sizeof a->group_addresses, "%s", options->master);
    admission_check_on_loop(a);
    return GW_OK;
}
