// Finding the other workers: each publishes its name and addresses in the store, and reads those of all others.
#include "agent/join.h"

#include "base/failpoint.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/mutation.h"
#include "base/system_error.h"
#include "agent/member_table.h"
#include "net/transport/exhausted.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Times: to find the missing workers at the timeout; to publish that this worker gives up; until a line names the worker
// that this one waits for; until the next such line.
#define GRACE_NS INT64_C(500000000)
#define GIVE_UP_NS INT64_C(1000000000)
#define SILENCE_NS INT64_C(5000000000)
#define REMINDER_NS INT64_C(10000000000)

enum { JOB_INSECURE = 1 };  // a flag of the key `job`
enum { LACKS_S = 5 };       // how long descriptors may lack

static int64_t deadline_of(env *e, int64_t timeout_ms) {
    int64_t length_ns, until_ns;
    if (timeout_ms == GW_NO_TIMEOUT ||
        __builtin_mul_overflow(timeout_ms, INT64_C(1000000), &length_ns) ||
        __builtin_add_overflow(env_now_ns(e), length_ns, &until_ns))
        return ENV_NEVER;
    return until_ns;
}

joining join_begin(agent *a, const join_options *options) {
    return (joining){ .agent = a,
                      .options = options,
                      .until_ns = deadline_of(a->env, options->join_timeout_ms),
                      .line_ns = env_now_ns(a->env) + SILENCE_NS };
}

const char *join_place(const joining *j) {
    return j->options->path[0] ? j->options->path : j->options->master;
}

bool join_is_line_due(joining *j, gw_status status) {
    int64_t now_ns = env_now_ns(j->agent->env);
    if (status != GW_TIMEOUT || now_ns < j->line_ns || now_ns >= j->until_ns) return false;
    j->line_ns = now_ns + REMINDER_NS;
    return true;
}

static int64_t piece_end(const joining *j) {
    return j->line_ns < j->until_ns ? j->line_ns : j->until_ns;
}

// The host may start later.
static gw_status open_client(joining *j, gw_error *error) {
    agent *a = j->agent;
    const char *master = j->options->master;
    for (;;) {
        gw_error why;
        gw_status status = store_open_client(a->env, master, piece_end(j), &j->store, &why);
        if (!join_is_line_due(j, status)) {
            if (status) *error = why;
            return status;
        }
        log_line("%s waits for %s: %s", a->name, a->job ? "the founder of a group" : "rank 0",
                 why.text);
    }
}

// A password is one line.
static gw_status open_redis(joining *j, gw_error *error) {
    const join_options *o = j->options;
    char password[SECRET_TEXT_MAX] = "";
    gw_status status = GW_OK;
    if (o->redis_password_file[0])
        status = secret_read_file(o->redis_password_file, password, error);
    if (status) error_prefix(error, "GW_REDIS_PASSWORD_FILE");
    password[strcspn(password, "\r\n")] = '\0';
    if (!status) status = store_open_redis(j->agent->env, o->path, password, &j->store, error);
    explicit_bzero(password, sizeof password);
    return status;
}

// One key for each rank: "rank/03" is none.
static bool is_key_of_rank(const char *key, int world_size) {
    char own[32];
    long rank = strncmp(key, "rank/", 5) ? -1 : strtol(key + 5, NULL, 10);
    if (rank < 0 || rank >= world_size) return false;
    snprintf(own, sizeof own, "rank/%ld", rank);
    return !strcmp(key, own);
}

// STORE-7: "In a job of known size `rank/R`, `name/N` and `worker/R` are set by clients".
static store_use use_of_key(void *user, const char *key) {
    const agent *a = user;
    if (is_key_of_rank(key, a->world_size)) return STORE_REGISTERS;
    bool is_free = !strncmp(key, "name/", 5) || !strncmp(key, "worker/", 7);
    return is_free ? STORE_BY_WORKERS : STORE_READ_ONLY;
}

gw_status join_open_store(joining *j, bool hosts, gw_error *error) {
    agent *a = j->agent;
    if (strncmp(j->options->path, "redis://", 8) == 0) return open_redis(j, error);
    if (j->options->path[0]) return store_open_file(a->env, j->options->path, &j->store, error);
    if (!hosts) return open_client(j, error);
    const store_host_options of = { .use_of = use_of_key,
                                    .user = a,
                                    .registered_max = a->world_size };
    gw_status status = store_open_host(a->env, of, &j->store, error);
    if (!status) peers_serve_store(a->peers, store_host_take, j->store);
    return status;
}

