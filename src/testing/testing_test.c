#include "testing/testing.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "testing/runner.h"

// Runs the fixture's tests named |filter| and returns the output of the harness.
static const char *run_fixture(const char *filter) {
    static char output[1 << 16];
    char command[512];
    snprintf(command, sizeof command,
             "GW_TEST_LIMIT_S=1 %s/bin/gradwire-testing-fixture %s 2>&1; echo exit $?",
             GW_BUILD_DIR, filter);
    FILE *pipe = popen(command, "r");
    assert_non_null(pipe);
    size_t size = fread(output, 1, sizeof output - 1, pipe);
    output[size] = '\0';
    pclose(pipe);
    printf("%s", output);
    return output;
}

static void assert_output(const char *output, const char *text) {
    if (!strstr(output, text)) fail_msg("the harness did not print \"%s\"", text);
}

static void it_counts_a_pass_and_hides_its_output(void **state) {
    (void)state;
    const char *output = run_fixture("it_passes");
    assert_output(output, "1 passed, 0 failed, 0 skipped\nexit 0\n");
    assert_null(strstr(output, "output of a passing test"));
}

static void it_counts_a_failed_assertion_and_prints_line_and_note(void **state) {
    (void)state;
    const char *output = run_fixture("it_asserts");
    assert_output(output, "0x1 != 0x2");
    assert_output(output, "failures.c:");
    assert_output(output, "note: this is noted");
    assert_output(output, "0x3 != 0x4");
    assert_output(output, "\n0 passed, 2 failed, 0 skipped\nexit 1\n");
}

static void it_counts_a_crash_and_prints_its_stack(void **state) {
    (void)state;
    const char *output = run_fixture("it_crashes");
    if (!TESTING_ADDRESS_SANITIZER) assert_output(output, "---- stacks of process");
    assert_output(output, "in it_crashes ");
    assert_output(output, "\n0 passed, 1 failed, 0 skipped\nexit 1\n");
}

static void it_counts_an_exit_as_a_failure(void **state) {
    (void)state;
    assert_output(run_fixture("it_exits"), "\n0 passed, 1 failed, 0 skipped\nexit 1\n");
}

static void it_counts_a_skipped_test_apart(void **state) {
    (void)state;
    const char *output = run_fixture("it_skips");
    assert_output(output, "skipped: fixture.it_skips\n1 skipped: there is no moon\n");
    assert_output(output, "\n0 passed, 0 failed, 1 skipped\n");
}

static void it_prints_all_stacks_of_a_hang(void **state) {
    (void)state;
    const char *output = run_fixture("it_hangs");
    assert_output(output, "ran longer than");
    assert_output(output, "in wait_forever_here ");
    assert_output(output, "\n0 passed, 1 failed, 0 skipped\nexit 1\n");
}

static void it_fails_when_no_test_has_the_name(void **state) {
    (void)state;
    assert_output(run_fixture("no_such_test"), "0 passed, 0 failed, 0 skipped\nexit 1\n");
}

static void it_divides_repetitions_by_SCALE(void **state) {
    (void)state;
    setenv("SCALE", "10", 1);
    assert_int_equal(testing_scaled(1000), 100);
    assert_int_equal(testing_scaled(3), 1);
    unsetenv("SCALE");
    assert_int_equal(testing_scaled(1000), 1000);
}

static void its_limit_grows_by_the_patience_of_a_test(void **state) {
    (void)state;
    int patient_ms = testing_patient_ms(100000);
    testing_patient_ms(10);
    assert_true(*testing_patience_ms >= patient_ms - 100000);
}

static void sum_seeds(uint64_t seed, void *context) {
    *(uint64_t *)context += seed;
}

static void it_runs_the_given_seeds(void **state) {
    (void)state;
    uint64_t sum = 0;
    unsetenv("SCALE");
    unsetenv("SEED");
    unsetenv("SEEDS");
    testing_for_seeds(4, sum_seeds, &sum);
    assert_int_equal(sum, 1 + 2 + 3 + 4);
    setenv("SEEDS", "2", 1);
    testing_for_seeds(4, sum_seeds, &sum);
    assert_int_equal(sum, 10 + 1 + 2);
    setenv("SEED", "7", 1);
    testing_for_seeds(4, sum_seeds, &sum);
    assert_int_equal(sum, 13 + 7);
}

typedef struct allocation_trace {
    char runs[16][4];  // one character per allocation: y succeeded, n failed
    int run_count;
} allocation_trace;

static void allocate_twice(void *context) {
    allocation_trace *trace = context;
    char *results = trace->runs[trace->run_count++];
    for (int i = 0; i < 2; i++) {
        void *p = mem_alloc(100);
        results[i] = p ? 'y' : 'n';
        mem_free(p);
    }
}

static void it_fails_each_allocation_alone_and_with_all_later_ones(void **state) {
    (void)state;
    allocation_trace trace = { 0 };
    testing_alloc_failure_loop(allocate_twice, &trace);
    const char *expected[] = { "yy", "ny", "yn", "yy", "nn", "yn", "yy" };
    assert_int_equal(trace.run_count, 7);
    for (int i = 0; i < 7; i++) assert_string_equal(trace.runs[i], expected[i]);
}

GW_TESTS_WITH_LIMIT(testing, 120, it_counts_a_pass_and_hides_its_output,
                    it_counts_a_failed_assertion_and_prints_line_and_note,
                    it_counts_a_crash_and_prints_its_stack, it_counts_an_exit_as_a_failure,
                    it_counts_a_skipped_test_apart, it_prints_all_stacks_of_a_hang,
                    it_fails_when_no_test_has_the_name, it_divides_repetitions_by_SCALE,
                    its_limit_grows_by_the_patience_of_a_test, it_runs_the_given_seeds,
                    it_fails_each_allocation_alone_and_with_all_later_ones);
