// Environment variables with invalid values, in a user's program.
#include "../support/launched.h"
#include "testing/testing.h"

#include <string.h>

static void expect_once(const char *text, const char *words) {
    const char *at = strstr(text, words);
    testing_note("\"%s\" should be once in: %s", words, text);
    assert_true(at && !strstr(at + 1, words));
}

static void an_invalid_value_is_reported_once(void **state) {
    (void)state;
    result r =
        finish(launch_command("GW_LOG=loud GW_LEND=off GW_CHECK=no GW_TRANSPORTS=tcp GW_HOME=/ "
                              "./case-argument_order"));
    assert_int_equal(r.code, 0);
    expect_once(r.err, "GW_LOG=loud: a level must be none, error, warning or info");
    expect_once(r.err, "GW_LEND=off changes nothing: it must be one of 0 1 pull");
    expect_once(r.err, "GW_CHECK=no counts as 1: it must be one of 0 1");
    expect_once(r.err, "the variable GW_TRANSPORTS has no effect: did you mean GW_TRANSPORT?");
    assert_null(strstr(r.err, "GW_HOME"));
    forget(r);
}

GW_TESTS(process_variables, an_invalid_value_is_reported_once);