// ---- Writing ------------------------------------------------------------------------------------

gw_status join_set(joining *j, const char *key, const bytes *value, bool *out_set, bytes *out_found,
                   gw_error *error) {
    if (value->failed) return error_set(error, GW_NO_MEMORY, "no memory for joining");
    return store_set_if_absent(j->store, key, value->data, value->size, j->until_ns, out_set,
                               out_found, error);
}

gw_status join_register(joining *j, const char *key, const bytes *value, bool *out_set,
                        bytes *out_found, gw_error *error) {
    if (value->failed) return error_set(error, GW_NO_MEMORY, "no memory for joining");
    return store_register(j->store, key, value->data, value->size, j->until_ns, out_set, out_found,
                          error);
}

// From GW_JOB_ID, or the launcher.
static const char *job_id(const joining *j) {
    const char *given = j->agent->protection.job;
    return given[0] || !j->options ? given : j->options->launch;
}

static void write_job(const joining *j, bytes *value, uint32_t world_size) {
    bytes_put_u32(value, world_size);
    bytes_put_u32(value, PROTOCOL_VERSION);
    bytes_put_u32(value, j->agent->protection.insecure ? JOB_INSECURE : 0);
    bytes_put_text(value, job_id(j));
}

// Whether the workers that meet there are of this worker's job, if both have an id of their job.
static gw_status check_id(const joining *j, const bytes *value, gw_error *error) {
    reader r = reader_of(value->data, value->size);
    char theirs[JOB_ID_MAX] = "";
    reader_u32(&r);
    if (reader_u32(&r) != PROTOCOL_VERSION) return GW_OK;
    reader_u32(&r);
    reader_text(&r, theirs, sizeof theirs);
    if (r.failed || !theirs[0] || !job_id(j)[0] || strcmp(theirs, job_id(j)) == 0) return GW_OK;
    return error_set(error, GW_MISMATCH,
                     "job \"%s\" meets at %s, and this worker is of job \"%s\": two jobs need two "
                     "addresses or files",
                     theirs, join_place(j), job_id(j));
}

gw_status join_read_job(const joining *j, const bytes *value, uint32_t *out_world_size,
                        gw_error *error) {
    gw_status status = check_id(j, value, error);
    if (status) return status;
    reader r = reader_of(value->data, value->size);
    *out_world_size = reader_u32(&r);
    uint32_t version = reader_u32(&r);
    if (r.failed || version != PROTOCOL_VERSION)
        return error_set(error, GW_MISMATCH, "this worker speaks version %d, the job version %u",
                         PROTOCOL_VERSION, version);
    bool job_is = reader_u32(&r) & JOB_INSECURE, own = j->agent->protection.insecure;
    if (!r.failed && job_is == own) return GW_OK;
    return error_set(error, GW_MISMATCH,
                     "insecure is set %s: all workers set it (.insecure, GW_INSECURE=1, "
                     "gradwire run --insecure), or none",
                     own ? "by this worker, and not by the others"
                         : "by others, and not by this one");
}

// *out_found is what it is, set by this worker or another one.
static gw_status find_job(joining *j, uint32_t world_size, bool *out_set, bytes *out_found,
                          gw_error *error) {
    bytes mine;
    bytes_init(&mine);
    write_job(j, &mine, world_size);
    gw_status status = join_set(j, "job", &mine, out_set, out_found, error);
    if (!status && *out_set) {
        bytes_fini(out_found);
        *out_found = mine;
    } else {
        bytes_fini(&mine);
    }
    return status;
}

gw_status join_set_job(joining *j, uint32_t world_size, bool *out_set, uint32_t *out_world_size,
                       gw_error *error) {
    bytes found;
    bytes_init(&found);
    gw_status status = find_job(j, world_size, out_set, &found, error);
    if (!status) status = join_read_job(j, &found, out_world_size, error);
    bytes_fini(&found);
    return status;
}

// The world size must be the same for all.
static gw_status compare_job(const joining *j, const bytes *found, gw_error *error) {
    uint32_t own = (uint32_t)j->agent->world_size, world_size;
    gw_status status = join_read_job(j, found, &world_size, error);
    if (status || world_size == own) return status;
    if (!world_size)
        return error_set(error, GW_MISMATCH,
                         "this worker has world size %u, the job is a group without one", own);
    return error_set(error, GW_MISMATCH, "this worker has world size %u, the job has %u", own,
                     world_size);
}

