// The command line of ddp_survives.
#ifndef OPTIONS_H
#define OPTIONS_H

#include <stdint.h>

enum { WORKERS_MAX = 128 };  // started in one run

typedef struct options {
    int64_t world_size, epochs;
    int64_t losses;    // members that are killed
    int64_t patience;  // epochs
    const char *plot;  // file; NULL: none

    const char *join;  // of a trainer: URL; NULL: be the parent
    int64_t number;    // of a trainer, from 1
} options;

// Fills |out|. Returns -1 if the program continues, else the exit code: 0 after --help, 2 with one line that names the
// wrong option.
int options_parse(int argc, char **argv, options *out);

#endif
