// Mutations: rules of the protocols that a test build can leave out, one at a time, to check
// that the simulator detects it. In the library each mutation is the constant false.
//
//     if (!has_mutation(MUTATION_NO_TOMBSTONE)) remember(id);
//
// The environment variable GW_MUTATION names the active one: the constant's name in lower
// case, "no_tombstone". A new mutation is a line of mutation_list.h, and a place where it applies.
//
// Threads: chosen before main.
#ifndef BASE_MUTATION_H
#define BASE_MUTATION_H

#include <stdbool.h>

typedef enum mutation {
    MUTATION_NONE,
#define MUTATION(name) MUTATION_##name,
#include "base/mutation_list.h"
    MUTATION_BUG_COUNT
} mutation;

#ifdef GW_MUTATIONS
extern mutation mutation_now;
#define has_mutation(bug) (mutation_now == (bug))
#else
#define has_mutation(bug) false
#endif

#endif
