#include "trace/sums.h"

#include "testing/testing.h"

#include <stdio.h>
#include <string.h>

static void each_name_has_a_sum(void **state) {
    (void)state;
    static trace_sums s;
    trace_sums_add(&s, "f", "", false, 10);
    trace_sums_add(&s, "g", "", true, 20);
    trace_sums_add(&s, "f", "", true, -5);  // a clock went back
    trace_sums_add(&s, "f", "world", false, 7);
    assert_int_equal(s.count, 3);
    assert_string_equal(s.of[0].name, "f");
    assert_int_equal(s.of[0].counters[TRACE_SUM_COUNT], 2);
    assert_int_equal(s.of[0].counters[TRACE_SUM_FAILED], 1);
    assert_int_equal(s.of[0].counters[TRACE_SUM_NS], 10);
    assert_string_equal(s.of[1].name, "g");
    assert_string_equal(s.of[2].in, "world");
    assert_int_equal(s.of[2].counters[TRACE_SUM_NS], 7);
}

static void later_names_have_one_sum_together(void **state) {
    (void)state;
    static trace_sums s;
    char name[16];
    for (int pass = 0; pass < 2; pass++)
        for (int i = 0; i < 100; i++) {
            snprintf(name, sizeof name, "f%d", i);
            trace_sums_add(&s, name, "", false, 1);
        }
    assert_int_equal(s.count, TRACE_SUMS_MAX + 1);
    for (int i = 0; i < TRACE_SUMS_MAX; i++) {
        snprintf(name, sizeof name, "f%d", i);
        assert_string_equal(s.of[i].name, name);
        assert_int_equal(s.of[i].counters[TRACE_SUM_COUNT], 2);
    }
    assert_string_equal(s.of[TRACE_SUMS_MAX].name, "");
    assert_int_equal(s.of[TRACE_SUMS_MAX].counters[TRACE_SUM_COUNT], 2 * (100 - TRACE_SUMS_MAX));
}

static void long_names_are_cut_and_found_again(void **state) {
    (void)state;
    static trace_sums s;
    char name[128];
    memset(name, 'x', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    for (int i = 0; i < 3; i++) trace_sums_add(&s, name, name, false, 1);
    assert_int_equal(s.count, 1);
    assert_int_equal(strlen(s.of[0].name), TRACE_SUM_NAME - 1);
    assert_int_equal(strlen(s.of[0].in), TRACE_SUM_IN - 1);
    assert_int_equal(s.of[0].counters[TRACE_SUM_COUNT], 3);
}

GW_TESTS(trace_sums, each_name_has_a_sum, later_names_have_one_sum_together,
         long_names_are_cut_and_found_again);
