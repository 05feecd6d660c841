// Waits for a worker whose program makes no further calls, in real processes: docs/protocol/waits.md. No wait has a
// timeout, so that the limit of the test finds one that does not end.
#include "../support/launched.h"
#include "testing/testing.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static result run_case(int workers, const char *name, const char *what) {
    char program[512], count[8];
    const char *build = launched_path();
    snprintf(program, sizeof program, "%.*s/case-%s", (int)(strrchr(build, '/') - build), build,
             name);
    snprintf(count, sizeof count, "%d", workers);
    return RUN("run", "-n", count, "--on-failure=keep", "--", program, what);
}

static void expect_text(const char *out, const char *text) {
    if (!strstr(out, text)) fail_msg("\"%s\" is not in:\n%s", text, out);
}

static int count_lines(const char *out, const char *text) {
    int count = 0;
    for (const char *at = out; (at = strstr(at, text)); at++) count++;
    return count;
}

// |other|: the text before the cause in the error of worker1.
static void expect_cause(const char *name, const char *what, const char *other, const char *cause) {
    char text[256];
    testing_note("%s %s", name, what);
    result r = run_case(2, name, what);
    testing_note("%s", r.err);
    assert_int_not_equal(r.code, 0);
    // The first line of the job is the cause, with the name of the worker.
    snprintf(text, sizeof text, "worker0: %s", cause);
    const char *first = strstr(r.err, text), *end = strchr(r.err, '\n');
    if (!first || first > end) fail_msg("the first line is not \"%s\":\n%s", text, r.err);
    snprintf(text, sizeof text, "%s%s", other, cause);
    expect_text(r.err, text);
    assert_null(strstr(r.err, "waits in gw_rpc_shutdown"));
    forget(r);
}

static void a_program_that_fails_before_it_opens_a_group_ends_all_waits_for_it(void **state) {
    (void)state;
    static const char *const waits[] = { "recv", "named", "rpcbarrier" };
    for (size_t i = 0; i < sizeof waits / sizeof waits[0]; i++)
        expect_cause("failed_before_group_matrix", waits[i],
                     "worker0 has failed: ", "missing.safetensors");
}

// It refuses to open the group, which fails on the other worker.
static void a_program_that_opens_a_group_in_a_failed_scope_fails_it_on_all(void **state) {
    (void)state;
    static const char *const waits[] = { "ddp", "world", "split", "shard" };
    expect_cause("failed_before_group", "",
                 "group \"world\": worker0: ", "train.csv: no such file");
    for (size_t i = 0; i < sizeof waits / sizeof waits[0]; i++)
        expect_cause("failed_before_group_matrix", waits[i],
                     "group \"world\": worker0: ", "missing.safetensors");
}

// In a group that the program has opened it enters the collective as failed.
static void a_program_that_fails_in_a_group_fails_the_next_collective(void **state) {
    (void)state;
    expect_cause("failed_before_group_matrix", "opened",
                 "worker1: group \"world\": collective 1: worker0: ", "missing.safetensors");
    expect_cause("failed_before_group_matrix", "ddpopened",
                 "group \"world\": collective 1 of openings: worker0: ", "missing.safetensors");
}

static void a_worker_in_shutdown_ends_all_waits_for_it(void **state) {
    (void)state;
    static const char *const waits[] = { "recv", "recv_any", "send", "batch", "barrier" };
    for (size_t i = 0; i < sizeof waits / sizeof waits[0]; i++) {
        char text[64];
        result r = run_case(2, "recv_shutdown", waits[i]);
        snprintf(text, sizeof text, "%s: disconnected: ", waits[i]);
        testing_note("%s", r.err);
        expect_text(r.out, text);
        expect_text(r.out, "worker1 has called gw_rpc_shutdown");
        assert_int_equal(r.code, 0);
        forget(r);
    }
}

// An agreement is among the remaining members, as after a loss.
static void a_worker_in_shutdown_is_missing_in_agreements(void **state) {
    (void)state;
    result r = run_case(2, "recv_shutdown", "agree");
    testing_note("%s", r.err);
    expect_text(r.out, "agree: ok: , without worker1");
    assert_int_equal(r.code, 0);
    forget(r);
}

static void trainers_in_shutdown_train_for_a_master(void **state) {
    (void)state;
    result r = run_case(4, "tutorial_ddp_rpc", "");
    testing_note("%s", r.err);
    assert_int_equal(r.code, 0);
    char first[64] = "", second[64] = "";
    const char *a = strstr(r.out, "trainer 0: "), *b = strstr(r.out, "trainer 1: ");
    assert_non_null(a);
    assert_non_null(b);
    sscanf(a, "trainer 0: %63s", first);
    sscanf(b, "trainer 1: %63s", second);
    assert_string_equal(first, second);
    assert_int_equal(count_lines(r.err, "gw_rpc_shutdown"), 0);
    forget(r);
}

GW_TESTS(waits, a_program_that_fails_before_it_opens_a_group_ends_all_waits_for_it,
         a_program_that_opens_a_group_in_a_failed_scope_fails_it_on_all,
         a_program_that_fails_in_a_group_fails_the_next_collective,
         a_worker_in_shutdown_ends_all_waits_for_it, a_worker_in_shutdown_is_missing_in_agreements,
         trainers_in_shutdown_train_for_a_master);
