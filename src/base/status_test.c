#include "base/status.h"

#include "base/log.h"
#include "base/mem.h"
#include "base/scope.h"

#include "testing/testing.h"

#include <gradwire/value.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void every_status_has_a_name(void **state) {
    (void)state;
    for (int i = 0; i < GW_STATUS_COUNT; i++) {
        assert_non_null(gw_status_name((gw_status)i));
        for (int k = 0; k < i; k++)
            assert_string_not_equal(gw_status_name((gw_status)i), gw_status_name((gw_status)k));
    }
    assert_string_equal(gw_status_name(GW_TIMEOUT), "timeout");
    assert_string_equal(gw_status_name(GW_STATUS_COUNT), "unknown status");
    assert_string_equal(gw_status_name((gw_status)-1), "unknown status");
}

static void every_outcome_has_a_name(void **state) {
    (void)state;
    assert_string_equal(gw_outcome_name(GW_OUTCOME_NONE), "");
    assert_string_equal(gw_outcome_name(GW_NOT_DELIVERED), "not delivered");
    assert_string_equal(gw_outcome_name(GW_MAY_HAVE_RUN), "may have run");
    assert_string_equal(gw_outcome_name(GW_RAN_AND_FAILED), "ran and failed");
    assert_string_equal(gw_outcome_name((gw_outcome)-1), "unknown outcome");
}

static void setting_an_error_fills_all_of_it(void **state) {
    (void)state;
    gw_error e;
    memset(&e, 0x7f, sizeof e);
    assert_int_equal(error_set(&e, GW_INVALID, "rank %d of %d", 5, 4), GW_INVALID);
    assert_int_equal(e.status, GW_INVALID);
    assert_int_equal(e.outcome, GW_OUTCOME_NONE);
    assert_string_equal(e.text, "rank 5 of 4");
    assert_string_equal(e.worker, "");
    assert_string_equal(e.function, "");
    assert_int_equal(error_set(NULL, GW_TIMEOUT, "no listener"), GW_TIMEOUT);
}

static void a_trail_grows_in_front(void **state) {
    (void)state;
    gw_error e;
    error_set(&e, GW_INVALID, "6x5 times 4x8");
    error_prefix(&e, "gw.matmul");
    error_prefix(&e, "ps");
    assert_string_equal(e.text, "ps: gw.matmul: 6x5 times 4x8");
}

static void long_texts_are_cut_and_marked(void **state) {
    (void)state;
    char text[GW_ERROR_TEXT_MAX];
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    gw_error e;
    error_set(&e, GW_INVALID, "%s", text);
    assert_int_equal(strlen(e.text), GW_ERROR_TEXT_MAX - 1);
    error_prefix(&e, "ps");
    assert_int_equal(strlen(e.text), GW_ERROR_TEXT_MAX - 1);
    assert_memory_equal(e.text, "ps: xxx", 7);
    assert_string_equal(e.text + GW_ERROR_TEXT_MAX - 5, "x...");
}

// The text of the error may be anything.
static void an_error_names_the_collectives_that_ended_with_it(void **state) {
    (void)state;
    gw_error e;
    char prefix[GW_ERROR_TEXT_MAX];
    memset(prefix, 'x', sizeof prefix);
    prefix[sizeof prefix - 1] = '\0';
    error_set(&e, GW_MISMATCH, "members differ");
    assert_int_equal(error_abort_count(&e), 0);
    for (uint64_t i = 1; i <= GW_ERROR_ABORTS_MAX + 1; i++)
        error_add_abort(&e, (gw_abort){ .group = i, .key = 7, .number = 10 * i });
    error_prefix(&e, prefix);
    assert_int_equal(error_abort_count(&e), GW_ERROR_ABORTS_MAX);
    error_set_lost(&e, GW_LOSS_SILENT, 3, 77, "ps");
    error_prefix(&e, prefix);
    assert_int_equal(e.lost.how, GW_LOSS_SILENT);
    assert_int_equal(e.lost.rank, 3);
    assert_string_equal(e.lost.name, "ps");
    assert_int_equal(e.aborts[0].group, GW_ERROR_ABORTS_MAX + 1);
    assert_int_equal(e.aborts[GW_ERROR_ABORTS_MAX - 1].number, 20);
    error_set(&e, GW_INVALID, "another one");
    assert_int_equal(error_abort_count(&e), 0);
    assert_int_equal(e.lost.how, GW_LOSS_NONE);
}

