// Errors that carry a value for programs: gw_fail_with_value.
#include "testing/cluster.h"
#include "testing/testing.h"

#include "base/error_value.h"

#include "base/mem.h"
#include <gradwire.h>
#include <gradwire/binding.h>
#include <stdlib.h>
#include <string.h>

// ---- Failing ------------------------------------------------------------------------------------

GW_FUNCTION(valued_fail, GW_INLINE, "any") {
    gw_fail_with_value(s, GW_REMOTE, gw_arg(s, a, 0), "ValueError: %d", 3);
    return gw_none();
}

GW_FUNCTION(valued_fail_later, GW_POOL, "any") {
    gw_future *f = gw_future_open(s);
    gw_scope *t = gw_scope_open(s);
    gw_fail_with_value(t, GW_REMOTE, gw_arg(s, a, 0), "ValueError: 4");
    gw_future_set(t, f, 0);
    gw_error e = gw_scope_close(t);
    return gw_value_of(e.status ? f : NULL);
}

GW_FUNCTION(valued_echo, GW_INLINE, "any") {
    return gw_arg(s, a, 0);
}

GW_FUNCTION(valued_relay, GW_POOL, "any") {
    return gw_rpc_sync(s, (gw_rpc_self(s).rank + 1) % gw_rpc_world_size(s), "valued_fail",
                       gw_arg(s, a, 0));
}

typedef struct valued_box {
    int n;
} valued_box;

GW_CLASS(valued_box, valued_box_open, "any");

static void valued_box_open(gw_scope *own, valued_box *self, const gw_args *a) {
    (void)self;
    gw_fail_with_value(own, GW_REMOTE, gw_arg(own, a, 0), "no box");
}

GW_METHOD(valued_box, use, GW_INLINE) {
    (void)s, (void)a, (void)self;
    return gw_none();
}

// ---- Checking -----------------------------------------------------------------------------------

static gw_value sample(gw_scope *s) {
    gw_map *map = gw_map_open(s);
    gw_map_put(s, map, "class", "ValueError");
    gw_map_put(s, map, "pickle", gw_value_of_bytes("\x80\x05K\0.", 5));
    gw_map_put(s, map, "count", 3);
    return gw_value_of(map);
}

static void check_sample(gw_scope *s, gw_value v) {
    assert_int_equal(v.kind, GW_MAP);
    assert_string_equal(v.as.map ? gw_string_of(s, gw_map_get(s, v.as.map, "class")) : "",
                        "ValueError");
    gw_value pickle = gw_map_get(s, v.as.map, "pickle");
    assert_int_equal(pickle.size, 5);
    assert_memory_equal(pickle.as.bytes, "\x80\x05K\0.", 5);
    assert_int_equal(gw_int_of(s, gw_map_get(s, v.as.map, "count")), 3);
}

static void expect_sample(gw_scope *s, const char *text) {
    gw_scope *t = gw_scope_open(NULL);
    assert_non_null(strstr(gw_scope_error(s)->text, text));
    check_sample(t, gw_error_value(t, gw_scope_error(s)));
    assert_string_equal(gw_scope_close(t).text, "");
    gw_value here = gw_error_value(s, gw_scope_error(s));  // of its own scope, which has failed
    assert_int_equal(here.kind, GW_MAP);
    assert_false(gw_ok(s));
    gw_scope_clear(s);
    check_sample(s, here);
}

// ---- Passing on ---------------------------------------------------------------------------------

static gw_value never(gw_scope *s, gw_value v, void *context) {
    (void)s, (void)context;
    assert_true(false);
    return v;
}

static void pass_on(gw_scope *s, int rank, void *context) {
    (void)context;
    if (rank != 0) return;
    gw_value v = sample(s);
    gw_rpc_sync(s, 1, "valued_fail", v);
    assert_int_equal(gw_scope_error(s)->outcome, GW_RAN_AND_FAILED);
    assert_int_equal(gw_scope_error(s)->status, GW_REMOTE);
    expect_sample(s, "w1: valued_fail: ValueError: 3");
    gw_rpc_sync(s, 0, "valued_fail", v);
    expect_sample(s, "ValueError: 3");
    gw_rpc_sync(s, 1, "valued_fail_later", v);
    expect_sample(s, "ValueError: 4");
    gw_rpc_sync(s, 1, "valued_relay", v);
    expect_sample(s, "w1: valued_relay: w2: valued_fail: ValueError: 3");

    // As the argument of another call, which does not run; over a worker that is not the caller.
    gw_future *failed = gw_rpc_async(s, 1, "valued_fail", v);
    gw_rpc_sync(s, 2, "valued_echo", failed);
    expect_sample(s, "ValueError: 3");
    gw_rpc_sync(s, 1, "valued_echo", failed);
    expect_sample(s, "ValueError: 3");

    gw_future *chained = gw_then(s, failed, never, NULL), *of_opened = gw_future_open(s);
    gw_wait(s, chained);
    expect_sample(s, "ValueError: 3");
    check_sample(s, gw_future_error_value(s, chained));
    gw_wait(s, gw_collect_all(s, &chained, 1));
    expect_sample(s, "ValueError: 3");
    gw_future_set(s, of_opened, chained);
    gw_wait(s, of_opened);
    expect_sample(s, "ValueError: 3");

    // References: to a value that was not made, to an object that was not opened.
    gw_rref *r = gw_remote(s, 1, "valued_fail", v);
    gw_to_here_value(s, r);
    expect_sample(s, "ValueError: 3");
    gw_rpc_sync(s, 2, "valued_echo", gw_by_value(s, r));
    expect_sample(s, "ValueError: 3");
    gw_rref *box = gw_remote(s, 2, "valued_box", v);
    gw_rpc_sync(s, box, "use");
    expect_sample(s, "no box");

    // From scope to scope.
    gw_scope *inner = gw_scope_open(s), *other = gw_scope_open(NULL);
    gw_rpc_sync(inner, 1, "valued_fail", v);
    gw_scope_fail(other, gw_scope_error(inner));
    gw_scope_close_up(inner);
    expect_sample(s, "ValueError: 3");
    expect_sample(other, "ValueError: 3");
    gw_scope_close_up(other);
}

