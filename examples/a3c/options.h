// The command line of a3c.
#ifndef OPTIONS_H
#define OPTIONS_H

#include "task.h"

typedef struct options {
    task task;  // with the values of the command line
    int64_t workers, runs, seed, evaluate;
    bool goal_ends, stats;
    const char *plot;  // file, or NULL
} options;

// Fills |out|. Returns -1 if the program continues, else the exit code: 0 after --help, 2 with one line that names the
// wrong option.
int options_parse(int argc, char **argv, options *out);

#endif
