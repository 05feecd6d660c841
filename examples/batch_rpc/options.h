// The command line of batch_rpc.
#ifndef OPTIONS_H
#define OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

typedef struct options {
    const char *form;  // "server" or "agent"
    int64_t world_size, batch, epochs, steps, episodes, seed;
    double lr, gamma;
    bool no_batch;
    const char *data, *plot;
} options;

// Fills |out|. Returns -1 if the program continues, else the exit code: 0 after --help, 2 with one line that names the
// wrong option.
int options_parse(int argc, char **argv, options *out);

#endif
