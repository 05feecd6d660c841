// Collectives: one operation that several named workers, its participants, enter together. The one
// with the lowest rank is the leader. docs/protocol/collectives.md is the specification.
//
// Ownership: the agent has all groups until its end. Threads: with the loop lock held.
#ifndef COLLECTIVE_COLLECTIVE_H
#define COLLECTIVE_COLLECTIVE_H

#include "call/calls.h"

typedef enum collective_kind { COLLECTIVE_ALL_GATHER, COLLECTIVE_BARRIER } collective_kind;

// The participants of collectives, as each of them sees the group.
typedef struct collective_group {
    agent *agent;
    uint64_t entered;       // the last round that this worker has entered
    uint64_t over;          // the leader's: the last round that is over
    struct round *current;  // the leader's: the next round, once a participant has come; else NULL
    int count;
    uint32_t ranks[];  // ascending; the first is the leader's
} collective_group;

// A participant's request to the leader.
typedef struct collective_request {
    collective_kind kind;
    int caller;
    const uint32_t *ranks;
    int count;
    uint64_t number;
    int64_t timeout_ns;  // less than 0: no timeout
} collective_request;

collective_group *collective_group_of_on_loop(agent *a, const uint32_t *ranks,
                                              int count);  // NULL without memory

extern const service collective_service;

#endif
