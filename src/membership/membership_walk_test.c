// Random walks: after faults in any order, the workers that are left agree, and the others are
// fenced.
#include "membership/membership.h"

#include "testing/quorum.h"
#include "testing/testing.h"

typedef struct walk {
    int count, steps;
    int64_t delay_max_ns;
    bool joins, parts;
} walk;

static void do_something(quorum *q, const walk *w) {
    int a = (int)quorum_random(q, (uint64_t)q->count),
        b = (int)quorum_random(q, (uint64_t)q->count);
    switch (quorum_random(q, w->parts ? 12 : 9)) {
    case 0: quorum_crash(q, a); return;
    case 1: quorum_leave(q, a); return;
    case 2: quorum_stop(q, a); return;
    case 3:
    case 4: quorum_continue(q, a); return;
    case 5:
        if (a != b) quorum_cut(q, a, b);
        return;
    case 6:
        if (a != b) quorum_heal(q, a, b);
        return;
    case 7:
    case 8:
        if (w->joins && q->count < QUORUM_MAX && quorum_is_up(q, a)) quorum_join(q, a);
        return;
    case 9: quorum_part(q, (unsigned)quorum_random(q, 1u << q->count)); return;
    case 10: quorum_heal_all(q); return;
    default: quorum_cut_one_way(q, a, b == a ? (a + 1) % q->count : b); return;
    }
}

static void walk_with_seed(uint64_t seed, void *context) {
    const walk *w = context;
    quorum q;
    quorum_open(&q, seed, w->count, w->delay_max_ns);
    quorum_run(&q, 3 * QUORUM_SECOND + (int64_t)quorum_random(&q, 40 * QUORUM_SECOND));
    for (int i = 0; i < w->steps; i++) {
        do_something(&q, w);
        uint64_t pause_ns = quorum_random(&q, 3) ? QUORUM_SECOND / 10 : 9 * QUORUM_SECOND;
        quorum_run(&q, q.now_ns + (int64_t)quorum_random(&q, pause_ns));
    }
    quorum_heal_all(&q);
    for (int i = 0; i < q.count; i++) quorum_continue(&q, i);
    quorum_run(&q, q.now_ns + 100 * QUORUM_SECOND);
    quorum_check(&q);
    quorum_close(&q);
}

static void it_agrees_after_ends_stops_and_cuts(void **state) {
    (void)state;
    testing_for_seeds(300, walk_with_seed, &(walk){ .count = 5, .steps = 12 });
    testing_for_seeds(300, walk_with_seed, &(walk){ .count = 8, .steps = 30 });
}

static void it_agrees_after_partitions(void **state) {
    (void)state;
    testing_for_seeds(300, walk_with_seed, &(walk){ .count = 5, .steps = 12, .parts = true });
    testing_for_seeds(300, walk_with_seed, &(walk){ .count = 9, .steps = 30, .parts = true });
}

static void it_agrees_after_joins(void **state) {
    (void)state;
    testing_for_seeds(300, walk_with_seed,
                      &(walk){ .count = 1, .steps = 20, .joins = true, .parts = true });
    testing_for_seeds(300, walk_with_seed,
                      &(walk){ .count = 4, .steps = 30, .joins = true, .parts = true });
}

// Faults occur while only some members have the joining ones, and no quorum does.
static void join_with_seed(uint64_t seed, void *context) {
    const walk *w = context;
    quorum q;
    quorum_open(&q, seed, w->count, w->delay_max_ns);
    quorum_run(&q, 3 * QUORUM_SECOND + (int64_t)quorum_random(&q, QUORUM_SECOND));
    for (int i = 0; i < w->steps; i++) {
        for (int k = 0; k < 3 && q.count < QUORUM_MAX && quorum_is_up(&q, 0); k++)
            quorum_join(&q, 0);
        quorum_run(&q, q.now_ns + (int64_t)quorum_random(&q, 5 * (uint64_t)w->delay_max_ns));
        do_something(&q, w);
        if (quorum_random(&q, 3) == 0) quorum_crash(&q, 0);
        uint64_t pause_ns = quorum_random(&q, 3) ? QUORUM_SECOND / 100 : 9 * QUORUM_SECOND;
        quorum_run(&q, q.now_ns + (int64_t)quorum_random(&q, pause_ns));
    }
    quorum_heal_all(&q);
    for (int i = 0; i < q.count; i++) quorum_continue(&q, i);
    quorum_run(&q, q.now_ns + 100 * QUORUM_SECOND);
    quorum_check(&q);
    quorum_close(&q);
}

static void it_agrees_after_faults_during_joins(void **state) {
    (void)state;
    testing_for_seeds(
        600, join_with_seed,
        &(walk){
            .count = 1, .steps = 4, .delay_max_ns = 10 * QUORUM_MS, .joins = true, .parts = true });
    testing_for_seeds(
        600, join_with_seed,
        &(walk){
            .count = 3, .steps = 6, .delay_max_ns = 10 * QUORUM_MS, .joins = true, .parts = true });
}

static void it_agrees_over_slow_links(void **state) {
    (void)state;
    testing_for_seeds(300, walk_with_seed,
                      &(walk){ .count = 4,
                               .steps = 20,
                               .delay_max_ns = 500 * QUORUM_MS,
                               .joins = true,
                               .parts = true });
}

GW_TESTS(membership_walk, it_agrees_after_ends_stops_and_cuts, it_agrees_after_partitions,
         it_agrees_after_joins, it_agrees_after_faults_during_joins, it_agrees_over_slow_links);
