// The command line of gradwire run.
#ifndef GRADWIRE_RUN_OPTIONS_H
#define GRADWIRE_RUN_OPTIONS_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

#include "options/monitor_options.h"

#include "options/trace_option.h"

enum {
    RANK_COUNT_MAX = 1024,
    NODE_COUNT_MAX = 512,
    RDZV_HOST_MAX = 128,
    RDZV_ENDPOINT_MAX = 160,
    RDZV_ID_MAX = 40,
    ROLE_MAX = 127,
    ROLES_MAX = 16,
    RESTARTS_MAX = 10000
};

// What the failure of a rank leads to.
typedef enum failure_policy {
    FAILURE_UNSET,
    FAILURE_STOP,         // the other ranks are stopped
    FAILURE_KEEP,         // the others run on
    FAILURE_RESTART,      // the failed rank starts again, and the others run on
    FAILURE_RESTART_ALL,  // all ranks are stopped and start again
    FAILURE_AUTO,         // one of the last two: run_restarts
} failure_policy;

// What SIGUSR1 or SIGUSR2 to the launcher leads to.
typedef enum signal_action {
    SIGNAL_DUMP,     // what the workers did last is written
    SIGNAL_LEAVE,    // the same as SIGTERM
    SIGNAL_FORWARD,  // the ranks of this host get it
} signal_action;

// What a straggler leads to.
typedef enum straggler_action {
    STRAGGLER_REPORT,
    STRAGGLER_REPLACE,  // it is asked to leave, and its rank starts again
    STRAGGLER_IGNORE
} straggler_action;

// --role=NAME:COUNT[:POLICY]
typedef struct run_role {
    char name[ROLE_MAX + 1];
    int count;  // of ranks
    failure_policy policy;
} run_role;

typedef struct run_options {
    int rank_count;   // on this host
    int master_port;  // 0: a free one
    int64_t grace_ms;
    bool no_prefix;
    bool bind;  // each rank to its processors
    bool dry_run;
    const char *log_dir;          // NULL: none
    const char *checkpoint_dir;   // for gw_elastic_open; NULL: none
    const char *redirects, *tee;  // options/streams.h; NULL: not given
    const char *shown_ranks;      // local ranks whose output is shown; NULL: all
    const char *role;             // ROLE_NAME
    run_role roles[ROLES_MAX];    // in the order of ranks (options/roles.h)
    int role_count;               // 0: all ranks have |role|
    char **program;               // its name and arguments, ended by NULL; points into argv

    // after failures
    failure_policy on_failure;
    int max_restarts;           // of the whole job
    int64_t restart_window_ms;  // older restarts do not count; 0: all count
    int64_t backoff_ms;
    int min_success;  // of ranks, with FAILURE_KEEP; 0: all
    straggler_action on_straggler;
    const char *
        health_check;  // a command of the shell that must exit with 0 before ranks start; NULL: none
    int64_t host_cooldown_ms;  // after it has failed
    int64_t
        progress_ms;  // until a rank that makes no step, while others wait for it, is killed; 0: never

    // for those who observe the job
    const char *flight_dir;  // where what the workers did last is written; NULL: chosen by flight.c
    signal_action on_usr1, on_usr2;
    int64_t hang_after_ms;  // until a job without progress is reported; 0: never
    monitor_options monitor;
    trace_option trace;

    // over several hosts
    int node_min, node_max;  // 1 and 1 without --nnodes
    // Without --node-rank hosts join in any order, also while the job runs, and may leave it (LAUN-33).
    bool is_dynamic;
    // Of the hosts that are in the job now, and this host's number among them: of a dynamic job as host 0 has assigned them.
    int node_count, node_rank;
    bool is_standalone;                     // the options of the rendezvous have no effect
    const char *master_addr;                // instead of the endpoint; NULL: none
    const char *local_addr;                 // GW_ADDRESS; NULL: as in the environment
    char rdzv_endpoint[RDZV_ENDPOINT_MAX];  // "host:port", where launchers meet; "": none
    char rdzv_host[RDZV_HOST_MAX];          // of it
    const char *rdzv_id;                    // "": jobs are distinguished by their endpoints
    int64_t rdzv_timeout_ms;
    bool rescales_now;       // all ranks start again when a host joins that cannot join otherwise
    int64_t last_call_ms;    // after node_min hosts have joined, before the ranks start
    int64_t min_timeout_ms;  // how long fewer than node_min hosts may be left
    const char *key;         // the path of a file; NULL: none
    bool insecure;
} run_options;

// Returns false when there is nothing to run: --help or an error was printed. Then |out_code| is the exit code.
bool run_options_parse(int argc, char **argv, run_options *out, int *out_code);

// Whether ranks start again after a failure.
static inline bool run_restarts(const run_options *o) {
    bool any = o->on_failure >= FAILURE_RESTART;
    for (int i = 0; i < o->role_count; i++) any |= o->roles[i].policy >= FAILURE_RESTART;
    return any;
}

// SIGUSR1 or SIGUSR2.
static inline signal_action run_on_signal(const run_options *o, int signal_number) {
    return signal_number == SIGUSR1 ? o->on_usr1 : o->on_usr2;
}

// Whether launchers of other hosts take part, or may.
static inline bool run_has_hosts(const run_options *o) {
    return o->node_max > 1;
}

// Which streams of a rank are written to files, and which to the output of the launcher (options/streams.h).
int run_streams_to_files(const run_options *o, int rank);
int run_streams_to_output(const run_options *o, int rank);

// Of the whole job now, at most, and of one of this host's ranks in it.
static inline int run_world_size(const run_options *o) {
    return o->node_count * o->rank_count;
}

static inline int run_world_max(const run_options *o) {
    return o->node_max * o->rank_count;
}

static inline int run_rank(const run_options *o, int index) {
    return o->node_rank * o->rank_count + index;
}

#endif
