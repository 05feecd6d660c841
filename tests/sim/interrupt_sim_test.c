// gw_scope_set_interrupt: the program ends its own waits, and what they wait for continues.
#include "testing/cluster.h"
#include "testing/testing.h"

#include "call/calls.h"

#include <gradwire.h>
#include <gradwire/binding.h>
#include <string.h>

typedef struct polls {
    int count, ends_at;  // the call of the function that ends the wait; 0: none
} polls;

static bool poll(void *context) {
    polls *p = context;
    return ++p->count == p->ends_at;
}

static void expect_interrupted(gw_scope *s) {
    assert_int_equal(gw_scope_error(s)->status, GW_CANCELLED);
    assert_non_null(strstr(gw_scope_error(s)->text, "interrupted by the program"));
    gw_scope_clear(s);
}

// ---- Futures ------------------------------------------------------------------------------------

static bool released;  // the workers are threads of one process that run one at a time
static int ended;

GW_FUNCTION(interrupt_wait, GW_POOL) {
    while (!released && gw_ok(s)) cluster_sleep_ms(s, 10);
    ended += gw_ok(s);
    return gw_value_of(5);
}

GW_FUNCTION(interrupt_echo, GW_INLINE, "any") {
    return gw_arg(s, a, 0);
}

static void interrupt_futures(gw_scope *root, int rank, void *context) {
    (void)context;
    if (rank != 0) return;
    polls p = { .ends_at = 3 };
    gw_scope *s = gw_scope_open(root);
    gw_scope_set_interrupt(s, poll, &p);
    gw_future *f = gw_future_open(s);
    gw_wait(s, f);
    assert_string_equal(gw_scope_error(s)->text, "interrupted by the program");
    expect_interrupted(s);
    assert_int_equal(p.count, 3);
    assert_false(gw_future_done(f));
    gw_future_set(s, f, 8);
    assert_int_equal(gw_int_of(s, gw_wait(s, f)), 8);

    gw_future *call = gw_rpc_async(s, 1, "interrupt_wait");
    p = (polls){ .ends_at = 1 };
    gw_scope *inner = gw_scope_open(s);
    gw_wait(inner, call);
    expect_interrupted(inner);
    p = (polls){ .ends_at = 1 };
    gw_wait_all(inner, &call, 1);
    expect_interrupted(inner);
    p = (polls){ .ends_at = 1 };
    assert_int_equal(gw_wait_any(inner, &call, 1), -1);
    expect_interrupted(inner);
    gw_scope_close_up(inner);
    assert_true(gw_ok(s));
    released = true;
    assert_int_equal(gw_int_of(s, gw_wait(s, call)), 5);
    gw_scope_close_up(s);
}

static void the_future_stays_as_it_is(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 10; seed++) {
        released = false;
        ended = 0;
        cluster_run(seed, (cluster_options){ .world_size = 2 }, interrupt_futures, NULL);
        assert_int_equal(ended, 1);
    }
}

static void interrupt_a_call(gw_scope *s, int rank, void *context) {
    (void)context;
    if (rank != 0) return;
    polls p = { .ends_at = 2 };
    gw_scope_set_interrupt(s, poll, &p);
    gw_rpc_sync(s, 1, "interrupt_wait");
    expect_interrupted(s);
    p = (polls){ 0 };
    released = true;
    for (int i = 0; i < 1000 && !ended; i++) gw_rpc_sync(s, 1, "interrupt_echo", 1);
    assert_int_equal(ended, 1);
}

static void the_call_continues(void **state) {
    (void)state;
    released = false;
    ended = 0;
    cluster_run(1, (cluster_options){ .world_size = 2 }, interrupt_a_call, NULL);
}

// ---- Which scopes -------------------------------------------------------------------------------

