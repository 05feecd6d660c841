// Collectives: one operation that several named workers, its participants, enter together. The one
// with the lowest rank is the leader. docs/protocol/collectives.md is the specification.
//
// Ownership: the agent has all groups until its end. Threads: with the loop lock held.
#ifndef COLLECTIVE_COLLECTIVE_H
#define COLLECTIVE_COLLECTIVE_H

#include "call/calls.h"

enum { KIND_EXPECT = 64, KIND_EXCUSE };

typedef enum collective_kind { COLLECTIVE_ALL_GATHER, COLLECTIVE_BARRIER } collective_kind;

typedef struct round round;

typedef struct group_member {
    uint32_t rank;
    bool excused;  // the leader's: it enters no more
    bool alone;    // since it leaves alone
} group_member;

// The participants of collectives, as each of them sees the group.
typedef struct collective_group {
    agent *agent;
    uint64_t entered;  // the last round that this worker has entered
    uint32_t inside;   // of this worker's threads
    bool expected;     // the leader waits for this worker, or has done so
    uint64_t over;     // the leader's: the last round that is over
    round *current;    // the leader's: the next round, once a participant has come; else NULL
    int count;
    group_member members[];  // by rank; the first is the leader
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

// ---- Groups -------------------------------------------------------------------------------------

map *collective_groups_of(const agent *a);  // by their ranks
collective_group *collective_group_of_on_loop(agent *a, const uint32_t *ranks,
                                              int count);              // NULL without memory
int collective_index_of(const collective_group *m, int rank);          // -1: no participant
const char *collective_name_of(const collective_group *m, int index);  // of that participant

// ---- Who enters no more -------------------------------------------------------------------------

// WRONG_STATE if this worker's program has asked to leave.
gw_status collective_check_enters(const agent *a, gw_error *error);
// The leader's: the index of a participant that is missing in the current round, and enters no
// more; -1 without one.
int collective_find_excused(const collective_group *m);
gw_status collective_excused_error(const collective_group *m, int index, gw_error *error);
// The leader's: tells all that are missing that they are expected.
void collective_expect_on_loop(const collective_group *m);
void collective_left_on_loop(collective_group *m);  // none of this worker's threads is inside

// As functions of the service.
gw_status collective_received(agent *a, int from, message *m, gw_error *error);
void collective_leaving(agent *a);

// ---- Rounds -------------------------------------------------------------------------------------

bool collective_has_come(const round *r, int index);
// Fails the current round, if there is one, that a participant has not come to who enters no more.
void collective_fail_excused_on_loop(collective_group *m);

extern const service collective_service, letter_service;

#endif
