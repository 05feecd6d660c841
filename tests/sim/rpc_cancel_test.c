// Cancelling calls: a call that has not started does not run, a running body can detect it, and the calls that it has
// made are cancelled, too.
#include "testing/cluster.h"
#include "testing/testing.h"

#include <gradwire.h>
#include <string.h>

// The workers are threads of one process that run one at a time, so they may share these.
static int started, ended, ended_cancelled, finished;
static gw_future *shared;

static void reset(void) {
    started = ended = ended_cancelled = finished = 0;
    shared = NULL;
}

static void note_end(gw_scope *s) {
    ended++;
    if (gw_ok(s)) {
        finished++;
    } else if (gw_scope_error(s)->status == GW_CANCELLED && gw_cancelled(s)) {
        ended_cancelled++;
    }
}

GW_FUNCTION(cancel_count, GW_INLINE) {
    return gw_value_of(++started);
}

// Waits for a future that never resolves.
GW_FUNCTION(cancel_wait, GW_POOL) {
    started++;
    gw_wait(s, gw_future_open(s));
    note_end(s);
    return gw_none();
}

// Makes calls from time to time, in a scope of its own whose error it ignores.
GW_FUNCTION(cancel_poll, GW_POOL) {
    started++;
    while (!gw_cancelled(s)) {
        gw_scope *inner = gw_scope_open(s);
        gw_rpc_sync(inner, gw_rpc_self(s).rank, "cancel_echo", 1);
        gw_error ignored = gw_scope_close(inner);
        (void)ignored;
    }
    gw_rpc_sync(s, gw_rpc_self(s).rank, "cancel_echo", 1);
    note_end(s);
    return gw_none();
}

GW_FUNCTION(cancel_echo, GW_INLINE, "any") {
    return gw_arg(s, a, 0);
}

// Calls the next worker, which calls the next, down to one that waits.
GW_FUNCTION(cancel_nest, GW_POOL, "int") {
    int64_t depth = gw_arg_int(s, a, 0);
    gw_scope *inner = gw_scope_open(s);
    int next = (gw_rpc_self(s).rank + 1) % gw_rpc_world_size(s);
    started++;
    if (depth == 0) {
        gw_wait(inner, gw_future_open(inner));
    } else {
        gw_wait(inner, gw_rpc_async(inner, next, "cancel_nest", depth - 1));
    }
    gw_scope_close_up(inner);
    note_end(s);
    return gw_none();
}

// Never waits, so it keeps its worker thread slot.
GW_FUNCTION(cancel_compute, GW_POOL) {
    started++;
    while (!gw_cancelled(s)) gw_rpc_get_stats(s);
    gw_rpc_sync(s, gw_rpc_self(s).rank, "cancel_echo", 1);
    note_end(s);
    return gw_none();
}

static gw_value add_one(gw_scope *s, gw_value v, void *context) {
    (void)context;
    finished++;
    return gw_value_of(gw_int_of(s, v) + 1);
}

// Holds no thread; its own future is the only user of the future that it waits for.
GW_FUNCTION(cancel_relay, GW_INLINE, "int") {
    gw_future *f = gw_rpc_async(s, (int)gw_arg_int(s, a, 0), "cancel_wait");
    return gw_value_of(gw_then(s, f, add_one, NULL));
}

// Returns the same future to all callers.
GW_FUNCTION(cancel_shared, GW_INLINE, "rref") {
    started++;
    return gw_value_of(shared);
}

static void expect_cancelled(gw_scope *s, gw_outcome outcome, const char *text) {
    assert_string_equal(gw_scope_error(s)->text, text);
    assert_int_equal(gw_scope_error(s)->status, GW_CANCELLED);
    assert_int_equal(gw_scope_error(s)->outcome, outcome);
    gw_scope_clear(s);
}

// Waits until earlier messages have arrived.
static void await_delivery(gw_scope *s, int rank) {
    gw_rpc_sync(s, rank, "cancel_echo", 0);
}

static void await_count(gw_scope *s, const int *count, int wanted) {
    enum { CALLS_MAX = 20000 };
    for (int i = 0; *count < wanted && i < CALLS_MAX && gw_ok(s); i++) await_delivery(s, 1);
    assert_int_equal(*count, wanted);
}

// ---- A call -------------------------------------------------------------------------------------

