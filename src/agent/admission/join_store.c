// The store at which workers meet, and the key `job` there.
#include "agent/admission/join_store.h"

#include "base/log.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Until a line names the worker that this one waits for; until the next such line.
#define SILENCE_NS INT64_C(5000000000)
#define REMINDER_NS INT64_C(10000000000)

enum { JOB_INSECURE = 1 };  // a flag of the key `job`

joining join_begin(agent *a, const join_options *options) {
    int64_t now_ns = env_now_ns(a->env);
    return (joining){ .agent = a,
                      .options = options,
                      .until_ns = deadline_after_ms(now_ns, options->join_timeout_ms),
                      .line_ns = now_ns + SILENCE_NS };
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

int64_t join_piece_end_ns(const joining *j) {
    return j->line_ns < j->until_ns ? j->line_ns : j->until_ns;
}

// The host may start later.
static gw_status open_client(joining *j, gw_error *error) {
    agent *a = j->agent;
    const char *master = j->options->master;
    for (;;) {
        gw_error why;
        gw_status status = store_open_client(a->env, master, join_piece_end_ns(j), &j->store, &why);
        if (!join_is_line_due(j, status)) {
            if (status) *error = why;
            return status;
        }
        log_line("%s waits for %s: %s", a->name,
                 a->job ? "the worker that creates the elastic job" : "rank 0", why.text);
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

// STORE-7: in a job of known size clients set `rank/R`, `name/N` and `worker/R`.
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

// ---- Keys ---------------------------------------------------------------------------------------

void join_key(char key[JOIN_KEY_MAX], const char *what, uint64_t incarnation) {
    snprintf(key, JOIN_KEY_MAX, "%s/%016llx", what, (unsigned long long)incarnation);
}

gw_status join_set(joining *j, const char *key, const bytes *value, bool registers, bool *out_set,
                   bytes *out_found, gw_error *error) {
    if (value->failed) return error_set(error, GW_NO_MEMORY, "no memory for joining");
    return (registers ? store_register : store_set_if_absent)(
        j->store, key, value->data, value->size, j->until_ns, out_set, out_found, error);
}

// ---- The key `job` ------------------------------------------------------------------------------

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

gw_status join_check_id(const joining *j, const bytes *value, gw_error *error) {
    reader r = reader_of(value->data, value->size);
    char theirs[JOB_ID_MAX] = "";
    reader_u32(&r);
    if (reader_u32(&r) != PROTOCOL_VERSION) return GW_OK;
    reader_u32(&r);
    reader_text(&r, theirs, sizeof theirs);
    if (r.failed || !theirs[0] || !job_id(j)[0] || strcmp(theirs, job_id(j)) == 0) return GW_OK;
    return error_set(error, GW_MISMATCH,
                     "job \"%s\" uses %s, but this worker is of job \"%s\": two jobs need two "
                     "addresses or files",
                     theirs, join_place(j), job_id(j));
}

gw_status join_read_job(const joining *j, const bytes *value, uint32_t *out_world_size,
                        gw_error *error) {
    gw_status status = join_check_id(j, value, error);
    if (status) return status;
    reader r = reader_of(value->data, value->size);
    *out_world_size = reader_u32(&r);
    uint32_t version = reader_u32(&r);
    if (r.failed || version != PROTOCOL_VERSION)
        return error_set(error, GW_MISMATCH,
                         "this worker uses version %d of the protocol, but the job uses version %u",
                         PROTOCOL_VERSION, version);
    bool job_is = reader_u32(&r) & JOB_INSECURE, own = j->agent->protection.insecure;
    if (!r.failed && job_is == own) return GW_OK;
    return error_set(error, GW_MISMATCH,
                     "insecure is set %s: set it on all workers (.insecure, GW_INSECURE=1, "
                     "gradwire run --insecure), or on none",
                     own ? "on this worker, but not on the others"
                         : "on other workers, but not on this one");
}

gw_status join_find_job(joining *j, uint32_t world_size, bool *out_set, bytes *out_found,
                        gw_error *error) {
    bytes mine = { 0 };
    write_job(j, &mine, world_size);
    gw_status status = join_set(j, "job", &mine, false, out_set, out_found, error);
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
    bytes found = { 0 };
    gw_status status = join_find_job(j, world_size, out_set, &found, error);
    if (!status) status = join_read_job(j, &found, out_world_size, error);
    bytes_fini(&found);
    return status;
}

bool join_is_over(joining *j) {
    env *e = j->agent->env;
    waiter w = { .what = "whether the job is over" };
    if (store_is_attended(j->store)) return false;
    env_wait(e, &w, env_now_ns(e) + JOIN_GRACE_NS);  // a worker may be about to attend
    return !store_is_attended(j->store);
}
