// The command line of a3c.
#ifndef OPTIONS_H
#define OPTIONS_H

#include "task.h"

typedef struct options {
    task task;  // with what was said of it
    int64_t workers, runs, seed, evaluate;
    bool goal_ends, stats;
    const char *plot;  // file, or NULL
} options;

// Fills |out|. Returns -1 to go on, else the exit code: 0 after --help, 2 with one sentence for
// what is wrong.
int options_parse(int argc, char **argv, options *out);

#endif
