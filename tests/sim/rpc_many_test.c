// One call to many workers, many futures as one, one-way calls, and collectives.
#include "testing/cluster.h"
#include "testing/testing.h"

#include "base/log.h"

#include <gradwire.h>
#include <stdio.h>
#include <string.h>

static int notified[8], order[64], order_count, done_count;
static char logged[512];

static void reset(void) {
    memset(notified, 0, sizeof notified);
    order_count = done_count = 0;
    logged[0] = '\0';
}

static int logged_count;

static void keep_line(const char *line) {
    logged_count++;
    snprintf(logged, sizeof logged, "%s", line);
}

GW_FUNCTION(many_echo, GW_INLINE, "any") {
    return gw_arg(s, a, 0);
}

GW_FUNCTION(many_add_rank, GW_POOL, "tensor") {
    return gw_value_of(gw_add(s, gw_arg_tensor(s, a, 0), gw_rpc_self(s).rank));
}

GW_FUNCTION(many_fail_odd, GW_POOL, "int") {
    int rank = gw_rpc_self(s).rank;
    if (rank % 2) gw_fail(s, GW_REMOTE, "%d is odd", rank);
    return gw_value_of(rank + gw_arg_int(s, a, 0));
}

GW_FUNCTION(many_wait, GW_POOL) {
    return gw_wait(s, gw_future_open(s));
}

GW_FUNCTION(many_note, GW_INLINE, "int") {
    notified[gw_rpc_self(s).rank]++;
    if (order_count < 64) order[order_count++] = (int)gw_arg_int(s, a, 0);
    return gw_none();
}

GW_FUNCTION(many_note_on_pool, GW_POOL, "int") {
    notified[gw_rpc_self(s).rank]++;
    if (order_count < 64) order[order_count++] = (int)gw_arg_int(s, a, 0);
    return gw_value_of(3);
}

GW_FUNCTION(many_fail, GW_INLINE) {
    gw_fail(s, GW_REMOTE, "not today");
    return gw_none();
}

static int all_workers(gw_scope *s, gw_worker out[8]) {
    int count = gw_rpc_world_size(s);
    for (int i = 0; i < count; i++) out[i] = gw_rpc_worker(s, i);
    return count;
}

static void expect(gw_scope *s, gw_status status, const char *text) {
    assert_string_equal(gw_scope_error(s)->text, text);
    assert_int_equal(gw_scope_error(s)->status, status);
    gw_scope_clear(s);
}

// ---- The same call to many ----------------------------------------------------------------------

