#include "agent/settings/environment.h"

#include "base/map.h"
#include "base/status.h"
#include "base/variables.h"

#include <ctype.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { UNSET = -1, NAMES = 3, MARK_MAX = 256, PORT_FIRST = 20000, PORTS = 10000 };

// Of several names the first that is set counts; of marks, all.
typedef struct row {
    const char *needs;  // without it there is no such launcher; NULL: nothing
    const char *rank, *world_size[NAMES];
    const char *local_rank, *local_size, *host_count;
    const char *mark[NAMES];
    const char *peer_mark;  // a descriptor: the process at its other end is the mark
    const char *hosts[NAMES];
    const char *port;    // unless a variable has one; NULL: made of the mark
    const char *remedy;  // what the user can do if it has no address of rank 0
} row;

static const row plain = { .rank = "RANK",
                           .world_size = { "WORLD_SIZE" },
                           .local_rank = "LOCAL_RANK",
                           .local_size = "LOCAL_WORLD_SIZE",
                           .mark = { "TORCHELASTIC_RUN_ID", "GRADWIRE_JOB" } };

static const row engines[] = {
    { .rank = "OMPI_COMM_WORLD_RANK",
      .world_size = { "OMPI_COMM_WORLD_SIZE" },
      .local_rank = "OMPI_COMM_WORLD_LOCAL_RANK",
      .local_size = "OMPI_COMM_WORLD_LOCAL_SIZE",
      .mark = { "PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid",
                "OMPI_MCA_orte_precondition_transports" },
      .remedy = "set it to the host of rank 0 with mpirun -x MASTER_ADDR=..." },
    { .rank = "PMI_RANK",
      .world_size = { "PMI_SIZE" },
      .local_rank = "MPI_LOCALRANKID",
      .local_size = "MPI_LOCALNRANKS",
      .peer_mark = "PMI_FD",
      .remedy = "set the host of rank 0 and a port with mpiexec -genv MASTER_ADDR ... -genv "
                "MASTER_PORT ..." },
    { .needs = "SLURM_STEP_ID",
      .rank = "SLURM_PROCID",
      .world_size = { "SLURM_STEP_NUM_TASKS", "SLURM_NTASKS" },
      .local_rank = "SLURM_LOCALID",
      .host_count = "SLURM_STEP_NUM_NODES",
      .mark = { "SLURM_JOB_ID", "SLURM_STEP_ID" },
      .hosts = { "SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST" },
      .remedy = "set it to the host of rank 0" },
    { .rank = "JOB_COMPLETION_INDEX",
      .world_size = { "WORLD_SIZE" },
      .port = "29500",
      .remedy = "set it in the manifest to the pod of index 0 behind its headless service" },
};

enum { ENGINES = sizeof engines / sizeof *engines };

// ---- Looking up ---------------------------------------------------------------------------------

static const char *find(environment_lookup variable, const char *name) {
    const char *text = name ? variable(name) : NULL;
    return text && *text ? text : NULL;
}

// The first of |names| that is set, and which; NULL and the first name if none is.
static const char *find_first(environment_lookup variable, const char *const names[NAMES],
                              const char **out_name) {
    for (int i = 0; i < NAMES; i++) {
        const char *text = find(variable, names[i]);
        if (!text) continue;
        *out_name = names[i];
        return text;
    }
    *out_name = names[0];
    return NULL;
}

static bool parse(const char *text, int max, int *out) {
    return text && variable_number(text, max, out);
}

static bool is_there(environment_lookup variable, const row *r) {
    return find(variable, r->rank) && (!r->needs || find(variable, r->needs));
}

static const row *find_engine(environment_lookup variable) {
    for (int i = 0; i < ENGINES; i++)
        if (is_there(variable, &engines[i])) return &engines[i];
    return NULL;
}

static gw_status not_a_number(const char *name, const char *text, int max, gw_error *error) {
    return error_set(error, GW_INVALID, "%s is \"%.100s\", but must be a number from 0 to %d", name,
                     text, max);
}

// ---- Rank and world size ------------------------------------------------------------------------

// A number with the name of the variable that has it.
typedef struct setting {
    const char *name;
    int number;
} setting;

