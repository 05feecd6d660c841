#include "call/registry.h"

#include "testing/testing.h"

#include <string.h>

static signature parse(const char *text) {
    signature s;
    gw_error error;
    assert_int_equal(signature_parse(text, &s, &error), GW_OK);
    return s;
}

// "" if the arguments fit.
static const char *check(const char *text, int count, const gw_value *args) {
    static gw_error error;
    error = (gw_error){ 0 };
    signature s = parse(text);
    gw_status status = signature_check(&s, count, args, &error);
    assert_int_equal(status, error.text[0] ? GW_INVALID : GW_OK);
    signature_fini(&s);
    return error.text;
}

static void it_takes_anything_without_a_signature(void **state) {
    (void)state;
    gw_value args[] = { gw_value_of(1), gw_value_of("x") };
    assert_string_equal(check(NULL, 2, args), "");
    assert_string_equal(check(NULL, 0, NULL), "");
}

static void it_takes_nothing_with_an_empty_one(void **state) {
    (void)state;
    gw_value one = gw_value_of(1);
    assert_string_equal(check("", 0, NULL), "");
    assert_string_equal(check("  ", 1, &one), "takes 0 arguments, not 1");
}

static void it_counts_arguments(void **state) {
    (void)state;
    gw_value args[] = { gw_value_of(1), gw_value_of(2), gw_value_of(3) };
    assert_string_equal(check("int", 1, args), "");
    assert_string_equal(check("int", 0, args), "takes 1 argument, not 0");
    assert_string_equal(check("int, int", 3, args), "takes 2 arguments, not 3");
    assert_string_equal(check("int, int?", 0, args), "takes at least 1 argument, not 0");
    assert_string_equal(check("int, int?", 1, args), "");
    assert_string_equal(check("int, int?", 3, args), "takes at most 2 arguments, not 3");
    assert_string_equal(check("int, ...", 3, args), "");
    assert_string_equal(check("int, ...", 0, args), "takes at least 1 argument, not 0");
    assert_string_equal(check("...", 0, args), "");
}

static void it_checks_kinds(void **state) {
    (void)state;
    gw_value args[] = { gw_value_of("x"), gw_value_of(2), gw_none() };
    assert_string_equal(check("int", 1, args), "argument 0 is string, not int");
    assert_string_equal(check("string,float", 2, args), "");
    assert_string_equal(check("string, tensor", 2, args), "argument 1 is int, not tensor");
    assert_string_equal(check("any, any, any", 3, args), "");
    assert_string_equal(check("string, int, tensor?", 3, args), "");
    assert_string_equal(check("string, int, rref", 3, args), "argument 2 is none, not reference");
    assert_string_equal(check("string, int, none", 3, args), "");
}

static void c_has_ints_for_true_and_false(void **state) {
    (void)state;
    gw_value args[] = { gw_value_of(true), gw_value_of(false), gw_value_of_bool(true) };
    assert_string_equal(check("bool, bool, bool", 3, args), "");
    assert_string_equal(check("int, bool?, bool?", 3, args), "");
    gw_value two = gw_value_of(2), real = gw_value_of(1.0);
    assert_string_equal(check("bool", 1, &two), "argument 0 is int, not bool");
    assert_string_equal(check("bool", 1, &real), "argument 0 is float, not bool");
    assert_string_equal(check("int", 1, &args[2]), "argument 0 is bool, not int");
}

static void refuse(const char *text, const char *words) {
    signature s;
    gw_error error;
    assert_int_equal(signature_parse(text, &s, &error), GW_INVALID);
    assert_string_equal(error.text, words);
}

static void it_refuses_words_that_are_no_kinds(void **state) {
    (void)state;
    refuse("integer", "\"integer\" in its signature is not a kind of value");
    refuse("int,, int", "\"\" in its signature is not a kind of value");
    refuse("int,", "\"\" in its signature is not a kind of value");
    refuse("?", "\"?\" in its signature is not a kind of value");
    refuse("..., int", "\"int\" in its signature is not a kind of value");
    refuse("int?, int", "\"int\" in its signature is required, but follows an optional parameter");
}

GW_TESTS(call_signature, it_takes_anything_without_a_signature, it_takes_nothing_with_an_empty_one,
         it_counts_arguments, it_checks_kinds, c_has_ints_for_true_and_false,
         it_refuses_words_that_are_no_kinds);
