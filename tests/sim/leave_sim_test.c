// Order, shutdown and the loss of workers, in the simulator.
#include "base/log.h"
#include "testing/cluster.h"
#include "testing/testing.h"

#include <gradwire.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void expect(gw_scope *s, gw_status status, gw_outcome outcome, const char *text) {
    const gw_error *e = gw_scope_error(s);
    assert_string_equal(e->text, text);
    assert_int_equal(e->status, status);
    assert_int_equal(e->outcome, outcome);
    gw_scope_clear(s);
}

static void pause_ms(gw_scope *s, int64_t ms) {
    gw_error late = cluster_pause_ms(s, ms);
    // A body may find that its caller has left before.
    assert_true(late.status == GW_TIMEOUT || late.status == GW_CANCELLED ||
                late.status == GW_DISCONNECTED || !gw_ok(s));
}

// ---- Order --------------------------------------------------------------------------------------

enum { LOG_MAX = 4096 };

static struct {
    char text[LOG_MAX];
    size_t size;
} started;

static void log_start(const char *what, int64_t n) {
    started.size += (size_t)snprintf(started.text + started.size, LOG_MAX - started.size, "%s%d ",
                                     what, (int)n);
}

GW_FUNCTION(order_inline, GW_INLINE, "int") {
    log_start("i", gw_arg_int(s, a, 0));
    return gw_none();
}

GW_FUNCTION(order_pool, GW_POOL, "int") {
    log_start("p", gw_arg_int(s, a, 0));
    pause_ms(s, 3);
    return gw_none();
}

GW_FUNCTION(order_last, GW_INLINE, "int, int") {
    log_start("l", gw_arg_int(s, a, 0));
    return gw_none();
}

typedef struct order_log {
    int unused;
} order_log;

GW_CLASS(order_log, order_log_open);

static void order_log_open(gw_scope *own, order_log *self, const gw_args *a) {
    (void)self;
    (void)a;
    pause_ms(own, 5);
}

GW_METHOD(order_log, put, GW_INLINE, "int") {
    log_start("m", gw_arg_int(s, a, 0));
    return gw_none();
}

GW_METHOD(order_log, put_slowly, GW_POOL, "int") {
    log_start("s", gw_arg_int(s, a, 0));
    pause_ms(s, 3);
    return gw_none();
}

static void call_in_order(gw_scope *root, int rank, void *context) {
    (void)context;
    if (rank != 0) return;
    gw_scope *s = gw_scope_open(root);
    gw_rref *log = gw_remote(s, 1, "order_log");
    gw_future *fs[11];
    int n = 0;
    fs[n++] = gw_rpc_async(s, 1, "order_pool", 0);
    fs[n++] = gw_rpc_async(s, 1, "order_pool", 1);
    fs[n++] = gw_rpc_async(s, 1, "order_inline", 2);
    fs[n++] = gw_rpc_async(s, 1, "order_pool", 3);
    // Its argument is not ready: later calls overtake it.
    gw_future *late = gw_future_open(s);
    fs[n++] = gw_rpc_async(s, 1, "order_last", 9, late);
    fs[n++] = gw_rpc_async(s, 1, "order_inline", 4);
    fs[n++] = gw_rpc_async(s, 1, "order_inline", 5);
    gw_wait_all(s, fs, 4);
    gw_wait_all(s, fs + 5, 2);
    gw_rpc_sync(s, log, "put", 6);
    fs[n++] = gw_rpc_async(s, log, "put_slowly", 7);
    fs[n++] = gw_rpc_async(s, log, "put", 8);
    fs[n++] = gw_rpc_async(s, 1, "order_inline", 9);
    gw_wait_all(s, fs + 7, 3);
    gw_future_set(s, late, 1);
    gw_wait_all(s, fs, n);
    assert_true(gw_ok(s));
    gw_scope_close_up(s);
    assert_string_equal(started.text, "p0 p1 i2 p3 i4 i5 m6 s7 m8 i9 l9 ");
}