static gw_status read_number(environment_lookup variable, const char *name, int max, setting *out,
                             gw_error *error) {
    const char *text = find(variable, name);
    *out = (setting){ name, UNSET };
    if (!text || parse(text, max, &out->number)) return GW_OK;
    return not_a_number(name, text, max, error);
}

static gw_status read_row(environment_lookup variable, const row *r, setting *rank,
                          setting *world_size, gw_error *error) {
    const char *name;
    find_first(variable, r->world_size, &name);
    gw_status status = read_number(variable, r->rank, LIMIT_WORKERS - 1, rank, error);
    return status ? status : read_number(variable, name, LIMIT_WORKERS, world_size, error);
}

// RANK and WORLD_SIZE are those of a launcher that another one may have started.
static bool is_inside(environment_lookup variable) {
    return find(variable, "GRADWIRE_JOB") || find(variable, "TORCHELASTIC_RUN_ID");
}

static gw_status compare(const setting *mine, const setting *other, gw_error *error) {
    if (mine->number == UNSET || other->number == UNSET || mine->number == other->number)
        return GW_OK;
    return error_set(error, GW_INVALID, "%s is %d, but %s is %d: unset one of them", mine->name,
                     mine->number, other->name, other->number);
}

// A value that RANK and WORLD_SIZE do not set is taken from the other launcher.
static gw_status complete(setting *rank, setting *world_size, const setting *other_rank,
                          const setting *other_size, gw_error *error) {
    bool is_alone = other_size->number == 1 && rank->number != UNSET;
    gw_status status = is_alone ? GW_OK : compare(rank, other_rank, error);
    if (!status && !is_alone) status = compare(world_size, other_size, error);
    if (rank->number == UNSET) *rank = *other_rank;
    if (world_size->number == UNSET) *world_size = *other_size;
    return status;
}

static gw_status find_settings(environment_lookup variable, setting *rank, setting *world_size,
                               gw_error *error) {
    const row *engine = find_engine(variable);
    gw_status status = read_row(variable, &plain, rank, world_size, error);
    if (status || !engine || (rank->number != UNSET && is_inside(variable))) return status;
    setting other_rank, other_size;
    status = read_row(variable, engine, &other_rank, &other_size, error);
    if (!status) status = complete(rank, world_size, &other_rank, &other_size, error);
    return status;
}

static gw_status no_rank(environment_lookup variable, gw_error *error) {
    if (find(variable, "SLURM_PROCID"))
        return error_set(error, GW_INVALID,
                         "no rank was given, and RANK is not set; SLURM_PROCID is set, but "
                         "SLURM_STEP_ID is not: start the program by srun in the batch script");
    return error_set(error, GW_INVALID,
                     "no rank was given, and neither RANK nor the variable of another launcher is "
                     "set (OMPI_COMM_WORLD_RANK, PMI_RANK, SLURM_PROCID, "
                     "JOB_COMPLETION_INDEX); start it with: gradwire run -n 2 -- ./program");
}

static gw_status check_place(const setting *rank, const setting *world_size, gw_error *error) {
    if (world_size->number == UNSET)
        return error_set(error, GW_INVALID,
                         "no world size was given: %s is not set, although %s is set",
                         world_size->name, rank->name);
    if (world_size->number < 1)
        return error_set(error, GW_INVALID, "the world size is 0, but must be 1 to %d (%s)",
                         LIMIT_WORKERS, world_size->name);
    if (rank->number >= world_size->number)
        return error_set(error, GW_INVALID, "rank %d is out of range for world size %d (%s, %s)",
                         rank->number, world_size->number, rank->name, world_size->name);
    return GW_OK;
}

gw_status environment_place(environment_lookup variable, int *rank, int *world_size,
                            gw_error *error) {
    if (*rank != UNSET && *world_size != UNSET) return GW_OK;
    setting found_rank, found_size;
    gw_status status = find_settings(variable, &found_rank, &found_size, error);
    if (status) return status;
    if (*rank != UNSET) found_rank = (setting){ "the rank that was given", *rank };
    if (*world_size != UNSET)
        found_size = (setting){ "the world size that was given", *world_size };
    status = found_rank.number == UNSET ? no_rank(variable, error)
                                        : check_place(&found_rank, &found_size, error);
    if (status) return status;
    *rank = found_rank.number;
    *world_size = found_size.number;
    return GW_OK;
}

// ---- The address of rank 0 ----------------------------------------------------------------------