static void call_all(gw_scope *s, int rank, void *context) {
    (void)context;
    gw_worker workers[8];
    int count = all_workers(s, workers);
    if (rank != 0) return;
    gw_tensor *x = gw_ones(s, GW_F32, 5000);
    gw_list *sums = gw_rpc_sync_all(s, workers, count, "many_add_rank", x);
    assert_int_equal(gw_list_count(sums), count);
    for (int i = 0; i < count; i++) {
        gw_tensor *y = gw_tensor_of(s, gw_list_get(s, sums, i));
        assert_true(gw_equal(s, y, gw_full(s, GW_F32, 1.0 + i, 5000)));
    }
    // References and futures are each receiver's own.
    gw_scope *inner = gw_scope_open(s);
    gw_rref *r = gw_rref_open(inner, 7);
    gw_future *f = gw_future_open(inner);
    gw_list *both = gw_list_open(inner);
    gw_list_add(inner, both, r);
    gw_list_add(inner, both, f);
    gw_future *all = gw_rpc_async_all(inner, workers, count, "many_echo", both);
    assert_false(gw_future_done(all));
    gw_future_set(inner, f, 9);
    gw_list *back = gw_list_of(inner, gw_wait(inner, all));
    for (int i = 0; i < count; i++) {
        gw_list *pair = gw_list_of(inner, gw_list_get(inner, back, i));
        gw_rref *mine = gw_rref_of(inner, gw_list_get(inner, pair, 0));
        assert_int_equal(gw_int_of(inner, gw_to_here_value(inner, mine)), 7);
        assert_int_equal(gw_int_of(inner, gw_list_get(inner, pair, 1)), 9);
    }
    gw_scope_close_up(inner);

    // The call waits for all, and fails with the first error in order.
    gw_worker turned[] = { workers[3], workers[2], workers[1] };
    gw_rpc_sync_all(s, turned, 3, "many_fail_odd", 1);
    expect(s, GW_REMOTE, "w3: many_fail_odd: 3 is odd");
    gw_worker even[] = { workers[2], workers[0] };
    gw_list *ranks = gw_rpc_sync_all(s, even, 2, "many_fail_odd", 10);
    assert_int_equal(gw_int_of(s, gw_list_get(s, ranks, 0)), 12);
    assert_int_equal(gw_int_of(s, gw_list_get(s, ranks, 1)), 10);
    assert_int_equal(gw_list_count(gw_rpc_sync_all(s, even, 0, "many_fail_odd", 10)), 0);
    gw_call_options soon = GW_OPTIONS(gw_call_options, .timeout_ms = 20);
    gw_rpc_sync_all_with(s, gw_to_workers(even, 2), "many_wait", GW_NO_ARGS, soon);
    assert_int_equal(gw_scope_error(s)->status, GW_TIMEOUT);
    gw_scope_clear(s);
    gw_call_options negative = GW_OPTIONS(gw_call_options, .timeout_ms = -7);
    gw_rpc_sync_all_with(s, gw_to_workers(even, 2), "many_wait", GW_NO_ARGS, negative);
    expect(s, GW_INVALID, "the timeout is -7 ms, but must not be negative");
}

static void it_calls_many_workers_with_the_same_arguments(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 5; seed++)
        cluster_run(seed, (cluster_options){ .world_size = 4, .threads = 1 }, call_all, NULL);
}

// A call to an unknown worker fails, at any position of the list; the others are called.
static void call_unknown(gw_scope *s, int rank, void *context) {
    (void)context;
    if (rank != 0) return;
    for (int at = 0; at < 3; at++) {
        gw_worker workers[3];
        for (int i = 0, next = 1; i < 3; i++)
            workers[i] =
                i == at ? (gw_worker){ .name = "w9", .rank = 9 } : gw_rpc_worker(s, next++);
        gw_rpc_sync_all(s, workers, 3, "many_note", at);
        expect(s, GW_NOT_FOUND, "w0 knows no worker of rank 9: the job has 3 workers");
        gw_rpc_sync(s, (gw_worker){ 0 }, "gw.add", 1, 1);
        expect(s, GW_NOT_FOUND, "w0 knows no such worker: rank 0 is another worker named w0");
        gw_future *f = gw_rpc_async_all(s, workers, 3, "many_note", gw_ones(s, GW_F32, 5000));
        gw_wait(s, f);
        assert_false(gw_ok(s));
        gw_scope_clear(s);
        for (int to = 1; to < 3; to++) assert_int_equal(notified[to], at + 1);
    }
    gw_worker unknown[] = { { .name = "w9", .rank = 9 }, { .name = "w8", .rank = -1 } };
    gw_rpc_sync_all(s, unknown, 2, "many_note", 0);
    expect(s, GW_NOT_FOUND, "w0 knows no worker of rank 9: the job has 3 workers");
}

static void it_calls_the_others_when_one_is_unknown(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 5; seed++) {
        reset();
        cluster_run(seed, (cluster_options){ .world_size = 3 }, call_unknown, NULL);
    }
}

// A tensor of one byte more than the limit, a view that takes no memory.
static void send_too_much(gw_scope *s, int rank, void *context) {
    (void)context;
    if (rank != 0) return;
    gw_tensor *x = gw_expand(s, gw_ones(s, GW_U8, 1), ((int64_t)4 << 30) + 1);
    gw_rpc_sync(s, 1, "many_echo", x);
    assert_int_equal(gw_scope_error(s)->status, GW_LIMIT);
    assert_int_equal(gw_scope_error(s)->outcome, GW_NOT_DELIVERED);
    assert_non_null(strstr(gw_scope_error(s)->text, "at most 4 GiB"));
    gw_scope_clear(s);
    gw_rpc_notify(s, 1, "many_echo", x);
    assert_int_equal(gw_scope_error(s)->status, GW_LIMIT);
    gw_scope_clear(s);
}

