// Which workers are stuck, by tables that are made by hand: tools/gradwire/observe/stuck.c.
#include "testing/testing.h"

#include "../support/images.h"
#include "observe/stuck.h"
#include "trace/kinds.h"

#define SECOND_NS INT64_C(1000000000)

static void wait_in_barrier(images *x, int rank, int missing, int seconds) {
    trace_activity *a = images_add(x, rank, TRACE_WAITS_COLLECTIVE, "barrier", seconds);
    a->number = 1;
    IMAGES_SET(a->in, "world");
    images_wait_for(a, missing);
}

static trace_activity *wait_for_reply(images *x, int rank, int callee, int seconds) {
    trace_activity *a = images_add(x, rank, TRACE_WAITS_REPLY, "f", seconds);
    a->number = 3;
    images_wait_for(a, callee);
    return a;
}

// The stuck ranks as bits, and closes |x|.
static unsigned stuck_of(images *x, int seconds) {
    bool is_stuck[IMAGES_MAX];
    unsigned bits = 0;
    assert_true(stuck_find(x->of, x->count, seconds * SECOND_NS, is_stuck));
    for (int i = 0; i < x->count; i++) bits |= (unsigned)is_stuck[i] << i;
    images_close(x);
    return bits;
}

static void a_program_that_computes_while_others_wait_is_stuck(void **state) {
    (void)state;
    images x;
    images_open(&x, 3);
    wait_in_barrier(&x, 0, 1, 60);
    wait_in_barrier(&x, 2, 1, 60);
    assert_int_equal(stuck_of(&x, 30), 1U << 1);
}

static void no_worker_is_stuck_before_the_time(void **state) {
    (void)state;
    images x;
    images_open(&x, 2);
    wait_in_barrier(&x, 0, 1, 20);
    assert_int_equal(stuck_of(&x, 30), 0);
    images_open(&x, 2);
    assert_int_equal(stuck_of(&x, 30), 0);
}

static void a_body_is_stuck_only_if_its_caller_waits(void **state) {
    (void)state;
    images x;
    images_open(&x, 2);
    wait_for_reply(&x, 0, 1, 60);
    images_add_of(&x, 1, TRACE_RUNS, "f", 60, 0, 3);
    assert_int_equal(stuck_of(&x, 30), 1U << 1);
    images_open(&x, 2);
    images_add_of(&x, 1, TRACE_RUNS, "f", 60, 0, 3);
    assert_int_equal(stuck_of(&x, 30), 0);
    // The caller is on another host.
    images_open(&x, 1);
    images_add_of(&x, 0, TRACE_RUNS, "f", 60, 4, 3);
    assert_int_equal(stuck_of(&x, 30), 0);
}

static void workers_that_wait_for_each_other_are_not_stuck(void **state) {
    (void)state;
    images x;
    images_open(&x, 3);
    wait_for_reply(&x, 0, 1, 60);
    images_add_of(&x, 1, TRACE_RUNS, "f", 60, 0, 3);
    trace_activity *back = images_add_of(&x, 1, TRACE_WAITS_OTHER, "recv", 60, 0, 3);
    images_wait_for(back, 0);
    wait_in_barrier(&x, 2, 0, 60);
    assert_int_equal(stuck_of(&x, 30), 0);
}

static void stopped_and_ended_workers_are_handled_elsewhere(void **state) {
    (void)state;
    static const image_life lives[] = { IMAGE_STOPPED, IMAGE_HAS_ENDED };
    for (int i = 0; i < 2; i++) {
        images x;
        images_open(&x, 2);
        wait_in_barrier(&x, 0, 1, 60);
        x.of[1].life = lives[i];
        assert_int_equal(stuck_of(&x, 30), 0);
    }
}

static void progress_is_own_calls_and_collectives(void **state) {
    (void)state;
    images x;
    stuck_progress p = { 0 };
    images_open(&x, 1);
    assert_false(stuck_has_stopped(&p, 100000, 1000));
    stuck_update(&p, &x.of[0], 1000);
    assert_false(stuck_has_stopped(&p, 1999, 1000));
    assert_true(stuck_has_stopped(&p, 2000, 1000));
    // A worker whose program hangs still serves the calls of others.
    images_table(&x, 0)->counters[TRACE_CALLS_SERVED]++;
    stuck_update(&p, &x.of[0], 2000);
    assert_true(stuck_has_stopped(&p, 2000, 1000));
    static const trace_counter own[] = { TRACE_CALLS_MADE, TRACE_COLLECTIVES };
    for (int i = 0; i < 2; i++) {
        images_table(&x, 0)->counters[own[i]]++;
        stuck_update(&p, &x.of[0], 3000 + 1000 * i);
        assert_false(stuck_has_stopped(&p, 3999 + 1000 * i, 1000));
    }
    images_close(&x);
}

static void a_step_of_an_optimizer_or_of_a_job_counts(void **state) {
    (void)state;
    static const struct {
        trace_kind kind;
        bool counts;
    } rows[] = { { TRACE_STEP_BEGUN, false },
                 { TRACE_STEP_ENDED, true },
                 { TRACE_ELASTIC_STEP, true },
                 { TRACE_COLLECTIVE_ENDED, false } };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        images x;
        images_open(&x, 1);
        assert_false(stuck_has_stepped(&x.of[0]));
        images_record(&x, 0, (int)rows[i].kind, 1, "");
        images_record(&x, 0, TRACE_COLLECTIVE_ENTERED, 2, "");
        assert_int_equal(stuck_has_stepped(&x.of[0]), rows[i].counts);
        images_close(&x);
    }
}

GW_TESTS(observe_stuck, a_program_that_computes_while_others_wait_is_stuck,
         no_worker_is_stuck_before_the_time, a_body_is_stuck_only_if_its_caller_waits,
         workers_that_wait_for_each_other_are_not_stuck,
         stopped_and_ended_workers_are_handled_elsewhere, progress_is_own_calls_and_collectives,
         a_step_of_an_optimizer_or_of_a_job_counts);