// Without its rank in the job the worker has no key in the store, where others would read why it cannot join.
static bool has_own_rank(const joining *j, const bytes *found) {
    reader r = reader_of(found->data, found->size);
    return reader_u32(&r) > (uint32_t)j->agent->rank;
}

static gw_status read_member(const bytes *value, member *out, gw_error *error) {
    reader r = reader_of(value->data, value->size);
    char addresses[LIMIT_ADDRESSES_BYTES + 1] = "";
    reader_text(&r, out->name, sizeof out->name);
    if (!r.failed && !out->name[0]) {
        char why[GW_ERROR_TEXT_MAX];
        bool is_whole = reader_text(&r, why, sizeof why);
        if (is_whole && !reader_u64(&r)) return error_set(error, GW_DISCONNECTED, "%s", why);
        if (is_whole)
            return error_set(error, GW_MISMATCH, "rank %d could not join: %s", out->worker.rank,
                             why);
    }
    reader_text(&r, addresses, sizeof addresses);
    out->worker.incarnation = reader_u64(&r);
    if (r.failed || !options_is_name(out->name) || !out->worker.incarnation)
        return error_set(error, GW_PROTOCOL, "the store has a malformed value of rank %d",
                         out->worker.rank);
    mem_free(out->addresses);
    out->addresses = mem_strdup(addresses);
    return out->addresses ? GW_OK : error_set(error, GW_NO_MEMORY, "no memory for %s", out->name);
}

bool join_is_over(joining *j) {
    env *e = j->agent->env;
    waiter w = { .what = "whether the job is over" };
    if (store_is_attended(j->store)) return false;
    env_wait(e, &w, env_now_ns(e) + GRACE_NS);  // a worker may be about to attend
    return !store_is_attended(j->store);
}

static gw_status report_over(const joining *j, gw_error *error) {
    if (strstr(j->options->path, "://"))
        return error_set(error, GW_DUPLICATE,
                         "the job \"%s\" at %s is over, and forgotten there in a minute: wait, or "
                         "set another GW_JOB_ID",
                         j->agent->protection.job, j->options->path);
    return error_set(error, GW_DUPLICATE,
                     "%s is the file of a job that is over: remove it, or meet in another",
                     j->options->path);
}

// The first step of a worker: one of another job sets no key.
static gw_status enter_job(joining *j, bytes *out_found, gw_error *error) {
    bool set;
    gw_status status = find_job(j, (uint32_t)j->agent->world_size, &set, out_found, error);
    if (status || set) return status;
    status = check_id(j, out_found, error);
    return status && j->options->path[0] && join_is_over(j) ? report_over(j, error) : status;
}

static gw_status take_rank(joining *j, gw_error *error) {
    agent *a = j->agent;
    char key[32], other[LIMIT_NAME_BYTES + 1];
    snprintf(key, sizeof key, "rank/%d", a->rank);
    bytes mine, found;
    bytes_init(&mine);
    bytes_init(&found);
    bytes_put_text(&mine, a->name);
    bool set = false;
    gw_status status = join_register(j, key, &mine, &set, &found, error);
    if (!status && set) store_attend(j->store);
    if (!status && !set && join_is_over(j)) {
        status = report_over(j, error);
    } else if (!status && !set) {
        reader r = reader_of(found.data, found.size);
        reader_text(&r, other, sizeof other);
        status = error_set(error, GW_DUPLICATE, "rank %d is taken by \"%s\"", a->rank, other);
    }
    bytes_fini(&mine);
    bytes_fini(&found);
    return status;
}

static gw_status take_name(joining *j, gw_error *error) {
    agent *a = j->agent;
    char key[LIMIT_NAME_BYTES + 8];
    snprintf(key, sizeof key, "name/%s", a->name);
    uint32_t rank = (uint32_t)a->rank;
    bytes found;
    bytes_init(&found);
    bool set = false;
    gw_status status =
        store_set_if_absent(j->store, key, &rank, sizeof rank, j->until_ns, &set, &found, error);
    if (!status && !set) {
        reader r = reader_of(found.data, found.size);
        status = error_set(error, GW_DUPLICATE, "the name \"%s\" is taken by rank %u", a->name,
                           reader_u32(&r));
    }
    bytes_fini(&found);
    return status;
}