static void it_is_passed_on_with_the_error(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 10; seed++)
        cluster_run(seed, (cluster_options){ .world_size = 3 }, pass_on, NULL);
}

// ---- Values -------------------------------------------------------------------------------------

static void expect_none(gw_scope *s, const char *reason) {
    assert_non_null(strstr(gw_scope_error(s)->text, reason));
    assert_int_equal(gw_error_value(s, gw_scope_error(s)).kind, GW_NONE);
    assert_int_equal(gw_scope_error(s)->status, GW_REMOTE);
    gw_scope_clear(s);
}

static void fail_with(gw_scope *s, gw_value v) {
    gw_fail_with_value(s, GW_OK, v, "wrong");
}

static void try_values(gw_scope *s, int rank, void *context) {
    (void)context;
    if (rank != 0) return;
    char *data = calloc(1, GW_ERROR_VALUE_MAX + 1);
    size_t most = GW_ERROR_VALUE_MAX - 9;  // without kind and size
    fail_with(s, gw_value_of_bytes(data, most));
    assert_int_equal(gw_error_value(s, gw_scope_error(s)).size, most);
    gw_scope_clear(s);
    gw_rpc_sync(s, 1, "valued_fail", gw_value_of_bytes(data, most));
    assert_int_equal(gw_error_value(s, gw_scope_error(s)).size, most);
    gw_scope_clear(s);
    fail_with(s, gw_value_of_bytes(data, most + 1));
    expect_none(s, "wrong (without its value: it has 65537 bytes, and at most 65536 are allowed)");
    free(data);
    fail_with(s, gw_value_of(gw_ones(s, GW_F32, 4, 4)));
    assert_int_equal(gw_error_value(s, gw_scope_error(s)).kind, GW_TENSOR);
    gw_scope_clear(s);
    fail_with(s, gw_value_of(gw_ones(s, GW_F32, 1025)));
    expect_none(s, "(without its value: a tensor in it has more than 4096 bytes)");
    fail_with(s, gw_value_of(gw_rref_open(s, 1)));
    expect_none(s, "(without its value: reference: cannot be sent here)");
    fail_with(s, gw_value_of(gw_future_open(s)));
    expect_none(s, "(without its value: future: cannot be sent here)");
    gw_list *outer = gw_list_open(s);
    for (int i = 0; i < 100; i++) {
        gw_list *around = gw_list_open(s);
        gw_list_add(s, around, outer);
        outer = around;
    }
    fail_with(s, gw_value_of(outer));
    expect_none(s, "nested deeper than");

    // The first error stays, with its value or without.
    gw_fail(s, GW_REMOTE, "first");
    fail_with(s, gw_value_of(3));
    expect_none(s, "first");
    gw_rpc_sync(s, 1, "valued_fail", gw_none());
    assert_int_equal(gw_error_value(s, gw_scope_error(s)).kind, GW_NONE);
    gw_scope_clear(s);
    assert_int_equal(gw_error_value(s, NULL).kind, GW_NONE);
    assert_int_equal(gw_future_error_value(s, NULL).kind, GW_NONE);
    assert_int_equal(gw_future_error_value(s, gw_future_open(s)).kind, GW_NONE);
}

static void an_error_without_its_value_has_the_reason(void **state) {
    (void)state;
    cluster_run(1, (cluster_options){ .world_size = 2 }, try_values, NULL);
}

static void outlive(gw_scope *s, int rank, void *context) {
    (void)context;
    if (rank != 0) return;
    gw_scope *inner = gw_scope_open(s);
    gw_future *f = gw_keep(s, gw_rpc_async(inner, 1, "valued_fail", 7));
    gw_wait(inner, f);
    gw_error e = gw_scope_close(inner);
    assert_int_equal(gw_int_of(s, gw_error_value(s, &e)), 7);  // |f| has the error
    gw_drop(s, f);
    for (int i = 0; i < 3; i++) gw_rpc_sync(s, 1, "valued_echo", 1);  // futures are freed in tasks
    gw_scope_fail(s, &e);
    assert_int_equal(gw_error_value(s, gw_scope_error(s)).as.integer, 7);
    gw_scope_clear(s);
    for (int i = 0; i < ERROR_VALUES_RECENT; i++) {
        gw_fail_with_value(s, GW_REMOTE, gw_value_of(i), "another");
        gw_scope_clear(s);
    }
    assert_int_equal(gw_error_value(s, &e).kind, GW_NONE);
    gw_scope_fail(s, &e);
    assert_int_equal(gw_error_value(s, gw_scope_error(s)).kind, GW_NONE);
    gw_scope_clear(s);
}

// And for a while after that: the error of a scope that has closed can be passed on.
static void it_lives_as_long_as_a_holder_of_the_error(void **state) {
    (void)state;
    cluster_run(1, (cluster_options){ .world_size = 2 }, outlive, NULL);
}

GW_TESTS(error_value_sim, it_is_passed_on_with_the_error, an_error_without_its_value_has_the_reason,
         it_lives_as_long_as_a_holder_of_the_error);
