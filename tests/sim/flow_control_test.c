// Flow control: a worker that sends or calls faster than its receiver reads waits, and no other worker does.
#include "testing/cluster.h"
#include "testing/testing.h"

#include "base/scope.h"
#include "agent/state/agent.h"
#include "call/calls.h"

#include <gradwire.h>
#include <string.h>

enum { LIMIT = 100000, FLOATS = 8000 };  // 32,000 bytes

static int started, reads;
static bool released;
static uint64_t most;  // bytes of replies to a caller when a call of it started

static void reset(void) {
    started = reads = 0;
    released = false;
    most = 0;
}

GW_FUNCTION(backlog_take, GW_INLINE, "tensor") {
    started++;
    return gw_none();
}

static uint64_t backlog(gw_scope *s, int to) {
    agent *a = s->agent;
    env_enter(a->env);
    uint64_t bytes = peers_get_backlog(a->peers, to).all;
    env_leave(a->env);
    return bytes;
}

static void note_start(gw_scope *s) {
    uint64_t bytes = backlog(s, 0);
    if (bytes > most) most = bytes;
    started++;
}

GW_FUNCTION(backlog_give, GW_INLINE) {
    note_start(s);
    return gw_value_of(gw_ones(s, GW_F32, FLOATS));
}

GW_FUNCTION(backlog_give_on_pool, GW_POOL) {
    note_start(s);
    return gw_value_of(gw_ones(s, GW_F32, FLOATS));
}

GW_FUNCTION(backlog_echo, GW_INLINE, "any") {
    return gw_arg(s, a, 0);
}

// Computes until the test stops it.
GW_FUNCTION(backlog_compute, GW_POOL) {
    while (!released && !gw_cancelled(s)) gw_rpc_get_stats(s);
    return gw_none();
}

typedef struct backlog_box {
    int n;
} backlog_box;

GW_CLASS(backlog_box, backlog_box_open);

static void backlog_box_open(gw_scope *own, backlog_box *self, const gw_args *a) {
    (void)own;
    (void)self;
    (void)a;
}

GW_METHOD(backlog_box, give, GW_POOL) {
    note_start(s);
    self->n++;
    return gw_value_of(gw_ones(s, GW_F32, FLOATS));
}

GW_METHOD(backlog_box, count, GW_INLINE) {
    return gw_value_of(self->n);
}

// Sends more than the limit to |to|, from a thread that may not wait.
GW_FUNCTION(backlog_send_inline, GW_INLINE, "int") {
    int refused = 0;
    gw_tensor *x = gw_ones(s, GW_F32, FLOATS);
    for (int i = 0; i < 50; i++) {
        gw_future *f = gw_rpc_async(s, (int)gw_arg_int(s, a, 0), "backlog_take", x);
        const gw_error *e = gw_future_error(f);
        if (e && e->status == GW_OVERLOADED && e->outcome == GW_NOT_DELIVERED) refused++;
    }
    return gw_value_of(refused);
}

static void set_limits(gw_scope *s, uint64_t backlog, uint64_t queued, uint32_t calls) {
    agent *a = s->agent;
    calls_of(a)->limits.backlog_bytes = backlog;
    calls_of(a)->limits.queued_bytes = queued;
    calls_of(a)->limits.calls_per_peer = calls;
}

static const sim_options narrow = { .delay_max_us = 2000, .window_bytes = 4096 };

// ---- Requests -----------------------------------------------------------------------------------

static void send_much(gw_scope *s, int rank, void *context) {
    (void)context;
    set_limits(s, LIMIT, UINT64_MAX / 2, 1000);
    if (rank != 0) return;
    gw_tensor *x = gw_ones(s, GW_F32, FLOATS);
    gw_future *fs[60];
    for (int i = 0; i < 60; i++) {
        fs[i] = gw_rpc_async(s, 1, "backlog_take", x);
        assert_true(backlog(s, 1) <= LIMIT + 1000);
        if (i % 10 == 0)
            gw_rpc_sync(s, 2, "backlog_echo", i);  // calls to another worker do not wait
    }
    assert_true(gw_rpc_get_peer_stats(s, (gw_worker){ .rank = 1 }).waited_us > 0);
    assert_true(gw_rpc_get_peer_stats(s, (gw_worker){ .rank = 1 }).queued_bytes_max <=
                LIMIT + 1000);
    assert_int_equal(gw_rpc_get_peer_stats(s, (gw_worker){ .rank = 2 }).waited_us, 0);
    gw_wait_all(s, fs, 60);
    assert_int_equal(started, 60);
    // A message larger than the limit is sent when nothing else is queued.
    gw_rpc_sync(s, 1, "backlog_take", gw_ones(s, GW_F32, 10 * FLOATS));
    assert_true(gw_ok(s));
    // A call that cannot wait is refused.
    int64_t refused = gw_int_of(s, gw_rpc_sync(s, 2, "backlog_send_inline", 1));
    assert_in_range(refused, 40, 48);
    // So is a call that has waited until its deadline.
    gw_call_options soon = GW_OPTIONS(gw_call_options, .timeout_ms = 1);
    gw_error e = { 0 };
    for (int i = 0; i < 10 && !e.status; i++) {
        gw_future *f = gw_rpc_async_with(s, gw_to(1), "backlog_take", GW_ARGS(x), soon);
        if (gw_future_done(f)) e = *gw_future_error(f);
    }
    assert_int_equal(e.status, GW_OVERLOADED);
    assert_int_equal(e.outcome, GW_NOT_DELIVERED);
    assert_non_null(strstr(e.text, "bytes are waiting until that worker receives them"));
    assert_string_equal(e.function, "backlog_take");
}