// The process that has started this one is at the other end of |fd|, whatever shells are between.
static bool put_peer(const char *fd, char mark[MARK_MAX]) {
    int number;
    struct ucred peer;
    socklen_t size = sizeof peer;
    if (!parse(fd, INT_MAX, &number) || getsockopt(number, SOL_SOCKET, SO_PEERCRED, &peer, &size) ||
        peer.pid <= 0)
        return false;
    snprintf(mark, MARK_MAX, "%d", (int)peer.pid);
    return true;
}

// The mark that distinguishes this job from all others of its user; false without one.
static bool find_mark(environment_lookup variable, const row *r, char mark[MARK_MAX]) {
    if (r->peer_mark) {
        const char *fd = find(variable, r->peer_mark);
        return fd && put_peer(fd, mark);
    }
    size_t at = 0;
    mark[0] = '\0';
    for (int i = 0; i < NAMES; i++) {
        const char *text = find(variable, r->mark[i]);
        if (text && at < MARK_MAX)
            at += (size_t)snprintf(mark + at, MARK_MAX - at, "%s%s", at ? "." : "", text);
    }
    return at > 0;
}

static bool is_one_host(environment_lookup variable, const row *r, int world_size) {
    int count;
    if (r->local_size && parse(find(variable, r->local_size), LIMIT_WORKERS, &count))
        return count == world_size;
    return r->host_count && parse(find(variable, r->host_count), INT_MAX, &count) && count == 1;
}

// The first host of "node[03-12,15],other", as Slurm writes lists: node03. False if it has none.
static bool first_host(const char *list, char *out, size_t size) {
    size_t at = 0;
    while (*list && *list != ',') {
        if (*list == '[') {
            size_t digits = strspn(++list, "0123456789");
            if (!digits || at + digits >= size) return false;
            memcpy(out + at, list, digits);
            at += digits;
            list = strchr(list, ']');
            if (!list) return false;
            list++;
            continue;
        }
        if (at + 1 >= size || !(isalnum((unsigned char)*list) || strchr("._-", *list)))
            return false;
        out[at++] = *list++;
    }
    out[at] = '\0';
    return at > 0;
}

static gw_status set_here(environment_lookup variable, const char *mark, const char *port,
                          environment_master *out) {
    const char *transport = find(variable, "GW_TRANSPORT");
    if (!transport && !port) {
        snprintf(out->address, sizeof out->address, "shm://here:%016llx",
                 (unsigned long long)hash_bytes(mark, strlen(mark)));
    } else {
        snprintf(out->host, sizeof out->host, "127.0.0.1");
    }
    return GW_OK;
}

static gw_status set_first_host(environment_lookup variable, const row *r, environment_master *out,
                                gw_error *error) {
    const char *name, *list = find_first(variable, r->hosts, &name);
    out->host_from = name;
    if (!list)
        return error_set(error, GW_INVALID,
                         "neither %s nor MASTER_ADDR, the host of rank 0, is set", name);
    if (first_host(list, out->host, sizeof out->host)) return GW_OK;
    return error_set(
        error, GW_INVALID,
        "%s is \"%.100s\", which does not begin with a host: set MASTER_ADDR to the host of rank 0",
        name, list);
}

// The launcher that has assigned this rank and world size, or one that has assigned equal ones.
static const row *find_placer(environment_lookup variable, int rank, int world_size) {
    const row *first = NULL;
    for (int i = 0; i < ENGINES; i++) {
        setting r, w;
        const row *engine = &engines[i];
        if (!is_there(variable, engine) || read_row(variable, engine, &r, &w, NULL) ||
            r.number != rank || w.number != world_size)
            continue;
        if (engine->hosts[0]) return engine;
        if (!first) first = engine;
    }
    return first;
}

static gw_status no_host(environment_lookup variable, const row *engine, gw_error *error) {
    const char *local = engine ? engine->local_size : NULL;
    if (!engine) return error_set(error, GW_INVALID, "MASTER_ADDR is not set");
    if (!local)
        return error_set(error, GW_INVALID, "MASTER_ADDR is not set, although %s is set: %s",
                         engine->rank, engine->remedy);
    if (!find(variable, local))
        return error_set(error, GW_INVALID,
                         "neither MASTER_ADDR nor %s is set, although %s is set: %s", local,
                         engine->rank, engine->remedy);
    return error_set(error, GW_INVALID,
                     "MASTER_ADDR is not set, and the ranks are on several hosts (%s is %s, %s is "
                     "%s): %s",
                     local, find(variable, local), engine->world_size[0],
                     find(variable, engine->world_size[0]), engine->remedy);
}

