// Random programs of groups of workers, under faults. Each worker takes steps, in which it calls a few collectives of
// several groups and, depending on the kind of walk, makes mistakes.
//
//     group_walk_outcome o = group_walk_run(seed, GROUP_WALK_CRASHES);
//
// It checks that a result is what one process computes; that all members that get an error of one collective get the
// same text; that mistakes and faults explain each error; that a group that is not broken continues, with all members
// at the same collective; and that every run ends.
//
// A step begins with an exchange of its number, so that members that have left a step at different
// places are together again in the next one. One walk at a time in a process.
#ifndef TESTS_GROUP_WALK_H
#define TESTS_GROUP_WALK_H

#include "testing/sim.h"

typedef enum group_walk_kind {
    GROUP_WALK_CALM,
    GROUP_WALK_LOSSY,  // frames are lost and arrive twice, connections break
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