static void call_in_order_with_seed(uint64_t seed, void *context) {
    (void)context;
    memset(&started, 0, sizeof started);
    cluster_run(
        seed,
        (cluster_options){ .world_size = 2,
                           .threads = 1 + (int)(seed % 3),
                           .network = { .delay_max_us = 2000, .interleave_per_million = -1 } },
        call_in_order, NULL);
}

static void it_starts_calls_of_one_scope_in_order(void **state) {
    (void)state;
    testing_for_seeds(200, call_in_order_with_seed, NULL);
}

// ---- Shutdown -----------------------------------------------------------------------------------

GW_FUNCTION(leave_echo, GW_INLINE, "any") {
    return gw_arg(s, a, 0);
}

GW_FUNCTION(leave_slow, GW_POOL, "int") {
    pause_ms(s, gw_arg_int(s, a, 0));
    return gw_none();
}

GW_FUNCTION(leave_follow_up, GW_POOL, "int") {
    int64_t n = gw_arg_int(s, a, 0);
    pause_ms(s, 2);
    if (n > 0)
        gw_rpc_async(s, (gw_rpc_self(s).rank + 1) % gw_rpc_world_size(s), "leave_follow_up", n - 1);
    return gw_none();
}

// A worker that shuts down before the others serves them; started calls run to their end.
static void shut_down_at_different_times(gw_scope *s, int rank, void *context) {
    (void)context;
    if (rank == 2) pause_ms(s, 200000);
    gw_rpc_sync(s, 0, "leave_echo", 1);
    for (int i = 0; i < 3; i++) gw_rpc_async(s, (rank + 1) % 3, "leave_follow_up", 5);
    gw_rpc_async(s, 1, "leave_slow", 20000);
    assert_true(gw_ok(s));
}

static void leave_with_seed(uint64_t seed, void *context) {
    (void)context;
    cluster_outcome o = cluster_run(seed, (cluster_options){ .world_size = 3, .threads = 2 },
                                    shut_down_at_different_times, NULL);
    assert_true(o.took_ns > 220 * SIM_SECOND && o.took_ns < 232 * SIM_SECOND);
}

static void it_serves_until_all_are_in_shutdown_and_all_calls_have_ended(void **state) {
    (void)state;
    testing_for_seeds(30, leave_with_seed, NULL);
}

static void never_end(gw_scope *s, int rank, void *context) {
    (void)context;
    if (rank == 1) gw_rpc_async(s, 2, "leave_slow", 1000000);
}

static void it_names_pending_calls_at_the_deadline(void **state) {
    (void)state;
    cluster_outcome o = cluster_run(
        1, (cluster_options){ .world_size = 3, .timeout_ms = CLUSTER_NO_TIMEOUT, .fails = true },
        never_end, NULL);
    for (int rank = 0; rank < 3; rank++) {
        char text[200];
        snprintf(text, sizeof text,
                 "w%d: gw_rpc_shutdown: calls and references have not ended within 30 s: w1 awaits "
                 "1 reply; w2 serves 1 call",
                 rank);
        assert_string_equal(o.errors[rank].text, text);
        assert_int_equal(o.errors[rank].status, GW_TIMEOUT);
    }
}

static void use_after_shutdown(gw_scope *root, int rank, void *context) {
    (void)context;
    gw_scope *s = gw_scope_open(root);
    gw_rref *r = gw_remote(s, 1 - rank, "leave_echo", 7);
    assert_int_equal(gw_int_of(s, gw_to_here_value(s, r)), 7);
    gw_rpc_shutdown(root);
    assert_true(gw_ok(root));
    gw_rpc_sync(s, 1 - rank, "leave_echo", 1);
    expect(s, GW_WRONG_STATE, GW_NOT_DELIVERED, "a call is not possible after shutdown");
    gw_to_here_value(s, r);
    expect(s, GW_WRONG_STATE, GW_OUTCOME_NONE, "a reference is not possible after shutdown");
    gw_rpc_shutdown(s);
    expect(s, GW_WRONG_STATE, GW_OUTCOME_NONE,
           "gw_rpc_shutdown must be called with the scope that was given to gw_rpc_init");
    assert_true(gw_rpc_get_stats(s).messages_sent > 0);
    gw_scope_close_up(s);
}

