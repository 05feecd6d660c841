// The command line of gradwire run.
#ifndef GRADWIRE_RUN_OPTIONS_H
#define GRADWIRE_RUN_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

enum { RANK_COUNT_MAX = 1024 };

typedef struct run_options {
    int rank_count;
    bool keep;        // --on-failure=keep: the others run on when one fails
    int master_port;  // 0: a free one
    int64_t grace_ms;
    bool no_prefix;
    char **program;  // its name and arguments, ended by NULL; points into argv
} run_options;

// Returns false when there is nothing to run: --help was printed, or one sentence about what is
// wrong. Then |out_code| is the exit code.
bool run_options_parse(int argc, char **argv, run_options *out, int *out_code);

#endif
