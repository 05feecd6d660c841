// The command line of fedavg.
#ifndef OPTIONS_H
#define OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

typedef struct options {
    const char *method;  // "avg" or "sgd"
    int64_t clients, rounds, epochs, batch, parameters, seed, timeout_s;
    double lr;
    int64_t await;             // so many clients before the first round
    int64_t add, leave, kill;  // rounds; 0: never
    const char *data, *plot;   // files; NULL: the repository's, none
    const char *at;            // URL of the group; NULL: a file in /tmp

    const char *join;  // of a client: URL; NULL: be the server
    int64_t number;    // of a client: which share of the data it has, from 1
    int64_t shares;    // of how many
} options;

// Fills |out|. Returns -1 if the program continues, else the exit code: 0 after --help, 2 with one line that names the
// wrong option.
int options_parse(int argc, char **argv, options *out);

#endif