static void it_refuses_calls_after_shutdown(void **state) {
    (void)state;
    cluster_outcome o =
        cluster_run(2, (cluster_options){ .world_size = 2 }, use_after_shutdown, NULL);
    assert_int_equal(o.owned[0] + o.owned[1], 0);
}

// ---- Losing -------------------------------------------------------------------------------------

GW_FUNCTION(leave_shutdown, GW_POOL) {
    gw_rpc_shutdown(s);
    return gw_none();
}

GW_FUNCTION(leave_leave, GW_INLINE) {
    gw_rpc_leave(s);
    return gw_none();
}

// A started call continues; a call that has not started fails with a text that another worker should be called.
static void call_a_leaving_worker(gw_scope *s, int rank, void *context) {
    (void)context;
    if (rank == 1) {
        pause_ms(s, 500);
        gw_rpc_leave(s);
        return;
    }
    gw_future *begun = gw_rpc_async(s, 1, "leave_slow", 3000);
    pause_ms(s, 1500);
    gw_rpc_sync(s, 1, "leave_echo", 1);
    expect(s, GW_DISCONNECTED, GW_NOT_DELIVERED, "w1 is leaving the job");
    gw_wait(s, begun);
    assert_true(gw_ok(s));
}

static void a_leaving_worker_refuses_new_calls(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 5; seed++)
        cluster_run(seed, (cluster_options){ .world_size = 2 }, call_a_leaving_worker, NULL);
}

static void shut_down_in_bodies(gw_scope *root, int rank, void *context) {
    (void)context;
    for (int to = 0; to < 2; to++) {
        gw_rpc_sync(root, to, "leave_shutdown");
        assert_int_equal(gw_scope_error(root)->status, GW_WRONG_STATE);
        assert_int_equal(gw_scope_error(root)->outcome, GW_RAN_AND_FAILED);
        assert_non_null(strstr(gw_scope_error(root)->text,
                               "leave_shutdown: gw_rpc_shutdown must be called "
                               "with the scope that was given to gw_rpc_init"));
        gw_scope_clear(root);
        gw_rpc_sync(root, to, "leave_leave");
        assert_int_equal(gw_scope_error(root)->status, GW_WRONG_STATE);
        gw_scope_clear(root);
    }
    assert_int_equal(gw_int_of(root, gw_rpc_sync(root, 1 - rank, "leave_echo", 1)), 1);
}

static void shutdown_is_an_error_in_a_body_or_before_init(void **state) {
    (void)state;
    cluster_run(6, (cluster_options){ .world_size = 2 }, shut_down_in_bodies, NULL);
    gw_scope *alone = gw_scope_open(NULL);
    gw_rpc_shutdown(alone);
    expect(alone, GW_WRONG_STATE, GW_OUTCOME_NONE,
           "gw_rpc_shutdown was called without gw_rpc_init");
    gw_rpc_leave(alone);
    expect(alone, GW_WRONG_STATE, GW_OUTCOME_NONE, "gw_rpc_leave was called without gw_rpc_init");
    assert_int_equal(gw_exit_code(gw_scope_close(alone)), 0);
}

GW_FUNCTION(leave_keep_and_go, GW_POOL, "any") {
    pause_ms(s, 10);
    return gw_none();
}

static void leave_first(gw_scope *s, int rank, void *context) {
    gw_rref **kept = context;
    if (rank == 1) {
        // Serves for a while, then ends without shutdown.
        pause_ms(s, 1000);
        return;
    }
    if (rank != 0) return;
    gw_rref *theirs = gw_remote(s, 1, "leave_echo", 5), *mine = gw_rref_open(s, 6);
    assert_int_equal(gw_int_of(s, gw_to_here_value(s, theirs)), 5);
    gw_future *with_mine = gw_rpc_async(s, 1, "leave_slow", 100000);
    gw_future *promised = gw_rpc_async(s, 2, "leave_echo", with_mine);
    (void)mine;
    (void)kept;
    gw_wait(s, with_mine);
    expect(s, GW_DISCONNECTED, GW_MAY_HAVE_RUN, "w1: leave_slow: w1 (rank 1) has left");
    gw_wait(s, promised);
    assert_int_equal(gw_scope_error(s)->status, GW_DISCONNECTED);
    gw_scope_clear(s);
    gw_rpc_sync(s, 1, "leave_echo", 1);
    assert_int_equal(gw_scope_error(s)->status, GW_DISCONNECTED);
    assert_int_equal(gw_scope_error(s)->outcome, GW_NOT_DELIVERED);
    gw_scope_clear(s);
    gw_to_here_value(s, theirs);
    expect(s, GW_REF_LOST, GW_NOT_DELIVERED,
           "w1, the owner of the referenced value, is gone: w1 (rank 1) has left");
    assert_int_equal(gw_int_of(s, gw_rpc_sync(s, 2, "leave_echo", 3)), 3);
}