static gw_status set_port(const row *engine, const char *port, const char *mark,
                          environment_master *out, gw_error *error) {
    if (out->address[0]) return GW_OK;
    out->port_from = "MASTER_PORT";
    if (!port && engine) port = engine->port;
    if (port) {
        snprintf(out->port, sizeof out->port, "%s", port);
    } else if (mark[0]) {
        snprintf(out->port, sizeof out->port, "%d",
                 PORT_FIRST + (int)(hash_bytes(mark, strlen(mark)) % PORTS));
    } else {
        return error_set(error, GW_INVALID, "MASTER_PORT is not set");
    }
    return GW_OK;
}

gw_status environment_master_of(environment_lookup variable, int rank, int world_size,
                                environment_master *out, gw_error *error) {
    *out = (environment_master){ .host_from = "MASTER_ADDR" };
    const char *host = find(variable, "MASTER_ADDR"), *port = find(variable, "MASTER_PORT");
    const row *engine = find_placer(variable, rank, world_size);
    char mark[MARK_MAX] = "";
    bool is_marked = engine && find_mark(variable, engine, mark);
    gw_status status = GW_OK;
    if (host && strlen(host) >= sizeof out->host) {
        status =
            error_set(error, GW_INVALID, "MASTER_ADDR is \"%.40s...\", which is too long", host);
    } else if (host) {
        snprintf(out->host, sizeof out->host, "%s", host);
    } else if (is_marked && is_one_host(variable, engine, world_size)) {
        status = set_here(variable, mark, port, out);
    } else if (world_size == 1) {
        snprintf(out->host, sizeof out->host, "127.0.0.1");  // no other process looks for it
        if (!port) port = "0";
    } else if (engine && engine->hosts[0]) {
        status = set_first_host(variable, engine, out, error);
    } else {
        status = no_host(variable, engine, error);
    }
    return status ? status : set_port(engine, port, mark, out, error);
}

void environment_job(environment_lookup variable, int rank, int world_size, char out[JOB_ID_MAX]) {
    char mark[MARK_MAX];
    const row *r = is_there(variable, &plain) ? &plain : find_placer(variable, rank, world_size);
    out[0] = '\0';
    // A mark made of a process differs from host to host.
    if (r && !r->peer_mark && find_mark(variable, r, mark))
        snprintf(out, JOB_ID_MAX, "%.*s", JOB_ID_MAX - 1, mark);
}

// ---- Queries of programs ------------------------------------------------------------------------

static int number_of(environment_lookup variable, const char *name) {
    int number;
    return parse(find(variable, name), LIMIT_WORKERS, &number) ? number : UNSET;
}

gw_launch environment_launch(environment_lookup variable) {
    const row *r = find(variable, plain.rank) ? &plain : find_engine(variable);
    if (!r) return (gw_launch){ .rank = UNSET, .world_size = UNSET, .local_rank = UNSET };
    const char *size_name;
    int attempt;
    find_first(variable, r->world_size, &size_name);
    bool is_counted = parse(find(variable, "TORCHELASTIC_RESTART_COUNT"), INT_MAX, &attempt);
    const char *creates = find(variable, "GW_ELASTIC_CREATE");
    int rank = number_of(variable, r->rank);
    return (gw_launch){ .rank = rank,
                        .world_size = number_of(variable, size_name),
                        .local_rank = number_of(variable, r->local_rank),
                        .attempt = is_counted ? attempt : 0,
                        .creates = creates ? !strcmp(creates, "1") : rank == 0 };
}

// ---- Output -------------------------------------------------------------------------------------

// A launcher reads the output of its ranks from pipes, for which C uses full buffering: lines would be seen late, and lost
// if the rank is killed. So standard output is line buffered, from before main on, unless the program chooses otherwise;
// also in a worker process, which the library kills when its scope is closed.
__attribute__((constructor)) static void buffer_lines(void) {
    if (getenv(ENVIRONMENT_STARTED) || environment_launch(getenv).rank >= 0)
        setvbuf(stdout, NULL, _IOLBF, 0);
}
