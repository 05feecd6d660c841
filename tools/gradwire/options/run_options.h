// The command line of gradwire run.
#ifndef GRADWIRE_RUN_OPTIONS_H
#define GRADWIRE_RUN_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

enum { RANK_COUNT_MAX = 1024, NODE_COUNT_MAX = 512, RDZV_HOST_MAX = 128 };

typedef struct run_options {
    int rank_count;   // on this host
    bool keep;        // --on-failure=keep: the others run on when one fails
    int master_port;  // 0: a free one
    int64_t grace_ms;
    bool no_prefix;
    bool bind;  // each rank to its processors
    bool dry_run;
    const char *log_dir;  // NULL: none
    char **program;       // its name and arguments, ended by NULL; points into argv

    // over several hosts
    int node_count, node_rank;      // 1 and 0 without --nnodes
    char rdzv_host[RDZV_HOST_MAX];  // "": on this host alone
    const char *rdzv_endpoint;      // "host:port", where launchers meet; NULL: on this host alone
    const char *rdzv_id;            // "": jobs are distinguished by their endpoints
    int64_t rdzv_timeout_ms;
    const char *key;  // the path of a file; NULL: none
    bool insecure;
} run_options;

// Returns false when there is nothing to run: --help or an error was printed. Then |out_code| is the exit code.
bool run_options_parse(int argc, char **argv, run_options *out, int *out_code);

// Of the whole job, and of one of this host's ranks in it.
int run_world_size(const run_options *o);
int run_rank(const run_options *o, int index);

#endif
