// A backend of collectives made of memory, for members that are in one process: a simulated cluster. This backend uses
// only the order in which each member starts its calls in a channel, or their keys, and delays the calls. Tests remove
// operations, hold calls back, and let some fail.
//
//     memory_backend_reset();
//     memory_backend.operations = 1u << OPERATION_BROADCAST;   // the rest is composed, or goes over sessions
//     ... on each member: gw_group_world(s, .backend = memory_backend_at(s)) ...
//     assert_int_equal(memory_backend_counts.under_way, 0);
#ifndef TESTING_MEMORY_BACKEND_H
#define TESTING_MEMORY_BACKEND_H

#include "collective/backend/backend.h"

#include <gradwire/scope.h>

extern backend memory_backend;  // "memory"; it has all operations of backends

extern struct memory_backend_counts {
    int begun;         // calls of all members
    int under_way;     // of these, that have not ended
    int side_by_side;  // the most that a member had under way at once
    int aborted;       // that were under way when their groups broke
    int opened;        // communicators
} memory_backend_counts;

// Faults of calls, by the order in which a member of a group begins them, from 0; -1: of none.
extern struct memory_backend_faults {
    int held;  // does not end before its member has another one under way
    int late;  // does not end for |late_ms|
    int late_ms;
    int failing, failing_at;  // that one, at the member of that index
} memory_backend_faults;

// Nothing is under way, counts are 0, there are no faults, and the table is whole.
void memory_backend_reset(void);
// Its name; |s| is of the member that is to use it.
const char *memory_backend_at(const gw_scope *s);

#endif