static void a_caller_waits_at_the_limit(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 5; seed++) {
        reset();
        cluster_run(seed, (cluster_options){ .world_size = 3, .threads = 1, .network = narrow },
                    send_much, NULL);
    }
}

static void call_much(gw_scope *s, int rank, void *context) {
    (void)context;
    set_limits(s, LIMIT, UINT64_MAX / 2, 10);
    if (rank == 0) {
        gw_future *fs[100];
        for (int i = 0; i < 100; i++) fs[i] = gw_rpc_async(s, 1, "backlog_echo", i);
        for (int i = 0; i < 100; i++) assert_int_equal(gw_int_of(s, gw_wait(s, fs[i])), i);
    }
}

static void a_caller_waits_when_too_many_calls_are_pending(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 5; seed++)
        cluster_run(seed, (cluster_options){ .world_size = 2 }, call_much, NULL);
}

static void queue_much(gw_scope *s, int rank, void *context) {
    (void)context;
    set_limits(s, UINT64_MAX / 2, rank == 1 ? LIMIT : UINT64_MAX / 2, 1000);
    if (rank == 0) {
        // The only worker thread slot is taken.
        gw_future *busy = gw_rpc_async(s, 1, "backlog_compute");
        gw_scope *other = gw_scope_open(s);
        gw_rpc_async(other, 1, "backlog_compute");
        gw_tensor *x = gw_ones(s, GW_F32, FLOATS);
        gw_future *fs[10];
        int refused = 0;
        for (int i = 0; i < 10; i++) fs[i] = gw_rpc_async(other, 1, "backlog_take", x);
        gw_rpc_sync(s, 1, "backlog_echo", 0);
        started += 1000;  // from now on the second worker calls
        while (reads < 20 && gw_ok(s)) gw_rpc_sync(s, 2, "backlog_echo", 0);
        released = true;
        gw_wait(s, busy);
        for (int i = 0; i < 10; i++) {
            gw_scope *inner = gw_scope_open(s);
            gw_wait(inner, fs[i]);
            gw_error e = gw_scope_close(inner);
            if (!e.status) continue;
            refused++;
            assert_int_equal(e.status, GW_OVERLOADED);
            assert_int_equal(e.outcome, GW_NOT_DELIVERED);
            assert_non_null(strstr(e.text, "bytes of calls of w0 have not started"));
        }
        assert_int_equal(refused, 7);  // three fit
        gw_scope_close_up(other);
    } else if (rank == 2) {
        while (started < 1000 && gw_ok(s)) gw_rpc_sync(s, 1, "backlog_echo", 0);
        for (; reads < 20 && gw_ok(s); reads++)
            gw_rpc_sync(s, 1, "backlog_echo", gw_ones(s, GW_F32, FLOATS));
    }
}

static void arguments_of_queued_calls_are_bounded_for_each_caller(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 5; seed++) {
        reset();
        cluster_run(seed, (cluster_options){ .world_size = 3, .threads = 1 }, queue_much, NULL);
    }
}

// ---- Replies ------------------------------------------------------------------------------------

static void request_large_replies(gw_scope *s, int rank, void *context) {
    (void)context;
    set_limits(s, LIMIT, UINT64_MAX / 2, 1000);
    if (rank == 0) {
        gw_rref *box = gw_remote(s, 1, "backlog_box");
        gw_rpc_sync(s, box, "count");
        gw_future *fs[90];
        for (int i = 0; i < 90; i += 3) {
            fs[i] = gw_rpc_async(s, 1, "backlog_give");
            fs[i + 1] = gw_rpc_async(s, 1, "backlog_give_on_pool");
            fs[i + 2] = gw_rpc_async(s, box, "give");
        }
        for (int i = 0; i < 90; i++) {
            gw_scope *inner = gw_scope_open(s);
            assert_true(gw_item(inner, gw_sum(inner, gw_tensor_of(inner, gw_wait(inner, fs[i])))) ==
                        FLOATS);
            gw_scope_close_up(inner);
        }
        assert_int_equal(gw_int_of(s, gw_rpc_sync(s, box, "count")), 30);
        // Calls that started together when the limit was reached.
        assert_in_range(most, LIMIT / 2, LIMIT + 4 * FLOATS * 4);
    } else if (rank == 2) {
        for (int i = 0; i < 20; i++) gw_rpc_sync(s, 1, "backlog_echo", i);
    }
}

static void calls_of_a_worker_that_does_not_read_are_not_started(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 10; seed++) {
        reset();
        cluster_run(seed, (cluster_options){ .world_size = 3, .threads = 2, .network = narrow },
                    request_large_replies, NULL);
        assert_int_equal(started, 90);
    }
}

static void leave_unread(gw_scope *s, int rank, void *context) {
    (void)context;
    set_limits(s, LIMIT, UINT64_MAX / 2, 1000);
    if (rank == 0) {
        for (int i = 0; i < 60; i++)
            gw_rpc_async(s, 1, i % 2 ? "backlog_give" : "backlog_give_on_pool");
        while (started < 4 && gw_ok(s)) gw_rpc_sync(s, 0, "backlog_echo", 0);
    }
}

static void held_calls_end_with_their_caller(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 10; seed++) {
        reset();
        cluster_options o = {
            .world_size = 2, .network = narrow, .leaves = { true }, .fails = true
        };
        cluster_outcome out = cluster_run(seed, o, leave_unread, NULL);
        assert_string_equal(out.errors[1].text, "");
        assert_in_range(started, 4, 59);
    }
}

GW_TESTS(flow_control, a_caller_waits_at_the_limit, a_caller_waits_when_too_many_calls_are_pending,
         arguments_of_queued_calls_are_bounded_for_each_caller,
         calls_of_a_worker_that_does_not_read_are_not_started, held_calls_end_with_their_caller);
