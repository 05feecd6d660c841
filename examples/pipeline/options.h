// The command line of pipeline.
#ifndef OPTIONS_H
#define OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

enum { STAGES = 3 };

typedef struct options {
    const char *schedule;  // "1f1b" or "fill-drain"
    int64_t micro_batches, batch, epochs, width, seed;
    double lr;
    bool check, stats;
    const char *data, *plot;  // files; NULL: the repository's, none
} options;

// Fills |out|. Returns -1 if the program continues, else the exit code: 0 after --help, 2 with one line that names the
// wrong option.
int options_parse(int argc, char **argv, options *out);

#endif