static void inherit(gw_scope *root, int rank, void *context) {
    (void)rank, (void)context;
    polls p = { 0 };
    gw_scope *before = gw_scope_open(root), *attached = gw_scope_open_of(root);
    gw_scope_set_interrupt(root, poll, &p);
    gw_scope *after = gw_scope_open(root);
    cluster_sleep_ms(before, 250);
    cluster_sleep_ms(attached, 250);
    assert_int_equal(p.count, 0);
    cluster_sleep_ms(after, 250);
    assert_int_equal(p.count, 3);  // after 100, 200 and 250 ms
    gw_scope_set_interrupt(after, NULL, NULL);
    cluster_sleep_ms(after, 250);
    assert_int_equal(p.count, 3);
    gw_scope_set_interrupt(root, NULL, NULL);
    gw_scope_close_up(after);
    gw_scope_close_up(before);
    gw_scope_close_up(attached);
}

static void scopes_opened_later_have_it_too(void **state) {
    (void)state;
    cluster_run(1, (cluster_options){ .world_size = 1 }, inherit, NULL);
}

// ---- Other waits --------------------------------------------------------------------------------

GW_FUNCTION(interrupt_late, GW_POOL) {
    while (!released && gw_ok(s)) cluster_sleep_ms(s, 10);
    return gw_value_of(gw_ones(s, GW_F32, 2));
}

static void to_here(gw_scope *s) {
    gw_to_here(s, gw_remote(s, 1, "interrupt_late"));
}

static void local_value(gw_scope *s) {
    gw_rref_local_value(s, gw_remote(s, 0, "interrupt_late"));
}

static void watch(gw_scope *s) {
    gw_watch_next(s, gw_watch_open(s));
}

static void rpc_barrier(gw_scope *s) {
    gw_rpc_barrier(s, gw_rpc_workers(s, NULL), 2);
}

static void receive(gw_scope *s) {
    gw_recv(s, gw_group_world(s), 1);
}

static void (*const waits[])(gw_scope *s) = { to_here, local_value, watch, rpc_barrier, receive };

static void interrupt_waits(gw_scope *root, int rank, void *context) {
    (void)context;
    gw_group_world(root);
    for (size_t i = 0; i < sizeof waits / sizeof waits[0]; i++) {
        if (rank == 0) {
            polls p = { .ends_at = 2 };
            gw_scope *s = gw_scope_open(root);
            gw_scope_set_interrupt(s, poll, &p);
            released = false;
            testing_note("wait %d", (int)i);
            waits[i](s);
            expect_interrupted(s);
            assert_int_equal(p.count, 2);
            released = true;
            gw_scope_close_up(s);
        }
    }
    if (rank != 0)
        for (int i = 0; i < 100; i++) cluster_sleep_ms(root, 100);
}

static void each_wait_can_be_interrupted(void **state) {
    (void)state;
    cluster_run(1, (cluster_options){ .world_size = 2, .fails = true }, interrupt_waits, NULL);
}

// A collective without a future has no result any more, and is cancelled; one with a future continues.
static void reduce_later(gw_scope *root, int rank, void *context) {
    (void)context;
    gw_group *g = gw_group_world(root);
    gw_tensor *x = gw_ones(root, GW_F32, 2);
    polls p = { .ends_at = 2 };
    gw_scope *s = gw_scope_open(root);
    if (rank == 0) gw_scope_set_interrupt(s, poll, &p);
    if (rank == 1) cluster_sleep_ms(s, 1000);
    gw_future *sum = gw_all_reduce_async(s, g, x, GW_SUM);
    if (rank == 0) {
        gw_wait(s, sum);
        expect_interrupted(s);
    }
    assert_float_equal(gw_item(s, gw_sum(s, gw_tensor_of(s, gw_wait(s, sum)))), 4, 0);
    p = (polls){ .ends_at = 2 };
    if (rank == 1) cluster_sleep_ms(s, 1000);
    gw_all_reduce(s, g, x, GW_SUM);
    if (rank == 0)
        expect_interrupted(s);
    else
        assert_int_equal(gw_scope_error(s)->status, GW_CANCELLED);
    gw_scope_clear(s);
    assert_float_equal(gw_item(s, gw_sum(s, gw_all_reduce(s, g, x, GW_SUM))), 4, 0);
    gw_scope_close_up(s);
}

static void members_of_a_collective_may_interrupt_their_waits(void **state) {
    (void)state;
    cluster_run(1, (cluster_options){ .world_size = 2 }, reduce_later, NULL);
}