// The empty name is for a worker that does not join, and |incarnation| 0 if another worker has set the key.
static gw_status publish_as(joining *j, int rank, const char *name, const char *text,
                            uint64_t incarnation, gw_error *error) {
    char key[32];
    snprintf(key, sizeof key, "worker/%d", rank);
    bytes value;
    bytes_init(&value);
    bytes_put_text(&value, name);
    bytes_put_text(&value, text);
    bytes_put_u64(&value, incarnation);
    bool set;
    gw_status status = join_set(j, key, &value, &set, NULL, error);
    bytes_fini(&value);
    return status;
}

// Publishes the addresses of this worker; or why it cannot join, since the others would wait in vain.
static gw_status publish(joining *j, const gw_error *refusal, gw_error *error) {
    const agent *a = j->agent;
    return publish_as(j, a->rank, refusal ? "" : a->name, refusal ? refusal->text : a->addresses,
                      a->incarnation, error);
}

// The others wait for a worker that has stopped waiting, each until its timeout, unless it sets a key (JOIN-8): the key of
// the rank that all wait for, which is this worker's own until it has published its addresses. It waits for the answer:
// a *set* that is under way when a connection closes may be lost. A signal ends all waits until it is released.
static void give_up(joining *j, int awaited, const gw_error *reason) {
    agent *a = j->agent;
    if (has_mutation(MUTATION_GIVES_UP_UNREPORTED)) return;
    if (!a->interrupted) a->interrupted = env_release_signals(a->env);
    j->until_ns = env_now_ns(a->env) + GIVE_UP_NS;
    gw_error why = a->absence;
    if (!why.status && awaited != a->rank)
        error_set(&why, GW_CANCELLED, "%s (rank %d) has stopped waiting for rank %d of %d%s%.500s",
                  a->name, a->rank, awaited, a->world_size, reason ? ": " : "",
                  reason ? reason->text : "");
    if (!why.status)
        error_set(&why, GW_CANCELLED, "%s (rank %d) was interrupted while it joined", a->name,
                  a->rank);
    publish_as(j, awaited, "", why.text, 0, NULL);
}

// ---- Reading ------------------------------------------------------------------------------------

static gw_status wait_for_member(joining *j, int rank, int64_t until_ns, gw_error *error) {
    char key[32];
    snprintf(key, sizeof key, "worker/%d", rank);
    bytes value;
    bytes_init(&value);
    gw_status status = store_wait(j->store, key, until_ns, &value, error);
    if (!status) {
        status = read_member(&value, agent_member(j->agent, rank), error);
        j->is_ended_by_other = status != GW_OK;
    }
    bytes_fini(&value);
    return status;
}

// "ranks 3, 7": not all of them, if they are many.
static gw_status name_missing(joining *j, int from, gw_error *error) {
    char list[256] = "";
    size_t at = 0;
    int count = 0;
    int64_t until_ns = env_now_ns(j->agent->env) + GRACE_NS;
    for (int rank = from; rank < j->agent->world_size && at + 16 < sizeof list; rank++) {
        if (rank != from && wait_for_member(j, rank, until_ns, NULL) != GW_TIMEOUT) continue;
        at += (size_t)snprintf(list + at, sizeof list - at, "%s%d", count ? ", " : "", rank);
        count++;
    }
    return error_set(error, GW_TIMEOUT, "rank%s %s of %d did not join within %lld s",
                     count == 1 ? "" : "s", list, j->agent->world_size,
                     (long long)(j->options->join_timeout_ms + 999) / 1000);
}

// A worker without descriptors for the connections of the workers that it waits for would wait in vain.
static gw_status refuses_others(gw_error *error) {
    int lack = exhausted_for(LACKS_S);
    if (!lack) return GW_OK;
    return error_set(error, GW_SYSTEM, "connections are refused: %s", system_error_text(lack).text);
}

static gw_status wait_for_one(joining *j, int rank, gw_error *error) {
    const agent *a = j->agent;
    for (;;) {
        gw_status status = wait_for_member(j, rank, piece_end(j), error);
        if (!join_is_line_due(j, status)) return status;
        if ((status = refuses_others(error))) return status;
        log_info("%s waits for rank %d of %d to join", a->name, rank, a->world_size);
    }
}

static gw_status wait_for_all(joining *j, int *out_awaited, gw_error *error) {
    for (int rank = 0; rank < j->agent->member_count; rank++) {
        *out_awaited = rank;
        gw_status status = wait_for_one(j, rank, error);
        if (status == GW_TIMEOUT) return name_missing(j, rank, error);
        if (status) return status;
    }
    return GW_OK;
}

