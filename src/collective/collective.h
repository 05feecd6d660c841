// Collectives: what several named workers do together, led by the lowest rank among them. docs/protocol/collectives.md.
//
// Ownership: the agent has all groups until its end. Threads: with the loop lock.
#ifndef COLLECTIVE_COLLECTIVE_H
#define COLLECTIVE_COLLECTIVE_H

#include "call/calls.h"

typedef enum collective_kind { COLLECTIVE_ALL_GATHER, COLLECTIVE_BARRIER } collective_kind;

// Some workers that meet, at each of them.
typedef struct collective_group {
    agent *agent;
    uint64_t entered;       // rounds, by this worker
    uint64_t over;          // the leader's: rounds up to this one are
    struct round *current;  // the leader's: the one after it, once somebody has come; else NULL
    int count;
    uint32_t ranks[];  // ascending; the first leads
} collective_group;

// What somebody says who comes.
typedef struct collective_request {
    collective_kind kind;
    int caller;
    const uint32_t *ranks;
    int count;
    uint64_t number;
    int64_t patience_ns;  // less than 0: without end
} collective_request;

collective_group *collective_group_of_on_loop(agent *a, const uint32_t *ranks,
                                              int count);  // NULL without memory

extern const service collective_service;

#endif
