// Which member the others wait for, by records that are made by hand: tools/gradwire/observe/straggler.c.
#include "testing/testing.h"

#include "../support/images.h"
#include "observe/straggler.h"
#include "trace/kinds.h"

enum { MS = 1000000, STEP_MS = 10 };

// A step of 10 ms, in which |rank| enters the collective after |after_ms|.
static void add_step(images *x, int rank, int step, int after_ms) {
    int64_t begin_ns = (int64_t)step * STEP_MS * MS;
    images_record(x, rank, TRACE_COLLECTIVE_ENTERED, begin_ns + (int64_t)after_ms * MS, "world");
    image_thread *t = &x->of[rank].threads[0];
    t->records[t->record_count - 1].id = (uint64_t)step + 1000;
    images_record(x, rank, TRACE_STEP_ENDED, begin_ns + (int64_t)(STEP_MS - 1) * MS, "");
}

static void the_share_of_the_time_that_all_others_wait(void **state) {
    (void)state;
    images x;
    double share;
    images_open(&x, 3);
    for (int step = 0; step <= 50; step++) {
        add_step(&x, 0, step, 1);
        add_step(&x, 1, step, 7);
        add_step(&x, 2, step, 3);
    }
    assert_int_equal(straggler_find(x.of, x.count, 50, &share), 1);
    assert_float_equal(share, 0.4, 1e-9);
    images_close(&x);
}

static void members_that_are_late_in_turn_share_the_waits(void **state) {
    (void)state;
    images x;
    double share;
    images_open(&x, 2);
    for (int step = 0; step <= 50; step++) {
        add_step(&x, 0, step, step % 2 ? 1 : 5);
        add_step(&x, 1, step, step % 2 ? 5 : 1);
    }
    assert_true(straggler_find(x.of, x.count, 50, &share) >= 0);
    assert_float_equal(share, 0.2, 1e-9);
    images_close(&x);
}

// Two collectives are entered late together: the others wait once.
static void waits_at_one_time_count_once(void **state) {
    (void)state;
    images x;
    double share;
    images_open(&x, 2);
    for (int step = 0; step <= 50; step++) {
        for (int k = 0; k < 2; k++) {
            int64_t at_ns = (int64_t)step * STEP_MS * MS;
            for (int rank = 0; rank < 2; rank++) {
                images_record(&x, rank, TRACE_COLLECTIVE_ENTERED, at_ns + (rank ? 6 : 1) * MS, "");
                image_thread *t = &x.of[rank].threads[0];
                t->records[t->record_count - 1].id = (uint64_t)(2 * step + k);
            }
        }
        for (int rank = 0; rank < 2; rank++)
            images_record(&x, rank, TRACE_STEP_ENDED, (int64_t)(step * STEP_MS + 9) * MS, "");
    }
    assert_int_equal(straggler_find(x.of, x.count, 50, &share), 1);
    assert_float_equal(share, 0.5, 1e-9);
    images_close(&x);
}

// A worker that makes no steps, such as a parameter server, is no member.
static void all_members_must_have_made_the_steps(void **state) {
    (void)state;
    images x;
    double share;
    images_open(&x, 3);
    images_record(&x, 2, TRACE_COLLECTIVE_ENTERED, 1, "");
    for (int step = 0; step <= 50; step++) add_step(&x, 0, step, 1);
    assert_int_equal(straggler_find(x.of, x.count, 50, &share), -1);
    for (int step = 0; step <= 50; step++) {
        assert_int_equal(straggler_find(x.of, x.count, 50, &share), -1);
        add_step(&x, 1, step, 7);
    }
    assert_int_equal(straggler_find(x.of, x.count, 50, &share), 1);
    assert_float_equal(share, 0.6, 1e-9);
    images_close(&x);
}

GW_TESTS(observe_straggler, the_share_of_the_time_that_all_others_wait,
         members_that_are_late_in_turn_share_the_waits, waits_at_one_time_count_once,
         all_members_must_have_made_the_steps);
