// What the page of a job keeps of the past, over days of virtual time.
#include "testing/testing.h"

#include <math.h>

#include "monitor/history.h"

static history *make(void) {
    history *h = test_malloc(sizeof *h);
    history_init(h);
    return h;
}

// The same for all series.
static void add(history *h, int64_t second, double value) {
    double values[HISTORY_SERIES];
    for (int s = 0; s < HISTORY_SERIES; s++) values[s] = value;
    history_add(h, second, values);
}

static double value(const history *h, history_span span, int64_t now, int age) {
    return history_value(h, span, HISTORY_MEMORY, now, age);
}

static void seconds_are_kept_for_ten_minutes(void **state) {
    (void)state;
    history *h = make();
    assert_true(isnan(value(h, HISTORY_BY_SECOND, 1000, 0)));
    for (int64_t t = 1000; t < 1700; t++) add(h, t, (double)t);
    for (int age = 0; age < HISTORY_SECONDS; age++)
        assert_true(value(h, HISTORY_BY_SECOND, 1699, age) == 1699 - age);
    assert_true(isnan(value(h, HISTORY_BY_SECOND, 1699, HISTORY_SECONDS)));
    // Five seconds later, without new values.
    assert_true(isnan(value(h, HISTORY_BY_SECOND, 1704, 4)));
    assert_true(value(h, HISTORY_BY_SECOND, 1704, 5) == 1699);
    assert_true(isnan(value(h, HISTORY_BY_SECOND, 1704, -1)));
    test_free(h);
}

static void a_second_without_a_measurement_is_a_gap(void **state) {
    (void)state;
    history *h = make();
    add(h, 100, 1);
    add(h, 103, 2);
    add(h, 103, 9);  // the same second again
    add(h, 90, 9);   // an earlier one
    assert_true(value(h, HISTORY_BY_SECOND, 103, 0) == 2);
    assert_true(isnan(value(h, HISTORY_BY_SECOND, 103, 1)));
    assert_true(isnan(value(h, HISTORY_BY_SECOND, 103, 2)));
    assert_true(value(h, HISTORY_BY_SECOND, 103, 3) == 1);
    assert_true(isnan(value(h, HISTORY_BY_SECOND, 103, 13)));
    test_free(h);
}

// A monitor that was stopped for hours shows nothing of what was before.
static void a_long_gap_leaves_nothing_old(void **state) {
    (void)state;
    static const int64_t gaps[] = { 599, 600, 601, 86399, 86400, 86460, 1000000 };
    for (size_t g = 0; g < sizeof gaps / sizeof gaps[0]; g++) {
        history *h = make();
        for (int64_t t = 1; t < 2000; t++) add(h, t, 5);
        int64_t now = 1999 + gaps[g];
        add(h, now, 7);
        assert_true(value(h, HISTORY_BY_SECOND, now, 0) == 7);
        for (int age = 1; age < HISTORY_SECONDS && age < gaps[g]; age++)
            assert_true(isnan(value(h, HISTORY_BY_SECOND, now, age)));
        for (int age = 1; age < HISTORY_MINUTES; age++) {
            double x = value(h, HISTORY_BY_MINUTE, now, age);
            bool is_old = now / 60 - age <= 1999 / 60 && now / 60 - age >= 0;
            assert_true(is_old ? x == 5 : isnan(x));
        }
        test_free(h);
    }
}

static void minutes_are_means_and_are_kept_for_a_day(void **state) {
    (void)state;
    history *h = make();
    const int64_t days = 3 * 86400;
    for (int64_t t = 60; t <= days; t++) add(h, t, (double)(t / 60) + (t % 60 < 30 ? 0 : 1));
    int64_t now = days / 60;
    assert_true(value(h, HISTORY_BY_MINUTE, days, 0) == (double)now);  // one second of it so far
    for (int age = 1; age < HISTORY_MINUTES; age++)
        assert_true(value(h, HISTORY_BY_MINUTE, days, age) == (double)(now - age) + 0.5);
    assert_true(isnan(value(h, HISTORY_BY_MINUTE, days, HISTORY_MINUTES)));
    test_free(h);
}

static void means_are_of_equal_parts_of_the_window(void **state) {
    (void)state;
    history *h = make();
    double out[4];
    add(h, 1000, 8);
    assert_int_equal(history_window(h, HISTORY_BY_SECOND, 1000, 60), 60);
    for (int64_t t = 1001; t < 1080; t++) add(h, t, t < 1040 ? 2 : 4);
    assert_int_equal(history_window(h, HISTORY_BY_SECOND, 1079, 60), 80);
    assert_int_equal(history_window(h, HISTORY_BY_SECOND, 9999, 60), HISTORY_SECONDS);
    history_means(h, HISTORY_BY_SECOND, HISTORY_MEMORY, 1079, 80, 4, out);
    assert_true(fabs(out[0] - (8 + 19 * 2) / 20.0) < 1e-9);
    assert_true(out[1] == 2 && out[2] == 4 && out[3] == 4);
    history_means(h, HISTORY_BY_SECOND, HISTORY_MEMORY, 1079, 160, 4, out);
    assert_true(isnan(out[0]) && isnan(out[1]) && out[3] == 4);
    test_free(h);
}

GW_TESTS(monitor_history, seconds_are_kept_for_ten_minutes, a_second_without_a_measurement_is_a_gap,
         a_long_gap_leaves_nothing_old, minutes_are_means_and_are_kept_for_a_day,
         means_are_of_equal_parts_of_the_window);
