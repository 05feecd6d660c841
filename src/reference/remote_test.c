#include "testing/cluster.h"
#include "testing/testing.h"

#include <gradwire.h>

GW_FUNCTION(remote_make, GW_POOL, "int") {
    gw_error late = cluster_pause_ms(s, gw_arg_int(s, a, 0));
    if (late.status != GW_TIMEOUT) gw_fail(s, GW_REMOTE, "did not wait");
    return gw_value_of(5);
}

typedef struct remote_box {
    int64_t n;
} remote_box;

GW_CLASS(remote_box, remote_box_open);

static void remote_box_open(gw_scope *own, remote_box *self, const gw_args *a) {
    self->n = gw_int_of(own, gw_rpc_sync(own, gw_arg_caller(a), "remote_make", 200));
}

GW_METHOD(remote_box, n, GW_INLINE) {
    return gw_value_of(self->n);
}

static void make_without_waiting(gw_scope *s, int rank, void *context) {
    (void)context;
    if (rank != 0) return;
    for (int owner = 0; owner < 2; owner++) {
        gw_rref *value = gw_remote(s, owner, "remote_make", 100);
        gw_rref *box = gw_remote(s, owner, "remote_box");
        gw_rref *kept = gw_remote(s, box, "n");
        gw_future *n = gw_rpc_async(s, box, "n");
        // None of these calls waits for the object, which is still being built.
        assert_false(gw_future_done(n));
        assert_int_equal(gw_int_of(s, gw_wait(s, n)), 5);
        assert_int_equal(gw_int_of(s, gw_to_here_value(s, kept)), 5);
        assert_int_equal(gw_int_of(s, gw_to_here_value(s, value)), 5);
    }
}

static void it_returns_before_anything_is_made(void **state) {
    (void)state;
    cluster_run(1, (cluster_options){ .world_size = 2 }, make_without_waiting, NULL);
}

// Its result is sent later by another worker, or never.
GW_FUNCTION(remote_later, GW_INLINE, "int") {
    return gw_value_of(gw_rpc_async(s, gw_arg_caller(a), "remote_make", gw_arg_int(s, a, 0)));
}
GW_FUNCTION(remote_double, GW_INLINE, "int") {
    return gw_value_of(2 * gw_arg_int(s, a, 0));
}
GW_FUNCTION(remote_never, GW_INLINE) {
    return gw_value_of(gw_rpc_async(s, gw_arg_caller(a), "no_such_function"));
}

static void make_later(gw_scope *s, int rank, void *context) {
    (void)context;
    if (rank != 0) return;
    for (int owner = 0; owner < 2; owner++) {
        gw_rref *five = gw_remote(s, owner, "remote_later", 100);
        // Before there is a five.
        gw_rref *ten = gw_remote(s, 1 - owner, "remote_double", gw_by_value(s, five));
        gw_future *here = gw_to_here_async(s, five);
        assert_false(gw_future_done(here));
        assert_int_equal(gw_int_of(s, gw_wait(s, here)), 5);
        assert_int_equal(gw_int_of(s, gw_to_here_value(s, five)), 5);
        assert_int_equal(gw_int_of(s, gw_to_here_value(s, ten)), 10);
        gw_rref *never = gw_remote(s, owner, "remote_never");
        for (int use = 0; use < 2; use++) {
            gw_to_here_value(s, never);
            assert_int_equal(gw_scope_error(s)->status, GW_NOT_FOUND);
            gw_scope_clear(s);
        }
    }
}

static void its_value_may_be_that_of_a_future(void **state) {
    (void)state;
    cluster_run(1, (cluster_options){ .world_size = 2 }, make_later, NULL);
}

static void fail_request(gw_scope *s, int rank, void *context) {
    (void)context;
    if (rank != 0) return;
    gw_rref *unknown = gw_remote(s, "unknown", "remote_make", 1);
    gw_rref *bad_name = gw_remote(s, 1, "no name", 1);
    assert_true(gw_ok(s));
    gw_to_here_value(s, unknown);
    assert_int_equal(gw_scope_error(s)->status, GW_NOT_FOUND);
    gw_scope_clear(s);
    gw_rpc_sync(s, unknown, "n");
    assert_int_equal(gw_scope_error(s)->status, GW_NOT_FOUND);
    gw_scope_clear(s);
    gw_to_here_value(s, bad_name);
    assert_int_equal(gw_scope_error(s)->status, GW_INVALID);
    gw_scope_clear(s);
}

static void a_failed_request_leaves_its_error_in_the_reference(void **state) {
    (void)state;
    cluster_run(1, (cluster_options){ .world_size = 2 }, fail_request, NULL);
}

GW_TESTS(reference_remote, it_returns_before_anything_is_made, its_value_may_be_that_of_a_future,
         a_failed_request_leaves_its_error_in_the_reference);
