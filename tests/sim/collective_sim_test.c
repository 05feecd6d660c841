// RPC collectives with workers that have called gw_rpc_shutdown, in the simulator: COL-5 and COL-6.
#include "base/map.h"
#include "testing/cluster.h"
#include "testing/testing.h"

#include <gradwire.h>
#include <stdio.h>
#include <string.h>

static int all_workers(gw_scope *s, gw_worker *out) {
    int count = gw_rpc_world_size(s);
    for (int i = 0; i < count; i++) out[i] = gw_rpc_worker(s, i);
    return count;
}

static void pause_s(gw_scope *s, int seconds) {
    cluster_sleep_ms(s, seconds * 1000);
}

static void expect(gw_scope *s, gw_status status, const char *text) {
    const gw_error *e = gw_scope_error(s);
    assert_string_equal(e->text, text);
    assert_int_equal(e->status, status);
    gw_scope_clear(s);
}

// ---- Absent workers -----------------------------------------------------------------------------

typedef struct absence {
    int absent;
    int first_s, then_s;  // when that one calls gw_rpc_shutdown, and when the others enter
    bool alone;
} absence;

// Only a message of the absent worker can end it: there is no deadline.
static void wait_for_absent(gw_scope *s, int rank, void *context) {
    const absence *x = context;
    gw_worker workers[8];
    int count = all_workers(s, workers);
    if (rank == x->absent) {
        if (x->first_s) pause_s(s, x->first_s);
        if (x->alone) gw_rpc_leave(s);
        return;
    }
    if (x->then_s) pause_s(s, x->then_s);
    gw_worker others[8];
    for (int i = 0, k = 0; i < count; i++)
        if (i != x->absent) others[k++] = workers[i];
    char text[128];
    for (int round = 0; round < 2; round++) {
        snprintf(text, sizeof text, "w0: %s: w%d has called gw_rpc_shutdown",
                 round ? "gw.all_gather" : "gw.barrier", x->absent);
        if (round)
            gw_rpc_all_gather(s, workers, count, rank);
        else
            gw_rpc_barrier(s, workers, count);
        if (!x->alone) {
            expect(s, GW_DISCONNECTED, text);
        } else {  // or it has left by then
            assert_int_equal(gw_scope_error(s)->status, GW_DISCONNECTED);
            gw_scope_clear(s);
        }
    }
    gw_rpc_barrier(s, others, count - 1);  // they continue without it
    assert_true(gw_ok(s));
}

static cluster_outcome run_absence(uint64_t seed, absence x) {
    cluster_options o = { .world_size = 3, .timeout_ms = CLUSTER_NO_TIMEOUT };
    return cluster_run(seed, o, wait_for_absent, &x);
}

static void a_collective_with_a_worker_in_shutdown_ends_at_once(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 12; seed++) {
        absence x = { .absent = (int)(seed % 3), .then_s = seed % 2 ? 3 : 0 };
        assert_true(run_absence(seed, x).took_ns < 6 * SIM_SECOND);
    }
}

static void a_collective_ends_when_a_missing_worker_calls_shutdown(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 12; seed++) {
        absence x = { .absent = (int)(seed % 3), .first_s = 15 };
        assert_true(run_absence(seed, x).took_ns < 18 * SIM_SECOND);
    }
}

static void a_collective_ends_when_a_missing_worker_leaves(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 12; seed++) {
        absence x = { .absent = (int)(seed % 3), .first_s = 15, .alone = true };
        assert_true(run_absence(seed, x).took_ns < 18 * SIM_SECOND);
    }
}

// Each worker enters a random number of rounds. The rounds that all enter succeed for all, whatever the network does;
// the next one fails for the workers that enter it.
static void enter_some(gw_scope *s, int rank, void *context) {
    uint64_t seed = *(uint64_t *)context;
    int least = 10;
    gw_worker workers[8];
    int count = all_workers(s, workers);
    for (int i = 0; i < count; i++) {
        int rounds = (int)(hash_u64(seed * 8 + (uint64_t)i) % 10);
        if (rounds < least) least = rounds;
    }
    int own = (int)(hash_u64(seed * 8 + (uint64_t)rank) % 10);
    for (int round = 1; round <= own; round++) {
        gw_list *all = gw_rpc_all_gather(s, workers, count, rank);
        if (round <= least) {
            assert_true(gw_ok(s));
            assert_int_equal(gw_list_count(all), count);
            continue;
        }
        assert_int_equal(gw_scope_error(s)->status, GW_DISCONNECTED);
        assert_non_null(strstr(gw_scope_error(s)->text, " has called gw_rpc_shutdown"));
        gw_scope_clear(s);
        return;
    }
}

static void enter_with_seed(uint64_t seed, void *context) {
    (void)context;
    cluster_run(seed,
                (cluster_options){ .world_size = 4,
                                   .timeout_ms = CLUSTER_NO_TIMEOUT,
                                   .network = sim_varied(seed, 500) },
                enter_some, &seed);
}

static void rounds_that_all_enter_succeed_and_no_others(void **state) {
    (void)state;
    testing_for_seeds(200, enter_with_seed, NULL);
}

// ---- Bodies of a worker that has called gw_rpc_shutdown -----------------------------------------

static int entered_count;

GW_FUNCTION(collective_enter, GW_POOL, "int, int") {
    gw_worker both[] = { gw_rpc_worker(s, gw_arg_int(s, a, 0)),
                         gw_rpc_worker(s, gw_arg_int(s, a, 1)) };
    entered_count++;
    gw_rpc_barrier(s, both, 2);
    return gw_none();
}

