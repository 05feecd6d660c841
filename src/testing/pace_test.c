#include "testing/pace.h"

#include "testing/testing.h"

#define MS INT64_C(1000000)

static pace_clock open_clock(void) {
    return (pace_clock){ .at_ms = 1000, .slowness = 1, .slowness_max = 1 };
}

static void on_an_idle_machine_it_is_the_clock_on_the_wall(void **state) {
    (void)state;
    pace_clock c = open_clock();
    for (int at_ms = 2000; at_ms <= 9000; at_ms += 1000)
        pace_clock_feed(&c, at_ms, 10 * MS, 10 * MS);
    assert_int_equal(pace_clock_read(&c, 9500), 8500);
}

static void while_work_takes_five_times_its_time_it_goes_at_a_fifth(void **state) {
    (void)state;
    pace_clock c = open_clock();
    pace_clock_feed(&c, 1000, 10 * MS, 10 * MS);
    pace_clock_feed(&c, 11000, 50 * MS, 10 * MS);
    assert_int_equal(pace_clock_read(&c, 11000), 2000);
    assert_int_equal(pace_clock_read(&c, 16000), 3000);
    pace_clock_feed(&c, 21000, 10 * MS, 10 * MS);  // idle again, for an unknown time
    assert_int_equal(pace_clock_read(&c, 21000), 4000);
    assert_int_equal(pace_clock_read(&c, 22000), 5000);
    assert_true(c.slowness_max == 5);
}

// A processor that is shared with other machines computes for longer, and is not waited for.
static void a_slow_processor_slows_the_clock(void **state) {
    (void)state;
    pace_clock c = open_clock();
    pace_clock_feed(&c, 1000, 10 * MS, 10 * MS);
    pace_clock_feed(&c, 2000, 30 * MS, 30 * MS);
    assert_true(c.slowness == 3);
}

static void the_clock_always_advances(void **state) {
    (void)state;
    pace_clock c = open_clock();
    pace_clock_feed(&c, 1000, 10 * MS, 10 * MS);
    pace_clock_feed(&c, 1000 + 60000, 60000 * MS, 10 * MS);
    assert_int_equal(pace_clock_read(&c, 61000), 1000);
}

static void tests_read_the_clock_of_the_harness(void **state) {
    (void)state;
    int64_t before_ms = pace_now_ms();
    assert_true(pace_slowness() >= 1 && pace_slowness() <= pace_slowness_max());
    assert_true(pace_slowness_max() <= PACE_MAX);
    while (pace_now_ms() < before_ms + 20) continue;
}

GW_TESTS(testing_pace, on_an_idle_machine_it_is_the_clock_on_the_wall,
         while_work_takes_five_times_its_time_it_goes_at_a_fifth, a_slow_processor_slows_the_clock,
         the_clock_always_advances, tests_read_the_clock_of_the_harness);