static void cancel_running_calls(gw_scope *s, int rank, void *context) {
    const char *function = context;
    if (rank != 0) return;
    gw_future *f = gw_rpc_async(s, 1, function);
    await_count(s, &started, 1);
    gw_cancel(s, f);
    assert_true(gw_future_done(f));
    await_count(s, &ended_cancelled, 1);
    gw_wait(s, f);
    assert_int_equal(gw_scope_error(s)->status, GW_CANCELLED);
    assert_int_equal(gw_scope_error(s)->outcome, GW_MAY_HAVE_RUN);
    assert_non_null(strstr(gw_scope_error(s)->text, "w1: cancel_"));
    gw_scope_clear(s);
    gw_cancel(s, f);  // once is enough
    // Cancelling a resolved future changes nothing.
    f = gw_rpc_async(s, 1, "cancel_echo", 7);
    gw_wait(s, f);
    gw_cancel(s, f);
    assert_int_equal(gw_int_of(s, gw_wait(s, f)), 7);
    gw_cancel(s, NULL);
}

static void a_running_body_is_notified(void **state) {
    (void)state;
    for (int seed = 1; seed <= 10; seed++) {
        reset();
        cluster_run((uint64_t)seed, (cluster_options){ .world_size = 2 }, cancel_running_calls,
                    seed % 2 ? "cancel_wait" : "cancel_poll");
    }
}

static void cancel_queued_calls(gw_scope *s, int rank, void *context) {
    (void)context;
    if (rank != 0) return;
    gw_scope *other = gw_scope_open(s);
    gw_future *never = gw_future_open(s);
    gw_future *waits = gw_rpc_async(s, 1, "cancel_echo", never);   // for its argument
    gw_future *behind = gw_rpc_async(other, 1, "cancel_compute");  // the only slot is taken
    await_count(other, &started, 1);
    gw_future *queued = gw_rpc_async(other, 1, "cancel_wait");
    gw_future *after = gw_rpc_async(other, 1, "cancel_count");
    await_delivery(s, 1);
    gw_cancel(s, waits);
    gw_cancel(s, queued);
    // The call queued behind it starts.
    gw_wait(other, after);
    assert_int_equal(started, 2);
    gw_cancel(s, behind);
    await_count(other, &ended_cancelled, 1);
    assert_int_equal(started, 2);
    gw_wait(s, queued);
    expect_cancelled(s, GW_MAY_HAVE_RUN, "w1: cancel_wait: cancelled");
    gw_future_set(s, never, 1);
    gw_scope_close_up(other);
}

static void a_call_that_has_not_started_does_not_run(void **state) {
    (void)state;
    for (int seed = 1; seed <= 10; seed++) {
        reset();
        cluster_run((uint64_t)seed, (cluster_options){ .world_size = 2, .threads = 1 },
                    cancel_queued_calls, NULL);
    }
}

static void cancel_unsent(gw_scope *s, int rank, void *context) {
    (void)context;
    if (rank != 0) return;
    gw_scope *inner = gw_scope_open(s);
    gw_rref *r = gw_rref_open(inner, 5);
    // This worker has received no message yet: the connection must be opened first.
    gw_future *f = gw_rpc_async(s, 2, "cancel_shared", r);
    gw_future *g = gw_rpc_async(s, 2, "cancel_count");
    gw_cancel(s, f);
    gw_wait(s, f);
    expect_cancelled(s, GW_NOT_DELIVERED, "w2: cancel_shared: cancelled");
    assert_int_equal(gw_int_of(s, gw_wait(s, g)), 1);
    assert_int_equal(started, 1);
    gw_scope_close_up(inner);
}

static void a_call_cancelled_before_it_is_sent_never_arrives(void **state) {
    (void)state;
    reset();
    cluster_outcome o = cluster_run(1, (cluster_options){ .world_size = 3 }, cancel_unsent, NULL);
    for (int rank = 0; rank < 3; rank++) assert_int_equal(o.owned[rank], 0);
}

static void cancel_failed_scope(gw_scope *s, int rank, void *context) {
    (void)context;
    if (rank != 0) return;
    gw_future *f = gw_rpc_async(s, 1, "cancel_wait");
    await_count(s, &started, 1);
    gw_fail(s, GW_REMOTE, "something else");
    gw_cancel(s, f);
    assert_true(gw_future_done(f));
    assert_string_equal(gw_scope_error(s)->text, "something else");
    gw_scope_clear(s);
    await_count(s, &ended_cancelled, 1);
}