static void call_into_one(gw_scope *s, int rank, void *context) {
    (void)context;
    if (rank != 0) return;
    pause_s(s, 1);
    gw_future *entering = gw_rpc_async(s, 1, "collective_enter", 0, 1);
    gw_worker both[] = { gw_rpc_worker(s, 0), gw_rpc_worker(s, 1) };
    gw_rpc_barrier(s, both, 2);
    gw_wait(s, entering);
    assert_true(gw_ok(s));
}

static void a_worker_in_shutdown_enters_collectives_of_served_functions(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 5; seed++)
        cluster_run(seed, (cluster_options){ .world_size = 2, .timeout_ms = CLUSTER_NO_TIMEOUT },
                    call_into_one, NULL);
}

// A body of each of 1 and 2 waits for a worker that is late; the worker's own call of gw_rpc_shutdown meanwhile does
// not end the body.
static void enter_late(gw_scope *s, int rank, void *context) {
    (void)context;
    if (rank != 0) return;
    gw_future *fs[] = { gw_rpc_async(s, 1, "collective_enter", 0, 1),
                        gw_rpc_async(s, 2, "collective_enter", 0, 2) };
    pause_s(s, 30);
    assert_int_equal(entered_count, 2);
    for (int i = 0; i < 2; i++) {
        gw_worker both[] = { gw_rpc_worker(s, 0), gw_rpc_worker(s, i + 1) };
        gw_rpc_barrier(s, both, 2);
    }
    gw_wait_all(s, fs, 2);
    assert_true(gw_ok(s));
}

static void shut_down_once_entered(gw_scope *s, int rank, void *context) {
    if (rank) {
        while (entered_count < 2) pause_s(s, 1);
    }
    enter_late(s, rank, context);
}

static void a_body_in_a_collective_is_waited_for(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 10; seed++) {
        entered_count = 0;
        cluster_run(seed, (cluster_options){ .world_size = 3 }, shut_down_once_entered, NULL);
    }
}

static gw_status late_status;

GW_FUNCTION(collective_enter_late, GW_POOL, "int") {
    gw_worker both[] = { gw_rpc_worker(s, 0), gw_rpc_worker(s, 1) };
    cluster_sleep_ms(s, gw_arg_int(s, a, 0));
    gw_rpc_barrier(s, both, 2);
    late_status = gw_scope_error(s)->status;
    return gw_none();
}

// The program of 1 calls gw_rpc_shutdown at about the time when a body of it enters.
static void shut_down_and_enter(gw_scope *s, int rank, void *context) {
    const uint64_t *seed = context;
    if (rank == 1) {
        pause_s(s, 3);
        return;
    }
    gw_worker both[8];
    int count = all_workers(s, both);
    int64_t late_ms = 2995 + (int64_t)(*seed % 10);
    gw_future *body = gw_rpc_async(s, 1, "collective_enter_late", late_ms);
    gw_rpc_barrier(s, both, count);
    gw_status status = gw_scope_error(s)->status;
    gw_scope_clear(s);
    gw_wait(s, body);
    gw_scope_clear(s);
    assert_int_equal(late_status, GW_OK);
    assert_int_equal(status, GW_OK);
}

static void enter_late_with_seed(uint64_t seed, void *context) {
    (void)context;
    cluster_options o = { .world_size = 2, .timeout_ms = CLUSTER_NO_TIMEOUT };
    o.network = sim_varied(seed, 0);
    cluster_run(seed, o, shut_down_and_enter, &seed);
}

static void a_function_that_runs_at_shutdown_is_waited_for(void **state) {
    (void)state;
    testing_for_seeds(200, enter_late_with_seed, NULL);
}

// Bodies of 0, 1 and 2 wait in a ring, each for the next one, which is in another collective. Their caller could still
// call a function, until it is in shutdown itself.
static void wait_in_a_ring(gw_scope *s, int rank, void *context) {
    (void)context;
    if (rank < 3) {
        while (entered_count < 3) pause_s(s, 1);
        return;
    }
    gw_future *fs[3];
    gw_scope *t = gw_scope_open(s);
    gw_scope_set_timeout(t, 5000);
    for (int i = 0; i < 3; i++) fs[i] = gw_rpc_async(t, i, "collective_enter", i, (i + 1) % 3);
    gw_wait_all(t, fs, 3);
    gw_error late = gw_scope_close(t);
    assert_int_equal(late.status, GW_TIMEOUT);
}

static void a_cycle_of_collectives_ends_with_the_callers_deadline(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 10; seed++) {
        entered_count = 0;
        cluster_options o = { .world_size = 4, .timeout_ms = CLUSTER_NO_TIMEOUT };
        assert_true(cluster_run(seed, o, wait_in_a_ring, NULL).took_ns < 30 * SIM_SECOND);
    }
}

GW_TESTS(collective_sim, a_collective_with_a_worker_in_shutdown_ends_at_once,
         a_collective_ends_when_a_missing_worker_calls_shutdown,
         a_collective_ends_when_a_missing_worker_leaves,
         rounds_that_all_enter_succeed_and_no_others,
         a_worker_in_shutdown_enters_collectives_of_served_functions,
         a_body_in_a_collective_is_waited_for, a_function_that_runs_at_shutdown_is_waited_for,
         a_cycle_of_collectives_ends_with_the_callers_deadline);
