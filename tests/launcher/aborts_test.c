// Collectives that end with an error on all members, in jobs of processes: tests/cases/{roots,quoted_abort,refused_locally}.
#include "testing/testing.h"

#include <stdio.h>
#include <string.h>

#include "../support/launched.h"

static void expect_lines(const result *r, const char *const *lines) {
    for (; *lines; lines++)
        if (!strstr(r->out, *lines)) fail_msg("no \"%s\" in\n%s%s", *lines, r->out, r->err);
}

// ---- Roots --------------------------------------------------------------------------------------

enum { RUNS_OF_ROOTS = 3 };

// By the first barrier, or by shutdown where there is none; then there is no later call.
static void find_roots(int members, const char *operation, int barriers) {
    result r = finish(launch_command("./gradwire run -n %d --on-failure=keep -- ./case-roots %s %d",
                                     members, operation, barriers));
    if (!r.code || strstr(r.out, "call 2"))
        fail_msg("%s, %d barriers: code %d\n%s%s", operation, barriers, r.code, r.out, r.err);
    for (int rank = 0; rank < members; rank++) {
        char reported[3][64];
        snprintf(reported[0], sizeof reported[0], "rank %d call 0: mismatch", rank);
        snprintf(reported[1], sizeof reported[1], "rank %d call 1: mismatch", rank);
        snprintf(reported[2], sizeof reported[2], "rank %d shutdown: mismatch", rank);
        if (!strstr(r.out, reported[0]) && !strstr(r.out, reported[barriers ? 1 : 2]))
            fail_msg("%d members, %s, %d barriers:\n%s%s", members, operation, barriers, r.out,
                     r.err);
    }
    forget(r);
}

static void different_roots_are_found_by_the_next_call(void **state) {
    (void)state;
    static const char *const operations[] = { "broadcast", "scatter", "reduce", "gather" };
    for (int i = 0; i < RUNS_OF_ROOTS; i++)
        for (int o = 0; o < 4; o++)
            for (int barriers = 0; barriers <= 2; barriers++)
                for (int members = 2; members <= 4; members++)
                    find_roots(members, operations[o], barriers);
}

// ---- Steps --------------------------------------------------------------------------------------

static void expect_steps(const char *command, const char *const *lines) {
    result r = finish(launch_command("./gradwire run -n 2 -- %s", command));
    assert_int_equal(r.code, 0);
    expect_lines(&r, lines);
    forget(r);
}

static void an_error_that_quotes_another_one_stays_distinct(void **state) {
    (void)state;
    static const char *const lines[] = {
        "rank 0 step 1: mismatch", "rank 1 step 1: mismatch", "rank 0 step 2: invalid",
        "rank 1 step 2: invalid",  "rank 0 step 3: sum 61",   "rank 1 step 3: sum 61",
        "rank 0 step 4: sum 81",   "rank 1 step 4: sum 81",   NULL
    };
    expect_steps("./case-quoted_abort", lines);
    expect_steps("./case-quoted_abort quote", lines);
}

static void a_refused_call_fails_that_step_on_all(void **state) {
    (void)state;
    static const char *const lines[] = {
        "rank 0 step 1: sum 21",  "rank 1 step 1: sum 21", "rank 0 step 2: invalid",
        "rank 1 step 2: invalid", "rank 0 step 3: sum 61", "rank 1 step 3: sum 61",
        "rank 0 step 4: sum 81",  "rank 1 step 4: sum 81", NULL
    };
    expect_steps("./case-refused_locally", lines);
}

GW_TESTS(aborts, different_roots_are_found_by_the_next_call,
         an_error_that_quotes_another_one_stays_distinct, a_refused_call_fails_that_step_on_all);
