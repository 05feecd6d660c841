// Between the leader's side of meetings and the members'.
#ifndef COLLECTIVE_COLLECTIVE_INTERNAL_H
#define COLLECTIVE_COLLECTIVE_INTERNAL_H

#include "future/future.h"
#include "collective/leader.h"

typedef enum gathering_kind { GATHERING_VALUES, GATHERING_BARRIER } gathering_kind;

// Some workers that meet, at each of them.
typedef struct meeting {
    agent *agent;
    uint64_t entered;       // rounds, by this worker
    uint64_t over;          // the leader's: rounds up to this one are
    struct round *current;  // the leader's: the one after it, once somebody has come; else NULL
    int count;
    uint32_t ranks[];  // ascending; the first leads
} meeting;

// What somebody says who comes.
typedef struct entrance {
    gathering_kind kind;
    int caller;
    const uint32_t *ranks;
    int count;
    uint64_t number;
    int64_t patience_ns;  // less than 0: without end
} entrance;

meeting *meeting_of_on_loop(agent *a, const uint32_t *ranks, int count);  // NULL without memory

#endif
