// Planted bugs: rules of the protocols that a build for tests can leave out, one at a time, to see that the simulator
// notices. In the library each is the constant false.
//
//     if (!planted(PLANTED_NO_TOMBSTONE)) remember(id);
//
// Threads: chosen before a simulation begins.
#ifndef BASE_PLANTED_H
#define BASE_PLANTED_H

#include <stdbool.h>

typedef enum planted_bug {
    PLANTED_NONE,
    PLANTED_BUG_COUNT = 32
} planted_bug;

#ifdef GW_PLANTED
extern planted_bug planted_now;
#define planted(bug) (planted_now == (bug))
#else
#define planted(bug) false
#endif

#endif