static void a_tensor_beyond_the_limit_is_not_sent(void **state) {
    (void)state;
    cluster_run(1, (cluster_options){ .world_size = 2 }, send_too_much, NULL);
}

// ---- Futures ------------------------------------------------------------------------------------

static void note_done(gw_scope *s, gw_future *f, void *context) {
    assert_true(gw_future_done(f));
    done_count++;
    if (context) gw_fail(s, GW_REMOTE, "a mistake of %s", (const char *)context);
}

// Collecting all waits for the last future, also after one has failed, and then fails with the
// first error in order.
static void collect_failing_futures(gw_scope *s) {
    gw_future *late = gw_future_open(s), *later = gw_future_open(s);
    gw_future *fs[] = { gw_rpc_async(s, 1, "many_echo", 1), late, later };
    gw_future *all = gw_collect_all(s, fs, 3);
    gw_future_fail(s, later, GW_REMOTE, "the later one");
    gw_wait(s, fs[0]);
    assert_false(gw_future_done(all));
    gw_future_fail(s, late, GW_REMOTE, "the one before");
    gw_wait(s, all);
    expect(s, GW_REMOTE, "the one before");
    gw_wait(s, gw_collect_all(s, fs, 3));  // of completed futures
    expect(s, GW_REMOTE, "the one before");
}

static void collect(gw_scope *s, int rank, void *context) {
    (void)context;
    if (rank != 0) return;
    gw_future *fs[5];
    for (int i = 0; i < 5; i++) fs[i] = gw_rpc_async(s, 1, "many_echo", i);
    gw_list *all = gw_list_of(s, gw_wait(s, gw_collect_all(s, fs, 5)));
    for (int i = 0; i < 5; i++) assert_int_equal(gw_int_of(s, gw_list_get(s, all, i)), i);
    all = gw_list_of(s, gw_wait(s, gw_collect_all(s, fs, 5)));  // of completed futures
    assert_int_equal(gw_list_count(all), 5);
    assert_int_equal(gw_list_count(gw_list_of(s, gw_wait(s, gw_collect_all(s, NULL, 0)))), 0);

    // It fails with the first error that occurs.
    gw_future *never = gw_future_open(s);
    gw_future *mixed[] = { never, gw_rpc_async(s, 1, "many_fail"), fs[0] };
    gw_wait(s, gw_collect_fail_fast(s, mixed, 3));
    expect(s, GW_REMOTE, "w1: many_fail: not today");
    gw_future *failed[] = { never, mixed[1] };
    gw_wait(s, gw_collect_fail_fast(s, failed, 2));
    expect(s, GW_REMOTE, "w1: many_fail: not today");
    gw_future *open = gw_collect_all(s, mixed, 1);
    gw_cancel(s, open);
    gw_wait(s, open);
    assert_int_equal(gw_scope_error(s)->status, GW_CANCELLED);
    gw_scope_clear(s);
    collect_failing_futures(s);
    gw_future_set(s, never, 1);

    // As PyTorch's futures.
    gw_future *f = gw_future_open(s);
    assert_null(gw_future_error(f));
    gw_future_value(s, f);
    expect(s, GW_WRONG_STATE, "the future has not resolved");
    gw_on_done(s, f, note_done, NULL);
    gw_on_done(s, f, note_done, "mine");
    gw_future_set(s, f, 4);
    assert_int_equal(gw_int_of(s, gw_future_value(s, f)), 4);
    assert_null(gw_future_error(f));
    gw_rpc_sync(s, 1, "many_echo", 0);
    assert_int_equal(done_count, 2);
    assert_non_null(
        strstr(logged, "a function that was called after a future has failed: a mistake of mine"));
    gw_on_done(s, mixed[1], note_done, NULL);
    assert_int_equal(done_count, 3);
    assert_int_equal(gw_future_error(mixed[1])->status, GW_REMOTE);
    assert_true(gw_ok(s));
}