static void it_cancels_calls_of_a_failed_scope(void **state) {
    (void)state;
    reset();
    cluster_run(1, (cluster_options){ .world_size = 2 }, cancel_failed_scope, NULL);
}

// ---- Nested calls -------------------------------------------------------------------------------

static void cancel_chain(gw_scope *s, int rank, void *context) {
    (void)context;
    if (rank != 0) return;
    gw_future *f = gw_rpc_async(s, 1, "cancel_nest", 5);
    await_count(s, &started, 6);
    gw_cancel(s, f);
    await_count(s, &ended_cancelled, 6);
}

static void cancel_chain_with_seed(uint64_t seed, void *context) {
    (void)context;
    reset();
    cluster_outcome o =
        cluster_run(seed, (cluster_options){ .world_size = 3, .threads = 1 }, cancel_chain, NULL);
    assert_true(o.took_ns < 5 * SIM_SECOND);
}

static void nested_calls_are_cancelled(void **state) {
    (void)state;
    testing_for_seeds(20, cancel_chain_with_seed, NULL);
}

static void cancel_relayed(gw_scope *s, int rank, void *context) {
    (void)context;
    if (rank != 0) return;
    gw_future *f = gw_rpc_async(s, 1, "cancel_relay", 2);
    await_count(s, &started, 1);
    gw_cancel(s, f);
    await_count(s, &ended_cancelled, 1);
    assert_int_equal(finished, 0);
}

static void the_call_behind_a_returned_future_is_cancelled(void **state) {
    (void)state;
    reset();
    cluster_run(1, (cluster_options){ .world_size = 3 }, cancel_relayed, NULL);
}

static void share(gw_scope *s, int rank, void *context) {
    (void)context;
    if (rank == 1) {
        shared = gw_future_open(s);
        while (started < 3 && gw_ok(s)) await_delivery(s, 0);
        while (!finished && gw_ok(s)) await_delivery(s, 0);
        gw_future_set(s, shared, 42);
        return;
    }
    if (rank != 0) return;
    while (!shared && gw_ok(s)) await_delivery(s, 1);
    gw_rref *r = gw_rref_open(s, 1);
    gw_future *fs[3];
    for (int i = 0; i < 3; i++) fs[i] = gw_rpc_async(s, 1, "cancel_shared", r);
    await_count(s, &started, 3);
    gw_cancel(s, fs[1]);
    await_delivery(s, 1);
    finished = 1;
    assert_int_equal(gw_int_of(s, gw_wait(s, fs[0])), 42);
    assert_int_equal(gw_int_of(s, gw_wait(s, fs[2])), 42);
}

static void a_future_with_other_waiters_continues(void **state) {
    (void)state;
    for (int seed = 1; seed <= 5; seed++) {
        reset();
        cluster_run((uint64_t)seed, (cluster_options){ .world_size = 2 }, share, NULL);
    }
}

// ---- Futures of the program's own ---------------------------------------------------------------

static void cancel_futures(gw_scope *s, int rank, void *context) {
    (void)context;
    if (rank != 0) return;
    gw_future *own = gw_future_open(s);
    gw_cancel(s, own);
    gw_future_set(s, own, 3);  // the completer needs no check for cancelling
    gw_wait(s, own);
    expect_cancelled(s, GW_OUTCOME_NONE, "the future was cancelled");

    // Another handle holds the future that it waits for ...
    gw_future *call = gw_rpc_async(s, 1, "cancel_wait");
    gw_future *then = gw_then(s, call, add_one, NULL);
    await_count(s, &started, 1);
    gw_cancel(s, then);
    assert_true(gw_future_done(then));
    assert_false(gw_future_done(call));
    gw_cancel(s, call);
    await_count(s, &ended_cancelled, 1);
    // ... or none does.
    call = gw_rpc_async(s, 1, "cancel_wait");
    then = gw_then(s, gw_then(s, call, add_one, NULL), add_one, NULL);
    await_count(s, &started, 2);
    gw_cancel(s, then);
    await_delivery(s, 1);
    assert_int_equal(ended_cancelled, 1);  // the one in the middle is the scope's
    gw_cancel(s, call);
    await_count(s, &ended_cancelled, 2);
    gw_scope *inner = gw_scope_open(s);
    call = gw_rpc_async(inner, 1, "cancel_wait");
    then = gw_keep(s, gw_then(inner, call, add_one, NULL));
    gw_scope_close_up(inner);
    await_count(s, &started, 3);
    gw_cancel(s, then);
    await_count(s, &ended_cancelled, 3);
    assert_int_equal(finished, 0);
}

