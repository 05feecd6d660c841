// Random programs of groups under faults. Each seed belongs to one kind, so that `make sim SEED=n`
// repeats one run.
#include "group_walk.h"

#include "testing/testing.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum { SEEDS = 1200 };

typedef struct walks {
    group_walk_kind kind;
    uint64_t seeds;
    group_walk_outcome sum;
} walks;

static void run_seed(uint64_t seed, void *context) {
    walks *w = context;
    if (seed % GROUP_WALK_KIND_COUNT != (uint64_t)w->kind) return;
    group_walk_outcome o = group_walk_run(seed, w->kind);
    w->seeds++;
    w->sum.collectives += o.collectives;
    w->sum.failed += o.failed;
    w->sum.mistakes += o.mistakes;
}

static void walk_through(group_walk_kind kind) {
    walks w = { .kind = kind };
    testing_for_seeds(SEEDS, run_seed, &w);
    printf("%" PRIu64 " seeds, %" PRIu64 " collectives, %" PRIu64 " errors, %" PRIu64 " mistakes\n",
           w.seeds, w.sum.collectives, w.sum.failed, w.sum.mistakes);
    // group_walk_run checks each walk.
    if (!getenv("SEED")) assert_true(w.sum.collectives > 0);
}

static void groups_compute_what_one_process_does(void **state) {
    (void)state;
    walk_through(GROUP_WALK_CALM);
}

static void they_survive_lost_and_repeated_frames(void **state) {
    (void)state;
    walk_through(GROUP_WALK_LOSSY);
}

static void members_get_the_errors_of_mistakes_and_continue(void **state) {
    (void)state;
    walk_through(GROUP_WALK_MISTAKES);
}

static void mistakes_are_reported_when_frames_are_lost(void **state) {
    (void)state;
    walk_through(GROUP_WALK_MISTAKES_LOSSY);
}

static void a_crash_breaks_the_groups_of_the_crashed_member(void **state) {
    (void)state;
    walk_through(GROUP_WALK_CRASHES);
}

static void a_stopped_member_is_waited_for_or_lost(void **state) {
    (void)state;
    walk_through(GROUP_WALK_STOPS);
}

static void a_partition_is_waited_for_or_breaks_groups(void **state) {
    (void)state;
    walk_through(GROUP_WALK_PARTITIONS);
}

static void a_member_that_leaves_early_is_named(void **state) {
    (void)state;
    walk_through(GROUP_WALK_LEAVES);
}

static void all_faults_and_mistakes_occur_together(void **state) {
    (void)state;
    walk_through(GROUP_WALK_ALL);
}

GW_TESTS_WITH_LIMIT(group_walk_sim, 120, groups_compute_what_one_process_does,
                    they_survive_lost_and_repeated_frames,
                    members_get_the_errors_of_mistakes_and_continue,
                    mistakes_are_reported_when_frames_are_lost,
                    a_crash_breaks_the_groups_of_the_crashed_member,
                    a_stopped_member_is_waited_for_or_lost,
                    a_partition_is_waited_for_or_breaks_groups, a_member_that_leaves_early_is_named,
                    all_faults_and_mistakes_occur_together);