static void several_futures_are_collected_into_one(void **state) {
    (void)state;
    log_hook = keep_line;
    for (uint64_t seed = 1; seed <= 5; seed++) {
        reset();
        cluster_run(seed, (cluster_options){ .world_size = 2 }, collect, NULL);
    }
    log_hook = NULL;
}

// ---- One way ------------------------------------------------------------------------------------

static void notify(gw_scope *s, int rank, void *context) {
    (void)context;
    if (rank != 0) return;
    for (int to = 0; to < 2; to++) {
        order_count = 0;
        for (int i = 0; i < 20; i += 2) {
            gw_rpc_notify(s, to, i % 4 ? "many_note" : "many_note_on_pool", i);
            gw_rpc_async(s, to, "many_note", i + 1);
        }
        gw_rpc_sync(s, to, "many_note", 20);
        assert_true(gw_ok(s));
        // They start in order; bodies on the pool may write late.
        int last_inline = -1;
        for (int i = 0; i < order_count; i++) {
            if (order[i] % 4 == 0 && order[i] < 20) continue;
            assert_true(order[i] > last_inline);
            last_inline = order[i];
        }
    }
    // The worker that is called logs an error.
    gw_rpc_notify(s, 1, "many_fail");
    gw_rpc_sync(s, 1, "many_echo", 0);
    assert_string_equal(logged, "one-way call: w1: many_fail: not today");
    // A second error is logged as well; of very many the first ten of a second are.
    gw_rpc_notify(s, 1, "no_such_function");
    gw_rpc_sync(s, 1, "many_echo", 0);
    assert_string_equal(logged, "one-way call: w1 has no function no_such_function; is its object "
                                "linked? (gradwire/function.h)");
    int lines = logged_count;
    for (int i = 0; i < 100; i++) gw_rpc_notify(s, 1, "many_fail");
    gw_rpc_sync(s, 1, "many_echo", 0);
    assert_int_equal(logged_count - lines, 8);
    assert_non_null(strstr(logged, "(further errors in this second are not logged)"));
    gw_rpc_notify(s, 1, "many_nothing");
    gw_rpc_sync(s, 1, "many_echo", 0);
    assert_true(gw_ok(s));
    // A call that could not be sent fails the caller.
    gw_rpc_notify(s, 5, "many_note", 1);
    expect(s, GW_NOT_FOUND, "w0 knows no worker of rank 5: the job has 2 workers");
    gw_rpc_notify(s, (const char *)NULL, "many_note", 1);
    expect(s, GW_INVALID, "the worker or reference given as the target is NULL");
    gw_call_options negative = GW_OPTIONS(gw_call_options, .timeout_ms = -2);
    gw_rpc_notify_with(s, gw_to(1), "many_note", GW_ARGS(1), negative);
    expect(s, GW_INVALID, "the timeout is -2 ms, but must not be negative");
    // Its arguments may be futures, and handles that are dropped at once.
    gw_scope *inner = gw_scope_open(s);
    gw_future *f = gw_future_open(inner);
    gw_rpc_notify(inner, 1, "many_echo", gw_rref_open(inner, 5));
    gw_rpc_notify(inner, 1, "many_note", f);
    int before = notified[1];
    gw_future_set(inner, f, 1);
    gw_scope_close_up(inner);
    while (notified[1] == before && gw_ok(s)) gw_rpc_sync(s, 1, "many_echo", 0);
}

static void a_one_way_call_has_no_reply(void **state) {
    (void)state;
    log_hook = keep_line;
    for (uint64_t seed = 1; seed <= 5; seed++) {
        reset();
        cluster_outcome o = cluster_run(seed, (cluster_options){ .world_size = 2 }, notify, NULL);
        for (int rank = 0; rank < 2; rank++) assert_int_equal(o.owned[rank], 0);
    }
    log_hook = NULL;
}

