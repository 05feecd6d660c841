// Counter-based random numbers: Philox 4x32-10 (Salmon et al., "Parallel random numbers: as easy as
// 1, 2, 3", 2011).
//
// A generator is a key and a counter. The n-th block of a key is a pure function of both, so a
// stream can be split, and drawn from in parallel, without changing its numbers.
#ifndef BASE_RANDOM_H
#define BASE_RANDOM_H

#include <stdint.h>

typedef struct generator {
    uint64_t key;
    uint64_t counter;  // blocks taken so far
} generator;

#define GENERATOR_DEFAULT_SEED UINT64_C(67280421310721)  // as in PyTorch

// The four 32-bit numbers of block |counter| under |key|.
void philox(uint64_t key, uint64_t counter, uint32_t out[4]);

// Reserves |blocks| blocks and returns the number of the first.
static inline uint64_t generator_take(generator *g, uint64_t blocks) {
    uint64_t first = g->counter;
    g->counter += blocks;
    return first;
}

// The key of the independent stream number |n|: the generator is unchanged.
uint64_t generator_split(const generator *g, uint64_t n);

#endif
