// 400 MB from one socket to another without a library, plain or by OpenSSL as its own examples use it: the baseline of
// cases with connections.
#ifndef PAIR_H
#define PAIR_H

#include "bench.h"

#include <stddef.h>

typedef struct pair_options {
    int fd;  // connected, and blocks
    bool encrypted;
    size_t bytes;  // of each round
    int rounds;
} pair_options;

void pair_send(pair_options options,
               samples *out);  // a sample for each round, including a reply byte
void pair_receive(pair_options options);

void pair_check(bool done, const char *what);  // ends the process

#endif