static void lose_with_seed(uint64_t seed, void *context) {
    (void)context;
    cluster_run(seed, (cluster_options){ .world_size = 3, .leaves = { false, true, false } },
                leave_first, NULL);
}

static void it_continues_without_a_worker_that_has_left(void **state) {
    (void)state;
    testing_for_seeds(50, lose_with_seed, NULL);
}

static void hold_references_and_leave(gw_scope *s, int rank, void *context) {
    gw_scope *inner = gw_scope_open(s);
    (void)context;
    if (rank == 2) {
        gw_rref *r = gw_remote(s, 0, "leave_echo", 5);
        assert_int_equal(gw_int_of(s, gw_to_here_value(s, r)), 5);
        gw_rpc_sync(s, 1, "leave_echo", r);
        pause_ms(s, 100);
    }
    if (rank == 0) {
        pause_ms(s, 50);
        assert_int_equal(gw_rref_owned_count(s), 1);
        pause_ms(s, 10000);
        assert_int_equal(gw_rref_owned_count(s), 0);
    }
    gw_scope_close_up(inner);
}

static void it_releases_references_of_a_lost_worker(void **state) {
    (void)state;
    cluster_run(3, (cluster_options){ .world_size = 3, .leaves = { false, false, true } },
                hold_references_and_leave, NULL);
}

static void lose_rank_0(gw_scope *s, int rank, void *context) {
    (void)context;
    if (rank == 0) pause_ms(s, 100);
}

static void it_leaves_when_rank_0_is_lost(void **state) {
    (void)state;
    cluster_outcome o =
        cluster_run(4, (cluster_options){ .world_size = 3, .leaves = { true } }, lose_rank_0, NULL);
    assert_true(o.took_ns < 20 * SIM_SECOND);
}

static int reminder_count;

static void count_reminders(const char *line) {
    reminder_count +=
        strstr(line, "w1 waits in gw_rpc_shutdown for w0, w2, which have not called it") != NULL;
}

static void take_time(gw_scope *s, int rank, void *context) {
    (void)context;
    if (rank != 1) pause_ms(s, 35 * 1000);
}

static void it_names_workers_that_have_not_called_shutdown(void **state) {
    (void)state;
    log_hook = count_reminders;
    cluster_run(5, (cluster_options){ .world_size = 3 }, take_time, NULL);
    assert_int_equal(reminder_count, 1);
}

// ---- Stops --------------------------------------------------------------------------------------
enum { STOPPED = 2 };

static void stop_one(sim *s, void *arg) {
    (void)arg;
    sim_stop(s, STOPPED);
}

static void resume(sim *s, void *arg) {
    (void)arg;
    sim_continue(s, STOPPED);
}

// Workers call gw_rpc_shutdown at 1 s, except the last, which calls it at 3 s.
static void plan_stop(sim *s, void *context) {
    int64_t when_ns = *(const int64_t *)context;
    assert_true(sim_at(s, when_ns, stop_one, NULL));
    assert_true(sim_at(s, 60 * SIM_SECOND, resume, NULL));
}

static void leave_at_1_s(gw_scope *s, int rank, void *context) {
    (void)context;
    pause_ms(s, rank == 1 ? 3000 : 1000);
}

static int named;

static void count_named(const char *line) {
    named += strstr(line, "w2 (rank 2) has sent nothing to ") != NULL;
}

