// Errors whose texts are longer than the limit of a message: they are cut, and keep their status and origin on all
// workers.
#include "testing/cluster.h"
#include "testing/testing.h"

#include <gradwire.h>

#include <string.h>

enum { WORKERS = 3, DEPTH = 12 };

static void fail_at_length(gw_scope *s) {
    char text[2 * GW_ERROR_TEXT_MAX];
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    gw_fail(s, GW_LIMIT, "%s", text);
}

static gw_error close_failed(gw_scope *s, gw_status status) {
    gw_error e = gw_scope_close(s);
    if (e.status != status) fail_msg("%s: %s", gw_status_name(e.status), e.text);
    return e;
}

// ---- Collectives --------------------------------------------------------------------------------
static void sum_is(gw_scope *root, gw_group *g, double each) {
    gw_scope *s = gw_scope_open(root);
    double sum = gw_item(s, gw_all_reduce(s, g, gw_full(s, GW_F64, each), GW_SUM));
    if (!gw_ok(s)) fail_msg("%s", gw_scope_error(s)->text);
    assert_float_equal(sum, each * WORKERS, 1e-9);
    gw_scope_close_up(s);
}

// The error of one member ends a step on all, and later calls in the failed scope enter no collective: all members have
// the error. So do members of another group that receive the error from them.
static void fail_steps(gw_scope *root, int rank, void *context) {
    (void)context;
    gw_group *world = gw_group_world(root);
    gw_group *other = gw_group_split(root, world, 0, rank);
    for (int step = 0; step < 4; step++) {
        gw_scope *s = gw_scope_open(root);
        if (rank == step % WORKERS) fail_at_length(s);
        gw_all_reduce(s, world, gw_ones(s, GW_F32, 3), GW_SUM);
        gw_all_reduce(s, world, gw_ones(s, GW_F32, 3), GW_SUM);
        gw_all_reduce(s, other, gw_ones(s, GW_F32, 3), GW_SUM);
        gw_error e = close_failed(s, GW_LIMIT);
        assert_true(strlen(e.text) < GW_ERROR_TEXT_MAX);
        assert_true(e.aborts[0].group != 0);
        sum_is(root, world, step + 1);
        sum_is(root, other, step + 10);
    }
    assert_true(gw_ok(root));
}

static void all_pair_the_same_steps_after_a_long_error(void **state) {
    (void)state;
    for (int seed = 1; seed <= 10; seed++)
        cluster_run((uint64_t)seed, (cluster_options){ .world_size = WORKERS }, fail_steps, NULL);
}

// ---- Calls --------------------------------------------------------------------------------------
GW_FUNCTION(long_errors_fail, GW_POOL, "int") {
    int64_t depth = gw_arg_int(s, a, 0);
    if (depth == 0) fail_at_length(s);
    if (gw_ok(s) && depth) gw_rpc_sync(s, (int)depth % WORKERS, "long_errors_fail", (int)depth - 1);
    return gw_none();
}

static void call_through_all(gw_scope *root, int rank, void *context) {
    (void)context;
    if (rank) return;
    gw_scope *s = gw_scope_open(root);
    gw_rpc_sync(s, 1, "long_errors_fail", DEPTH);
    gw_error e = close_failed(s, GW_LIMIT);
    assert_int_equal(e.outcome, GW_RAN_AND_FAILED);
    assert_string_equal(e.function, "long_errors_fail");
    assert_string_equal(e.worker, "w1");  // by depth 1
    assert_true(strlen(e.text) < GW_ERROR_TEXT_MAX);
}

static void a_long_error_keeps_its_origin(void **state) {
    (void)state;
    cluster_run(1, (cluster_options){ .world_size = WORKERS }, call_through_all, NULL);
}

GW_TESTS(long_errors_sim, all_pair_the_same_steps_after_a_long_error,
         a_long_error_keeps_its_origin);