static void notify_without_replies(gw_scope *s, int rank, void *context) {
    uint64_t *sent = context;
    if (rank == 1) {
        while (notified[1] < 100 && gw_ok(s)) gw_rpc_sync(s, 1, "many_echo", 0);
        *sent = gw_rpc_get_stats(s).messages_sent;
    } else {
        for (int i = 0; i < 100; i++) gw_rpc_notify(s, 1, "many_note_on_pool", i);
    }
}

static void a_one_way_call_returns_nothing(void **state) {
    (void)state;
    uint64_t sent = 100;
    reset();
    cluster_run(1, (cluster_options){ .world_size = 2 }, notify_without_replies, &sent);
    assert_in_range(sent, 0, 3);
}

// ---- Collectives --------------------------------------------------------------------------------

static void gather(gw_scope *s, int rank, void *context) {
    (void)context;
    gw_worker workers[8], turned[8];
    int count = all_workers(s, workers);
    for (int i = 0; i < count; i++) turned[i] = workers[count - 1 - i];
    for (int round = 0; round < 10; round++) {
        gw_scope *inner = gw_scope_open(s);
        gw_list *all = gw_rpc_all_gather(inner, rank % 2 ? turned : workers, count,
                                         gw_full(inner, GW_F32, round * 10 + rank, 2000));
        assert_int_equal(gw_list_count(all), count);
        for (int i = 0; i < count; i++) {
            int from = rank % 2 ? count - 1 - i : i;
            gw_tensor *x = gw_tensor_of(inner, gw_list_get(inner, all, i));
            assert_true(gw_equal(inner, x, gw_full(inner, GW_F32, round * 10 + from, 2000)));
        }
        notified[rank]++;
        gw_rpc_barrier(inner, workers, count);
        for (int i = 0; i < count; i++) assert_true(notified[i] > round);
        // Some of them enter a collective of their own in addition.
        if (rank < 2) gw_rpc_barrier(inner, workers, 2);
        gw_scope_close_up(inner);
        assert_true(gw_ok(s));
    }
}

static void a_collective_gathers_the_values_of_its_participants(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 10; seed++) {
        reset();
        cluster_run(seed, (cluster_options){ .world_size = 4, .threads = 1 }, gather, NULL);
    }
}

static void stay_away(gw_scope *s, int rank, void *context) {
    (void)context;
    gw_worker workers[8];
    int count = all_workers(s, workers);
    if (rank == 2) {
        // It enters the round that the others have left, and then the next one with them.
        while (done_count < 3 && gw_ok(s)) gw_rpc_sync(s, 0, "many_echo", 0);
        gw_rpc_barrier(s, workers, count);
        assert_int_equal(gw_scope_error(s)->status, GW_TIMEOUT);
        assert_non_null(strstr(gw_scope_error(s)->text, "the others have continued without w2"));
    } else {
        gw_scope *inner = gw_scope_open(s);
        gw_scope_set_timeout(inner, 200 + 50 * rank);
        gw_rpc_barrier(inner, workers, count);
        gw_error e = gw_scope_close(inner);
        assert_int_equal(e.status, GW_TIMEOUT);
        assert_string_equal(e.text, "w0: gw.barrier: w2 did not enter within the deadline");
        done_count++;
    }
    gw_scope_clear(s);
    gw_list *all = gw_rpc_all_gather(s, workers, count, rank);
    for (int i = 0; i < count; i++) assert_int_equal(gw_int_of(s, gw_list_get(s, all, i)), i);
}

static void a_missing_participant_is_named(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 10; seed++) {
        reset();
        cluster_run(seed, (cluster_options){ .world_size = 4 }, stay_away, NULL);
    }
}

