#include "call/error_trace.h"

#include "base/status.h"
#include "testing/testing.h"

#include <stdio.h>
#include <string.h>

static gw_error error_of(const char *text) {
    gw_error e = { .status = GW_REMOTE };
    snprintf(e.text, sizeof e.text, "%s", text);
    return e;
}

static void it_names_each_worker_and_function_on_the_way(void **state) {
    (void)state;
    gw_error e = error_of("no more memory");
    error_add_trace(&e, "w2", "g");
    error_add_trace(&e, "w1", "f");
    assert_string_equal(e.text, "w1: f: w2: g: no more memory");
    assert_string_equal(e.worker, "w2");
    assert_string_equal(e.function, "g");
    e = error_of("gw.add: 2 plus 3");
    e.trace.function = error_trace_function("gw.add");
    error_add_trace(&e, "w1", "gw.add");
    assert_string_equal(e.text, "w1: gw.add: 2 plus 3");
    error_add_trace(&e, "w2", "gw.add");
    assert_string_equal(e.text, "w2: gw.add: w1: gw.add: 2 plus 3");
}

static void it_does_not_repeat_a_recursive_function(void **state) {
    (void)state;
    gw_error e = error_of("too deep");
    for (int i = 0; i < 3; i++) error_add_trace(&e, i % 2 ? "w1" : "w2", "f");
    assert_string_equal(e.text, "w2: f: w1: f: w2: f: too deep");
    for (int i = 3; i < 5; i++) error_add_trace(&e, i % 2 ? "w1" : "w2", "f");
    assert_string_equal(e.text, "w2: f: w1: f: ... (2 more): w2: f: too deep");
    for (int i = 5; i < 64; i++) error_add_trace(&e, i % 2 ? "w1" : "w2", "f");
    assert_string_equal(e.text, "w1: f: w2: f: ... (61 more): w2: f: too deep");
    error_add_trace(&e, "w3", "main");
    assert_string_equal(e.text, "w3: main: w1: f: w2: f: ... (61 more): w2: f: too deep");
}

// Words in a text are no call, whatever they quote.
static void it_folds_no_words_of_a_text(void **state) {
    (void)state;
    gw_error e = error_of("w1: f: w2: f: w1: f: w2: f: quoted");
    error_add_trace(&e, "w1", "f");
    assert_string_equal(e.text, "w1: f: w1: f: w2: f: w1: f: w2: f: quoted");
    e = error_of("f: has the name already");
    error_add_trace(&e, "w1", "f");
    assert_string_equal(e.text, "w1: f: f: has the name already");
}

static void it_cuts_the_middle_of_a_long_trace(void **state) {
    (void)state;
    gw_error e = error_of("the reason");
    for (int i = 0; i < 200; i++) {
        char function[16];
        snprintf(function, sizeof function, "function%d", i % 2);
        error_add_trace(&e, "worker", function);
    }
    assert_non_null(strstr(e.text, "..."));
    assert_int_equal(strncmp(e.text, "worker: function1: ", 19), 0);
    assert_non_null(strstr(e.text, "the reason"));
    assert_true(strlen(e.text) < sizeof e.text);
}

GW_TESTS(call_error_trace, it_names_each_worker_and_function_on_the_way,
         it_does_not_repeat_a_recursive_function, it_folds_no_words_of_a_text,
         it_cuts_the_middle_of_a_long_trace);
