// RPC collectives: one operation that several named workers, its participants, enter together. The participant with
// the lowest rank is the leader. docs/protocol/collectives.md is the specification.
//
// Ownership: the agent owns all groups until its end. Threads: with the loop lock held.
#ifndef COLLECTIVE_RPC_COLLECTIVE_H
#define COLLECTIVE_RPC_COLLECTIVE_H

#include "call/calls.h"

typedef enum collective_kind { COLLECTIVE_ALL_GATHER, COLLECTIVE_BARRIER } collective_kind;

typedef struct round round;

typedef struct group_member {
    uint32_t rank;
} group_member;

// The participants of collectives, as each of them sees the group.
typedef struct collective_group {
    agent *agent;
    uint64_t entered;  // the last round that this worker has entered
    uint32_t inside;   // count of this worker's threads
    uint64_t over;     // the leader's: the last round that is over
    // The leader's: rounds from |why_first| to |why_last| have ended since a participant was idle.
    gw_error *why;
    uint64_t why_first, why_last;
    round *current;  // the leader's: the next round, once a participant has entered; else NULL
    int count;
    group_member members[];  // by rank; the first is the leader
} collective_group;

// A participant's request to the leader.
typedef struct collective_request {
    collective_kind kind;
    int caller;
    int called_by;  // the caller, if in a function that it has called; -1: its program
    const uint32_t *ranks;
    int count;
    uint64_t number;
    int64_t timeout_ns;  // less than 0: no timeout
} collective_request;

// ---- Groups -------------------------------------------------------------------------------------

map *collective_groups_of(const agent *a);  // by their ranks
collective_group *collective_group_of_on_loop(agent *a, const uint32_t *ranks,
                                              int count);              // NULL if allocation fails
int collective_index_of(const collective_group *m, int rank);          // -1: no participant
const char *collective_name_of(const collective_group *m, int index);  // of that participant

extern const service collective_service;
extern const service_data collective_data;

#endif
