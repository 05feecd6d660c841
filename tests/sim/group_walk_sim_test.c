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
    // Each walk is judged by group_walk_run, where it goes wrong.
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

static void members_that_make_mistakes_are_told_and_go_on(void **state) {
    (void)state;
    walk_through(GROUP_WALK_MISTAKES);
}

static void so_they_are_when_frames_are_lost(void **state) {
    (void)state;
    walk_through(GROUP_WALK_MISTAKES_LOSSY);
}

static void a_crash_breaks_the_groups_of_who_has_crashed(void **state) {
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

static void who_leaves_early_is_named(void **state) {
    (void)state;
    walk_through(GROUP_WALK_LEAVES);
}

static void all_of_it_comes_together(void **state) {
    (void)state;
    walk_through(GROUP_WALK_ALL);
}

GW_TESTS_WITH_LIMIT(group_walk_sim, 120, groups_compute_what_one_process_does,
                    they_survive_lost_and_repeated_frames,
                    members_that_make_mistakes_are_told_and_go_on, so_they_are_when_frames_are_lost,
                    a_crash_breaks_the_groups_of_who_has_crashed,
                    a_stopped_member_is_waited_for_or_lost,
                    a_partition_is_waited_for_or_breaks_groups, who_leaves_early_is_named,
                    all_of_it_comes_together);