// ---- Flow control -------------------------------------------------------------------------------

// 32 KB, which are sent and not lent.
static gw_tensor *queued(gw_scope *s) {
    return gw_ones(s, GW_F32, 8000);
}

static void begin_async(gw_scope *s) {
    gw_future *f = gw_rpc_async(s, 1, "interrupt_echo", queued(s));
    assert_int_equal(gw_future_error(f)->status, GW_CANCELLED);
}

static void begin_all(gw_scope *s) {
    gw_rpc_async_all(s, gw_rpc_workers(s, NULL) + 1, 1, "interrupt_echo", queued(s));
}

static void begin_remote(gw_scope *s) {
    gw_remote(s, 1, "interrupt_echo", queued(s));
}

static void begin_notify(gw_scope *s) {
    gw_rpc_notify(s, 1, "interrupt_echo", queued(s));
}

static void (*const beginnings[])(gw_scope *s) = { begin_async, begin_all, begin_remote,
                                                   begin_notify };

// 3 MB take half a second through a window of 4 KiB. Returns the last call.
static gw_future *fill_queue(gw_scope *s) {
    uint64_t *limit = &calls_of(s->agent)->limits.backlog_bytes;
    gw_future *f = NULL;
    *limit = LIMIT_BACKLOG_BYTES;
    for (int i = 0; i < 100; i++) f = gw_rpc_async(s, 1, "interrupt_echo", queued(s));
    *limit = 100000;
    return f;
}

static void wait_for_a_long_queue(gw_scope *root, int rank, void *context) {
    (void)context;
    if (rank != 0) return;
    for (size_t i = 0; i < sizeof beginnings / sizeof beginnings[0]; i++) {
        polls p = { 0 };
        gw_scope *s = gw_scope_open(root);
        gw_scope_set_interrupt(s, poll, &p);
        testing_note("beginning %d", (int)i);
        gw_future *last = fill_queue(s);
        p = (polls){ .ends_at = 1 };
        beginnings[i](s);
        assert_int_equal(p.count, 1);
        expect_interrupted(s);
        p = (polls){ .ends_at = 1 };
        gw_wait(s, last);
        assert_int_equal(p.count, 1);
        expect_interrupted(s);
        gw_wait(s, last);
        assert_true(gw_ok(s));
        gw_scope_close_up(s);
    }
}

static void an_interrupted_start_of_a_call_fails_its_scope_once(void **state) {
    (void)state;
    cluster_run(1,
                (cluster_options){ .world_size = 2,
                                   .timeout_ms = CLUSTER_NO_TIMEOUT,
                                   .network = { .delay_max_us = 2000, .window_bytes = 4096 } },
                wait_for_a_long_queue, NULL);
}

// ---- Leaving ------------------------------------------------------------------------------------

static void interrupt_shutdown(gw_scope *root, int rank, void *context) {
    (void)context;
    if (rank != 0) {
        cluster_sleep_ms(root, 20000);
        return;
    }
    polls p = { .ends_at = 3 };
    gw_scope_set_interrupt(root, poll, &p);
    gw_rpc_shutdown(root);
    assert_int_equal(p.count, 3);
    assert_string_equal(gw_scope_error(root)->text, "gw_rpc_shutdown: interrupted by the program");
    expect_interrupted(root);
    gw_rpc_sync(root, 1, "interrupt_echo", 1);
    assert_int_equal(gw_scope_error(root)->status, GW_WRONG_STATE);
    gw_scope_clear(root);
    gw_scope_set_interrupt(root, NULL, NULL);
}

static void an_interrupted_shutdown_leaves(void **state) {
    (void)state;
    cluster_outcome end =
        cluster_run(1, (cluster_options){ .world_size = 2 }, interrupt_shutdown, NULL);
    assert_true(end.took_ns < 60 * SIM_SECOND);
}

GW_TESTS(interrupt_sim, the_future_stays_as_it_is, the_call_continues,
         scopes_opened_later_have_it_too, each_wait_can_be_interrupted,
         members_of_a_collective_may_interrupt_their_waits,
         an_interrupted_start_of_a_call_fails_its_scope_once, an_interrupted_shutdown_leaves);