static gw_status add_all_members(agent *a, gw_error *error) {
    gw_status status = member_table_add_self_on_loop(a, a->addresses, error);
    if (!status) status = member_table_open_on_loop(a, false, error);
    for (int rank = 0; rank < a->world_size && !status; rank++) {
        const member *m = agent_member(a, rank);
        char name[sizeof m->name];
        memcpy(name, m->name, sizeof name);
        const gw_worker w = { name, rank, m->worker.incarnation };
        status = member_table_add_on_loop(a, &w, m->addresses, error);
    }
    if (!status) members_start(a->membership);
    return status;
}

// The text has the last error.
static void explain_absence(joining *j, gw_error *error) {
    char last[GW_ERROR_TEXT_MAX];
    memcpy(last, error->text, sizeof last);
    error_set(error, GW_TIMEOUT, "it did not join within %lld s: %.500s",
              (long long)(j->options->join_timeout_ms + 999) / 1000, last);
}

// Workers that have not reached rank 0 when a signal ends it would keep trying; its store has the reason to stop.
static void serve_last(joining *j) {
    agent *a = j->agent;
    waiter w = { .what = "workers that look for rank 0" };
    bool is_host = a->rank == 0 && !j->options->path[0];
    if (is_host && a->interrupted && !a->absence.status) env_wait(a->env, &w, j->until_ns);
}

// This worker has published nothing yet. If its rank is taken, another worker has it.
static void give_up_unpublished(joining *j, bool is_client) {
    agent *a = j->agent;
    a->interrupted = env_release_signals(a->env);
    if (!a->interrupted && !j->has_rank) return;
    j->until_ns = env_now_ns(a->env) + GIVE_UP_NS;
    gw_error ignored;
    bytes found;
    bytes_init(&found);
    bool can_say = j->store || (is_client && !join_open_store(j, false, &ignored));
    if (can_say && !j->has_rank) can_say = !enter_job(j, &found, NULL) && !take_rank(j, NULL);
    if (can_say) give_up(j, a->rank, NULL);
    bytes_fini(&found);
}

// Rank 0 may have ended since another rank cannot join, which the launcher reports to this worker, too.
static void await_reason(agent *a) {
    waiter w = { .what = "the launcher" };
    if (!a->absence.status) env_wait(a->env, &w, env_now_ns(a->env) + GRACE_NS);
}

// Publishes the name and addresses of this worker, or why it cannot join.
static gw_status enter(joining *j, gw_error *error) {
    bytes found;
    bytes_init(&found);
    gw_status status = enter_job(j, &found, error);
    if (!status && !has_own_rank(j, &found)) status = compare_job(j, &found, error);
    if (!status) status = take_rank(j, error);
    j->has_rank = !status;
    failpoint("join");
    if (!status) status = compare_job(j, &found, error);
    if (!status) status = take_name(j, error);
    if (!status) status = pool_start_on_loop(&j->agent->pool, error);
    bool is_refused = status && status != GW_TIMEOUT && j->has_rank;
    if (is_refused) publish(j, error, NULL);
    if (!status) status = publish(j, NULL, error);
    bytes_fini(&found);
    failpoint("join_published");
    return status;
}

static gw_status await_all(joining *j, gw_error *error) {
    int awaited;
    gw_status status = wait_for_all(j, &awaited, error);
    if (!status || status == GW_DISCONNECTED) return status;
    give_up(j, awaited, status == GW_TIMEOUT ? NULL : error);
    serve_last(j);
    return status;
}

gw_status join_on_loop(agent *a, const join_options *options, gw_error *error) {
    joining j = join_begin(a, options);
    bool is_client = a->rank != 0 && !options->path[0];
    gw_status status = join_open_store(&j, a->rank == 0, error);
    if (status == GW_TIMEOUT && is_client) explain_absence(&j, error);
    if (status && is_client) error_prefix(error, "meeting rank 0");
    bool has_store = !status;
    if (!status) status = enter(&j, error);
    if (status == GW_TIMEOUT) give_up_unpublished(&j, is_client);
    if (!status) status = await_all(&j, error);
    if (has_store && status == GW_DISCONNECTED && is_client && !j.is_ended_by_other) {
        error_prefix(error, "rank 0 has ended before all had joined");
        if (options->is_launched) await_reason(a);
    }
    if (!status) status = add_all_members(a, error);
    // The host serves those that are still reading; a file is attended.
    if (!status && (a->rank == 0 || options->path[0])) {
        a->store = j.store;
        a->hosts_store = !options->path[0];
    } else {
        peers_serve_store(a->peers, NULL, NULL);
        store_close(j.store);
    }
    return status;
}