// The worker is stopped before it calls gw_rpc_shutdown, afterwards, and when all have called it. It detects that when
// it resumes, although no worker is left.
static void it_leaves_without_a_worker_that_is_stopped(void **state) {
    (void)state;
    static const int64_t at_ns[] = { SIM_SECOND / 2, 2 * SIM_SECOND, 3 * SIM_SECOND + 300000 };
    log_hook = count_named;
    for (int i = 0; i < 3; i++) {
        named = 0;
        int64_t when_ns = at_ns[i];
        testing_note("stopped at %.6f s", (double)when_ns / 1e9);
        cluster_outcome o =
            cluster_run(6, (cluster_options){ .world_size = 4, .fails = true, .direct = plan_stop },
                        leave_at_1_s, &when_ns);
        for (int rank = 0; rank < 4; rank++)
            if (rank != STOPPED) assert_string_equal(o.errors[rank].text, "");
        assert_int_equal(o.errors[STOPPED].status, GW_FENCED);
        assert_true(named > 0 || i > 0);  // a worker that has called it is not missed
    }
    log_hook = NULL;
}

// ---- Cuts ---------------------------------------------------------------------------------------
static uint64_t cuts;

static void call_all(gw_scope *s, int rank, void *context) {
    (void)context, (void)rank;
    for (int i = 0; i < gw_rpc_world_size(s); i++) {
        gw_scope *t = gw_scope_open(s);
        assert_int_equal(gw_int_of(t, gw_rpc_sync(t, i, "leave_echo", i)), i);
        gw_scope_close_up(t);
    }
}

// cluster_run fails if a worker ends with an error.
static void leave_over_cuts(uint64_t seed, void *context) {
    (void)context;
    sim_options network = sim_varied(seed, 10000 + (int)(seed % 7) * 20000);
    if (network.delay_max_us > 20000) network.delay_max_us = 20000;
    if (network.window_bytes < 1000) network.window_bytes = 0;
    cluster_outcome o = cluster_run(
        seed, (cluster_options){ .world_size = 2 + (int)(seed % 4), .network = network }, call_all,
        NULL);
    for (int i = 0; i < 2 + (int)(seed % 4); i++) assert_int_equal(o.errors[i].status, GW_OK);
    cuts += o.counts.cuts;
}

static void connections_that_break_during_leaving_are_no_errors(void **state) {
    (void)state;
    testing_for_seeds(400, leave_over_cuts, NULL);
    if (!getenv("SEED")) assert_true(cuts > 0);
}

// ---- The last worker ----------------------------------------------------------------------------

static void watch_until_alone(gw_scope *root, int rank, void *context) {
    (void)context;
    if (rank) {
        cluster_pause_ms(root, 500);
        gw_rpc_leave(root);
        return;
    }
    gw_watch *w = gw_watch_open(root);
    for (int i = 0; i < 2; i++) assert_int_equal(gw_watch_next(root, w).kind, GW_MEMBER_LEFT);
    assert_int_equal(gw_watch_next(root, w).kind, GW_MEMBER_NONE);
    assert_int_equal(gw_scope_error(root)->status, GW_DISCONNECTED);
    gw_scope_clear(root);
}

static void a_watch_of_a_worker_that_is_alone_ends(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++)
        cluster_run(seed, (cluster_options){ .world_size = 3 }, watch_until_alone, NULL);
}

GW_TESTS(leave_sim, a_watch_of_a_worker_that_is_alone_ends, it_starts_calls_of_one_scope_in_order,
         it_serves_until_all_are_in_shutdown_and_all_calls_have_ended,
         it_names_pending_calls_at_the_deadline, it_refuses_calls_after_shutdown,
         it_continues_without_a_worker_that_has_left, it_releases_references_of_a_lost_worker,
         it_leaves_when_rank_0_is_lost, it_names_workers_that_have_not_called_shutdown,
         it_leaves_without_a_worker_that_is_stopped, a_leaving_worker_refuses_new_calls,
         connections_that_break_during_leaving_are_no_errors,
         shutdown_is_an_error_in_a_body_or_before_init);