static void a_future_is_cancelled_with_the_calls_that_only_it_waits_for(void **state) {
    (void)state;
    reset();
    cluster_run(1, (cluster_options){ .world_size = 2 }, cancel_futures, NULL);
}

// ---- Lost callers, deadlines, floods ------------------------------------------------------------

static void leave_it_running(gw_scope *s, int rank, void *context) {
    (void)context;
    if (rank == 0) {
        gw_rpc_async(s, 1, "cancel_nest", 3);
        await_count(s, &started, 4);
    } else if (rank == 1) {
        while (ended < 3 && gw_ok(s)) await_delivery(s, 1);
    }
}

static void calls_of_a_lost_caller_are_cancelled(void **state) {
    (void)state;
    for (int seed = 1; seed <= 10; seed++) {
        reset();
        cluster_options o = { .world_size = 3, .leaves = { true }, .fails = true };
        cluster_run((uint64_t)seed, o, leave_it_running, NULL);
        // The lost worker served the fourth call, and other workers may detect the loss first.
        assert_in_range(ended_cancelled, 1, 4);
        assert_int_equal(finished, 0);
    }
}

static void run_late(gw_scope *s, int rank, void *context) {
    (void)context;
    if (rank != 0) return;
    gw_call_options soon = GW_OPTIONS(gw_call_options, .timeout_ms = 5);
    gw_rpc_sync_with(s, gw_to(1), "cancel_poll", GW_NO_ARGS, soon);
    assert_int_equal(gw_scope_error(s)->status, GW_TIMEOUT);
    gw_scope_clear(s);
    gw_scope *inner = gw_scope_open(s);
    assert_false(gw_cancelled(inner));
    gw_scope_set_timeout(inner, 1);
    gw_wait(inner, gw_future_open(inner));
    assert_true(gw_cancelled(inner));
    gw_error ignored = gw_scope_close(inner);
    (void)ignored;
}

static void a_body_detects_that_its_deadline_has_passed(void **state) {
    (void)state;
    reset();
    cluster_run(1, (cluster_options){ .world_size = 2 }, run_late, NULL);
}

// FAULT-B10: the worker that opens and cancels calls pays for them.
static void flood(gw_scope *root, int rank, void *context) {
    int *served = context;
    if (rank == 0) {
        for (int i = 0; i < testing_scaled(20000); i++) {
            gw_scope *s = gw_scope_open(root);
            gw_cancel(s, gw_rpc_async(s, 1, "cancel_wait"));
            gw_scope_close_up(s);
        }
    } else if (rank == 2) {
        for (int i = 0; i < 50; i++) {
            gw_scope *s = gw_scope_open(root);
            gw_call_options soon = GW_OPTIONS(gw_call_options, .timeout_ms = 2000);
            gw_rpc_sync_with(s, gw_to(1), "cancel_echo", GW_ARGS(1), soon);
            if (gw_ok(s)) ++*served;
            gw_scope_close_up(s);
        }
    }
}

static void a_flood_of_cancels_delays_no_other_caller(void **state) {
    (void)state;
    reset();
    int served = 0;
    cluster_run(1, (cluster_options){ .world_size = 3, .threads = 1 }, flood, &served);
    assert_int_equal(served, 50);
    assert_int_equal(ended_cancelled, started);
}

GW_TESTS(rpc_cancel, a_running_body_is_notified, a_call_that_has_not_started_does_not_run,
         a_call_cancelled_before_it_is_sent_never_arrives, it_cancels_calls_of_a_failed_scope,
         nested_calls_are_cancelled, the_call_behind_a_returned_future_is_cancelled,
         a_future_with_other_waiters_continues,
         a_future_is_cancelled_with_the_calls_that_only_it_waits_for,
         calls_of_a_lost_caller_are_cancelled, a_body_detects_that_its_deadline_has_passed,
         a_flood_of_cancels_delays_no_other_caller);