// Rank 2 gathers, the others are at a barrier; then all continue together.
static void enter_another(gw_scope *s, int rank, void *context) {
    (void)context;
    gw_worker workers[8];
    int count = all_workers(s, workers);
    gw_scope *inner = gw_scope_open(s);
    gw_scope_set_timeout(inner, 3600 * 1000);
    if (rank == 2)
        gw_rpc_all_gather(inner, workers, count, rank);
    else
        gw_rpc_barrier(inner, workers, count);
    gw_error e = gw_scope_close(inner);
    assert_true(e.status == GW_MISMATCH || strstr(e.text, "the others have continued without"));
    gw_list *all = gw_rpc_all_gather(s, workers, count, rank);
    for (int i = 0; i < count; i++) assert_int_equal(gw_int_of(s, gw_list_get(s, all, i)), i);
}

static void workers_in_different_collectives_get_an_error_at_once(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 10; seed++) {
        reset();
        cluster_outcome o =
            cluster_run(seed, (cluster_options){ .world_size = 4 }, enter_another, NULL);
        assert_true(o.took_ns < 60 * SIM_SECOND);
    }
}

static void end_instead(gw_scope *s, int rank, void *context) {
    const int *ends = context;
    gw_worker workers[8];
    int count = all_workers(s, workers);
    gw_rpc_sync_all(s, workers, count, "many_echo", 0);
    if (rank == *ends) {
        while (done_count < count - 1 && gw_ok(s)) gw_rpc_sync(s, rank, "many_echo", 0);
        return;
    }
    done_count++;
    gw_rpc_barrier(s, workers, count);
    char name[8];
    snprintf(name, sizeof name, "w%d", *ends);
    assert_int_equal(gw_scope_error(s)->status, GW_DISCONNECTED);
    assert_non_null(strstr(gw_scope_error(s)->text, name));
    gw_scope_clear(s);
    // Later rounds with the lost worker fail, too.
    gw_rpc_barrier(s, workers, count);
    assert_int_equal(gw_scope_error(s)->status, GW_DISCONNECTED);
    gw_scope_clear(s);
}

static void a_lost_participant_is_named(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 10; seed++) {
        int ends = (int)(seed % 3);
        reset();
        cluster_options o = { .world_size = 3, .fails = true };
        o.leaves[ends] = true;
        cluster_run(seed, o, end_instead, &ends);
    }
}

// ---- A call and a collective that wait for each other -------------------------------------------

static char error_text[GW_ERROR_TEXT_MAX];

// A body that enters a collective with its caller, which waits for the body.
GW_FUNCTION(many_barrier, GW_POOL) {
    gw_worker both[] = { gw_rpc_worker(s, 0), gw_rpc_worker(s, 1) };
    gw_rpc_barrier(s, both, 2);
    snprintf(error_text, sizeof error_text, "%s", gw_scope_error(s)->text);
    done_count++;
    return gw_none();
}

static void wait_until_it_has_met(gw_scope *s) {
    while (!done_count) cluster_sleep_ms(s, 50);
}

static void call_a_participant(gw_scope *s, int rank, void *context) {
    (void)context;
    gw_worker both[8];
    int count = all_workers(s, both);
    if (rank == 0) {
        gw_call_options soon = GW_OPTIONS(gw_call_options, .timeout_ms = 500);
        gw_rpc_sync_with(s, gw_to(1), "many_barrier", GW_NO_ARGS, soon);
        assert_int_equal(gw_scope_error(s)->status, GW_TIMEOUT);
        assert_int_equal(gw_scope_error(s)->outcome, GW_MAY_HAVE_RUN);
        assert_non_null(strstr(gw_scope_error(s)->text, "w1: many_barrier"));
        gw_scope_clear(s);
        wait_until_it_has_met(s);
        // The round that it did not enter is over; the next is a new one.
        gw_rpc_barrier(s, both, count);
        assert_int_equal(gw_scope_error(s)->status, GW_TIMEOUT);
        gw_scope_clear(s);
    } else {
        wait_until_it_has_met(s);
        assert_non_null(strstr(error_text, "gw.barrier"));
        assert_non_null(strstr(error_text, "w0"));
    }
    gw_rpc_barrier(s, both, count);
    assert_true(gw_ok(s));
}

static void a_call_and_a_collective_that_wait_for_each_other_end_at_the_deadline(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        reset();
        cluster_run(seed, (cluster_options){ .world_size = 2, .threads = 1 }, call_a_participant,
                    NULL);
    }
}