static void a_program_ends_with_its_error(void **state) {
    (void)state;
    gw_error e = { .status = GW_OK };
    assert_int_equal(gw_exit_code(e), 0);
    error_set(&e, GW_TIMEOUT, "too late");
    assert_int_equal(gw_exit_code(e), 1);
}

static char traced[1024];

static void keep_trace(const char *line) {
    snprintf(traced, sizeof traced, "%s", line);
}

static void the_first_error_of_a_scope_is_traced_on_request(void **state) {
    (void)state;
    log_hook = keep_trace;
    gw_scope *s = gw_scope_open(NULL);
    gw_fail(s, GW_TIMEOUT, "not traced");
    gw_scope_clear(s);
    assert_string_equal(traced, "");
    setenv("GW_TRACE_ERRORS", "1", 1);
    gw_error dealt_with;
    error_set(&dealt_with, GW_NOT_FOUND, "handled inside the library");
    assert_string_equal(traced, "");
    error_origin = "train.c:12";
    gw_fail(s, GW_TIMEOUT, "too late");
    error_origin = NULL;
    assert_string_equal(traced, "error: timeout: too late (train.c:12)");
    gw_scope *inner = gw_scope_open(s);
    gw_fail(inner, GW_INVALID, "second");
    gw_scope_close_up(inner);
    assert_string_equal(traced, "error: timeout: too late (train.c:12)");
    assert_int_equal(gw_scope_close(s).status, GW_TIMEOUT);
}

static void an_error_of_this_worker_is_traced_with_its_line(void **state) {
    (void)state;
    if (system("command -v addr2line >/dev/null")) testing_skip("addr2line is not installed");
    log_hook = keep_trace;
    setenv("GW_TRACE_ERRORS", "1", 1);
    gw_scope *s = gw_scope_open(NULL);
    gw_value not_an_int = gw_value_of(1.5);
    char expected[256];
    snprintf(expected, sizeof expected,
             "error: invalid: gw_int_of: expected int, got float (status_test.c:%d)", __LINE__ + 1);
    gw_int_of(s, not_an_int);
    assert_string_equal(traced, expected);
    assert_int_equal(gw_scope_close(s).status, GW_INVALID);
}

static void an_error_is_kept_until_it_is_forgotten(void **state) {
    (void)state;
    gw_error *kept = NULL, error;
    assert_int_equal(error_kept(kept)->status, GW_OK);
    for (int i = 0; i < 2; i++) {
        error_set(&error, GW_TIMEOUT, "number %d", i);
        error_keep(&kept, &error);
        assert_int_equal(error_kept(kept)->status, GW_TIMEOUT);
        assert_string_equal(error_kept(kept)->text, error.text);
    }
    error_forget(&kept);
    assert_null(kept);
    error_forget(&kept);
}

static int refuse(size_t size) {
    (void)size;
    return 1;
}

static void without_memory_an_error_is_kept_without_its_text(void **state) {
    (void)state;
    gw_error *kept = NULL, error;
    const gw_status statuses[][2] = { { GW_FENCED, GW_FENCED }, { GW_TIMEOUT, GW_DISCONNECTED } };
    for (int i = 0; i < 2; i++) {
        error_set(&error, statuses[i][0], "why");
        mem_fail_hook = refuse;
        error_keep(&kept, &error);
        mem_fail_hook = NULL;
        assert_int_equal(error_kept(kept)->status, statuses[i][1]);
        error_forget(&kept);
    }
}

GW_TESTS(base_status, an_error_is_kept_until_it_is_forgotten,
         without_memory_an_error_is_kept_without_its_text,
         the_first_error_of_a_scope_is_traced_on_request,
         an_error_of_this_worker_is_traced_with_its_line, every_status_has_a_name,
         every_outcome_has_a_name, setting_an_error_fills_all_of_it, a_trail_grows_in_front,
         long_texts_are_cut_and_marked, an_error_names_the_collectives_that_ended_with_it,
         a_program_ends_with_its_error);
