// The command line of rl_cartpole.
#ifndef OPTIONS_H
#define OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

typedef struct options {
    int64_t world_size, log_interval, max_episodes, seed;
    double gamma;
    bool stats;
    const char *plot;  // file, or NULL
} options;

// Fills |out|. Returns -1 if the program continues, else the exit code: 0 after --help, 2 with one line that names the
// wrong option.
int options_parse(int argc, char **argv, options *out);

#endif
