// Functions after a future that run on the pool: they may wait.
#include "testing/cluster.h"
#include "testing/testing.h"

#include <gradwire.h>
#include <string.h>

GW_FUNCTION(pooled_echo, GW_INLINE, "any") {
    return gw_arg(s, a, 0);
}

GW_FUNCTION(pooled_fail, GW_INLINE) {
    gw_fail(s, GW_REMOTE, "not today");
    return gw_none();
}

static gw_value call_and_wait(gw_scope *s, gw_value v, void *context) {
    (void)context;
    return gw_value_of(1 + gw_int_of(s, gw_rpc_sync(s, 1, "pooled_echo", gw_int_of(s, v))));
}

static void wait_and_note(gw_scope *s, gw_future *f, void *context) {
    int64_t x = gw_future_error(f) ? -1 : gw_int_of(s, gw_wait(s, f));
    gw_future_set(s, context, gw_int_of(s, gw_rpc_sync(s, 1, "pooled_echo", x)));
}

static void expect(gw_scope *s, gw_status status, const char *text) {
    assert_string_equal(gw_scope_error(s)->text, text);
    assert_int_equal(gw_scope_error(s)->status, status);
    gw_scope_clear(s);
}

static void wait_in_functions(gw_scope *s, int rank, void *context) {
    (void)context;
    if (rank != 0) return;
    gw_future *f = gw_rpc_async(s, 1, "pooled_echo", 4), *noted = gw_future_open(s);
    gw_future *g = gw_then(s, f, call_and_wait, NULL, .where = GW_POOL);
    assert_int_equal(gw_int_of(s, gw_wait(s, g)), 5);
    gw_future *of_done = gw_then(s, g, call_and_wait, NULL, .where = GW_POOL);
    assert_int_equal(gw_int_of(s, gw_wait(s, of_done)), 6);
    gw_on_done(s, of_done, wait_and_note, noted, .where = GW_POOL);
    assert_int_equal(gw_int_of(s, gw_wait(s, noted)), 6);

    gw_future *failed = gw_rpc_async(s, 1, "pooled_fail"), *noted_failure = gw_future_open(s);
    gw_on_done(s, failed, wait_and_note, noted_failure, .where = GW_POOL);
    assert_int_equal(gw_int_of(s, gw_wait(s, noted_failure)), -1);
    gw_wait(s, gw_then(s, failed, call_and_wait, NULL, .where = GW_POOL));
    expect(s, GW_REMOTE, "w1: pooled_fail: not today");
    gw_then(s, f, call_and_wait, NULL, .where = (gw_placement)7);
    expect(s, GW_INVALID, "a function that a future calls runs in GW_INLINE or GW_POOL, not in 7");
}

static void a_function_on_the_pool_may_wait(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 10; seed++)
        cluster_run(seed, (cluster_options){ .world_size = 2, .threads = 1 }, wait_in_functions,
                    NULL);
}

// ---- More functions that wait than threads ------------------------------------------------------

enum { CHAIN = 40 };

static gw_value wait_for_next(gw_scope *s, gw_value v, void *context) {
    (void)v;
    return gw_wait(s, context);
}

static void wait_in_a_chain(gw_scope *s, int rank, void *context) {
    (void)context;
    if (rank != 0) return;
    gw_future *begin = gw_future_open(s), *last = gw_future_open(s), *next = last;
    for (int i = 0; i < CHAIN; i++) next = gw_then(s, begin, wait_for_next, next, .where = GW_POOL);
    gw_future_set(s, begin, 0);
    gw_future_set(s, last, 3);
    assert_int_equal(gw_int_of(s, gw_wait(s, next)), 3);
}

static void functions_that_wait_leave_their_threads_to_others(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 10; seed++)
        cluster_run(seed, (cluster_options){ .world_size = 1, .threads = 1 }, wait_in_a_chain,
                    NULL);
}

// ---- Cancelling ---------------------------------------------------------------------------------

static int begun, ended_cancelled;

static gw_value wait_for_ever(gw_scope *s, gw_value v, void *context) {
    (void)v, (void)context;
    begun++;
    gw_wait(s, gw_future_open(s));
    ended_cancelled += gw_scope_error(s)->status == GW_CANCELLED && gw_cancelled(s);
    return gw_none();
}

GW_FUNCTION(pooled_begin, GW_INLINE) {
    gw_future *now = gw_future_open(s);
    gw_future *out = gw_then(s, now, wait_for_ever, NULL, .where = GW_POOL);
    gw_future_set(s, now, 0);
    return gw_value_of(out);
}

static void cancel_the_call(gw_scope *s, int rank, void *context) {
    (void)context;
    if (rank != 0) return;
    gw_future *f = gw_rpc_async(s, 1, "pooled_begin");
    for (int i = 0; i < 10000 && !begun; i++) gw_rpc_sync(s, 1, "pooled_echo", 0);
    assert_int_equal(begun, 1);
    gw_cancel(s, f);
    assert_int_equal(gw_future_error(f)->status, GW_CANCELLED);
    for (int i = 0; i < 10000 && !ended_cancelled; i++) gw_rpc_sync(s, 1, "pooled_echo", 0);
    assert_int_equal(ended_cancelled, 1);
}

static void a_wait_on_the_pool_ends_with_the_call_that_it_is_part_of(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 10; seed++) {
        begun = ended_cancelled = 0;
        cluster_run(seed, (cluster_options){ .world_size = 2 }, cancel_the_call, NULL);
    }
}

// ---- Leaving ------------------------------------------------------------------------------------

static int noted;

static void note(gw_scope *s, gw_future *f, void *context) {
    (void)context;
    cluster_pause_ms(s, 50);
    noted += gw_future_done(f);
}

static void leave_at_once(gw_scope *s, int rank, void *context) {
    (void)context;
    if (rank == 0)
        gw_on_done(s, gw_rpc_async(s, 1, "pooled_echo", 1), note, NULL, .where = GW_POOL);
}

static void a_worker_that_shuts_down_runs_them_first(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 10; seed++) {
        noted = 0;
        cluster_run(seed, (cluster_options){ .world_size = 2 }, leave_at_once, NULL);
        assert_int_equal(noted, 1);
    }
}

static void its_root_closes_at_once(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 10; seed++) {
        noted = 0;
        cluster_run(seed, (cluster_options){ .world_size = 2, .leaves = { true }, .fails = true },
                    leave_at_once, NULL);
        assert_int_equal(noted, 1);
    }
}

GW_TESTS(future_pool_sim, a_function_on_the_pool_may_wait,
         functions_that_wait_leave_their_threads_to_others,
         a_wait_on_the_pool_ends_with_the_call_that_it_is_part_of,
         a_worker_that_shuts_down_runs_them_first, its_root_closes_at_once);
