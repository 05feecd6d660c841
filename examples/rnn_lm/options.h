// The command line of rnn_lm.
#ifndef OPTIONS_H
#define OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

typedef struct options {
    const char *text;  // files
    int64_t vocabulary, features, hidden, layers, batch, length, epochs, seed;
    double dropout, lr, clip;
    bool tiny, stats;
    const char *save, *load, *plot;  // files, or NULL
} options;

// Fills |out|. Returns -1 if the program continues, else the exit code: 0 after --help, 2 with one line that names the
// wrong option.
int options_parse(int argc, char **argv, options *out);

#endif