static void crash_2(sim *s, void *arg) {
    (void)arg;
    sim_crash(s, 2);
}

static void crash_2_while_it_waits(sim *s, void *context) {
    (void)context;
    assert_true(sim_at(s, 3 * SIM_SECOND, crash_2, NULL));
}

// The others enter before the lost worker, with it, and after it is lost.
static void enter_with_a_crash(gw_scope *s, int rank, void *context) {
    (void)context;
    gw_worker workers[8];
    int count = all_workers(s, workers);
    gw_scope_set_timeout(s, 20000);
    if (rank == 1) {
        while (gw_ok(s)) gw_rpc_sync(s, 2, "many_echo", 0);
        gw_scope_clear(s);
    }
    gw_rpc_all_gather(s, workers, count, rank);
    if (rank == 2) return;
    assert_int_equal(gw_scope_error(s)->status, GW_DISCONNECTED);
    assert_non_null(strstr(gw_scope_error(s)->text, "w2 (rank 2) is gone"));
    gw_scope_clear(s);
}

static void a_participant_that_is_lost_has_not_cancelled(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 10; seed++) {
        reset();
        cluster_run(
            seed,
            (cluster_options){ .world_size = 3, .fails = true, .direct = crash_2_while_it_waits },
            enter_with_a_crash, NULL);
    }
}

static void enter_wrongly(gw_scope *s, int rank, void *context) {
    (void)context;
    gw_worker workers[8];
    int count = all_workers(s, workers);
    gw_worker twice[] = { workers[0], workers[1], workers[1] };
    if (rank == 0) {
        gw_rpc_barrier(s, twice, 3);
        expect(s, GW_INVALID, "w1 is twice in the list of workers");
        gw_rpc_barrier(s, workers + 1, count - 1);
        expect(s, GW_INVALID, "w0 itself is not in the list of workers");
        gw_rpc_barrier(s, workers, 0);
        expect(s, GW_INVALID,
               "gw_rpc_barrier: the list of workers has 0 items, but must have 1 to 4096");
        gw_rpc_sync(s, 1, "gw.barrier", 1);
        expect(s, GW_INVALID, "w1: gw.barrier: takes 5 arguments, not 1");
        uint32_t ranks[] = { 1, 2 };
        gw_rpc_sync(s, 1, "gw.barrier", gw_value_of_bytes(ranks, sizeof ranks), 1, 1, 1, -1);
        expect(s, GW_INVALID,
               "w1: gw.barrier: RPC collective: the participants or the round number are invalid");
        gw_list *alone = gw_rpc_all_gather(s, workers, 1, 5);
        assert_int_equal(gw_int_of(s, gw_list_get(s, alone, 0)), 5);
    }
    // One of them enters a different operation.
    gw_scope *inner = gw_scope_open(s);
    gw_scope_set_timeout(inner, 300);
    if (rank == 0) {
        gw_rpc_all_gather(inner, workers, count, 1);
    } else {
        gw_rpc_barrier(inner, workers, count);
    }
    assert_false(gw_ok(inner));
    gw_error ignored = gw_scope_close(inner);
    (void)ignored;
}

static void an_invalid_collective_is_refused(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 5; seed++)
        cluster_run(seed, (cluster_options){ .world_size = 3 }, enter_wrongly, NULL);
}

GW_TESTS(rpc_many, it_calls_many_workers_with_the_same_arguments,
         it_calls_the_others_when_one_is_unknown, a_tensor_beyond_the_limit_is_not_sent,
         several_futures_are_collected_into_one, a_one_way_call_has_no_reply,
         a_one_way_call_returns_nothing, a_collective_gathers_the_values_of_its_participants,
         a_missing_participant_is_named, workers_in_different_collectives_get_an_error_at_once,
         a_lost_participant_is_named, a_participant_that_is_lost_has_not_cancelled,
         a_call_and_a_collective_that_wait_for_each_other_end_at_the_deadline,
         an_invalid_collective_is_refused);
