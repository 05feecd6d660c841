// Random programs of groups of workers: each goes through steps, in which it calls a few collectives
// of several groups, and makes mistakes if it is told to; all under faults.
//
//     group_walk_outcome o = group_walk_run(seed, GROUP_WALK_CRASHES);
//
// What is checked: a result is what one process computes; in a collective that ends with an error
// all members that hear of it get one sentence; mistakes and faults explain each error; a group that
// is not broken goes on, with all members at the same place; every run ends.
//
// A step begins with an exchange of its number, so that members that have left a step at different
// places are together again in the next one. One walk at a time in a process.
#ifndef TESTS_GROUP_WALK_H
#define TESTS_GROUP_WALK_H

#include "testing/sim.h"

typedef enum group_walk_kind {
    GROUP_WALK_CALM,
    GROUP_WALK_LOSSY,  // frames are lost and come twice, connections break
    GROUP_WALK_MISTAKES,
    GROUP_WALK_MISTAKES_LOSSY,
    GROUP_WALK_CRASHES,
    GROUP_WALK_STOPS,
    GROUP_WALK_PARTITIONS,
    GROUP_WALK_LEAVES,  // a member leaves, or shuts down early
    GROUP_WALK_ALL,
    GROUP_WALK_KIND_COUNT
} group_walk_kind;

typedef struct group_walk_outcome {
    sim_counts counts;
    uint64_t collectives, failed, mistakes, broken;
} group_walk_outcome;

group_walk_outcome group_walk_run(uint64_t seed, group_walk_kind kind);

#endif
