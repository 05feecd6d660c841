#include "testing/testing.h"

#include "base/args.h"
#include "base/scope.h"

#include <gradwire/binding.h>
#include <string.h>

static void assert_refused(gw_scope *s, const char *text) {
    assert_non_null(gw_scope_error(s));
    assert_int_equal(gw_scope_error(s)->status, GW_INVALID);
    assert_string_equal(gw_scope_error(s)->text, text);
    gw_scope_clear(s);
}

static void arguments_are_read_by_index_and_kind(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    const gw_value values[] = { gw_value_of(3), gw_value_of(2.5), gw_value_of("x"),
                                gw_value_of(true) };
    gw_args a = { "counter.add", 4, values, { .name = "w1", .rank = 1 } };
    assert_int_equal(gw_arg_count(&a), 4);
    assert_int_equal(gw_arg_int(s, &a, 0), 3);
    assert_true(gw_arg_float(s, &a, 0) == 3);  // an int is converted to a float
    assert_true(gw_arg_float(s, &a, 1) == 2.5);
    assert_string_equal(gw_arg_string(s, &a, 2), "x");
    assert_true(gw_arg_bool(s, &a, 3));
    assert_int_equal(gw_arg_caller(&a).rank, 1);
    gw_values all = gw_args_all(&a);
    assert_int_equal(all.count, 4);
    assert_int_equal(gw_int_of(s, all.items[0]), 3);
    assert_true(gw_bool_of(s, all.items[3]));
    assert_string_equal(gw_arg_function(&a), "counter.add");
    assert_int_equal(gw_scope_close(s).status, GW_OK);
}

static void missing_and_mistyped_arguments_are_errors(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    const gw_value values[] = { gw_value_of(3), gw_none() };
    gw_args a = { "counter.add", 2, values, { .name = "w1" } };
    gw_arg_string(s, &a, 0);
    assert_refused(s, "counter.add: argument 0 is int, not string");
    gw_arg_bool(s, &a, 0);
    assert_refused(s, "counter.add: argument 0 is int, not bool");
    gw_arg(s, &a, 2);
    assert_refused(s, "counter.add: argument 2 is missing: the call has 2 arguments");
    gw_arg(s, &a, -1);
    assert_refused(s, "counter.add: argument -1 is missing: the call has 2 arguments");
    assert_int_equal(gw_scope_close(s).status, GW_OK);
}

GW_TESTS(args, arguments_are_read_by_index_and_kind, missing_and_mistyped_arguments_are_errors);
