// Collectives with workers that have asked to leave, in the simulator: COL-5 and COL-6.
#include "base/map.h"
#include "testing/cluster.h"
#include "testing/testing.h"

#include <gradwire.h>
#include <stdio.h>
#include <string.h>

static int everybody(gw_scope *s, gw_worker *out) {
    int count = gw_rpc_world_size(s);
    for (int i = 0; i < count; i++) out[i] = gw_rpc_worker(s, i);
    return count;
}

static void pause_s(gw_scope *s, int seconds) {
    gw_scope *t = gw_scope_open(s);
    gw_scope_set_timeout(t, seconds * 1000);
    gw_wait(t, gw_future_open(t));
    gw_error late = gw_scope_close(t);
    assert_int_equal(late.status, GW_TIMEOUT);
}

static void expect(gw_scope *s, gw_status status, const char *text) {
    const gw_error *e = gw_scope_error(s);
    assert_string_equal(e->text, text);
    assert_int_equal(e->status, status);
    gw_scope_clear(s);
}

// ---- Who does not come --------------------------------------------------------------------------

typedef struct absence {
    int who;
    int first_s, then_s;  // when that one asks, and when the others come
    bool alone;
} absence;

// Nothing but the absent worker's own word can end it: there is no deadline.
static void wait_for_absent(gw_scope *s, int rank, void *context) {
    const absence *x = context;
    gw_worker workers[8];
    int count = everybody(s, workers);
    if (rank == x->who) {
        if (x->first_s) pause_s(s, x->first_s);
        if (x->alone) gw_rpc_leave(s);
        return;
    }
    if (x->then_s) pause_s(s, x->then_s);
    gw_worker others[8];
    for (int i = 0, k = 0; i < count; i++)
        if (i != x->who) others[k++] = workers[i];
    char text[128];
    for (int round = 0; round < 2; round++) {
        snprintf(text, sizeof text, "w0: %s: w%d has called gw_rpc_shutdown",
                 round ? "gw.all_gather" : "gw.barrier", x->who);
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
    gw_rpc_barrier(s, others, count - 1);  // they go on without it
    assert_true(gw_ok(s));
}

static cluster_outcome run_absence(uint64_t seed, absence x) {
    cluster_options o = { .world_size = 3, .timeout_ms = CLUSTER_NO_TIMEOUT };
    return cluster_run(seed, o, wait_for_absent, &x);
}

static void one_with_a_worker_that_has_asked_for_shutdown_ends_at_once(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 12; seed++) {
        absence x = { .who = (int)(seed % 3), .then_s = seed % 2 ? 3 : 0 };
        assert_true(run_absence(seed, x).took_ns < 6 * SIM_SECOND);
    }
}

static void one_ends_when_a_worker_that_is_missing_asks_for_shutdown(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 12; seed++) {
        absence x = { .who = (int)(seed % 3), .first_s = 15 };
        assert_true(run_absence(seed, x).took_ns < 18 * SIM_SECOND);
    }
}

static void one_ends_when_a_worker_that_is_missing_leaves_alone(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 12; seed++) {
        absence x = { .who = (int)(seed % 3), .first_s = 15, .alone = true };
        assert_true(run_absence(seed, x).took_ns < 18 * SIM_SECOND);
    }
}

// Each worker enters as many rounds as it likes. As many as all enter succeed for all, whatever the
// network does; the next fails for those that enter it.
static void enter_some(gw_scope *s, int rank, void *context) {
    uint64_t seed = *(uint64_t *)context;
    int least = 10;
    gw_worker workers[8];
    int count = everybody(s, workers);
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

// ---- Bodies of a worker that has asked ----------------------------------------------------------

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

static void a_worker_that_has_asked_enters_those_of_functions_that_it_serves(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 5; seed++)
        cluster_run(seed, (cluster_options){ .world_size = 2, .timeout_ms = CLUSTER_NO_TIMEOUT },
                    call_into_one, NULL);
}

// A body of each of 1 and 2 waits for one of those that have not come, and these come much later:
// what the worker has asked for meanwhile does not take the body's place.
static void come_late(gw_scope *s, int rank, void *context) {
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

static void ask_once_entered(gw_scope *s, int rank, void *context) {
    if (rank) {
        while (entered_count < 2) pause_s(s, 1);
    }
    come_late(s, rank, context);
}

static void a_body_that_is_in_one_already_is_waited_for(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 10; seed++) {
        entered_count = 0;
        cluster_run(seed, (cluster_options){ .world_size = 3 }, ask_once_entered, NULL);
    }
}

static gw_status late_status;

GW_FUNCTION(collective_enter_late, GW_POOL, "int") {
    gw_worker both[] = { gw_rpc_worker(s, 0), gw_rpc_worker(s, 1) };
    gw_scope *t = gw_scope_open(s);
    gw_scope_set_timeout(t, gw_arg_int(s, a, 0));
    gw_wait(t, gw_future_open(t));
    gw_error late = gw_scope_close(t);
    assert_int_equal(late.status, GW_TIMEOUT);
    gw_rpc_barrier(s, both, 2);
    late_status = gw_scope_error(s)->status;
    return gw_none();
}

// The program of 1 asks for shutdown at about the time when a body of it enters.
static void ask_and_enter_at_once(gw_scope *s, int rank, void *context) {
    const uint64_t *seed = context;
    if (rank == 1) {
        pause_s(s, 3);
        return;
    }
    gw_worker both[8];
    int count = everybody(s, both);
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
    cluster_run(seed, o, ask_and_enter_at_once, &seed);
}

static void a_function_that_runs_while_its_worker_asks_is_waited_for(void **state) {
    (void)state;
    testing_for_seeds(200, enter_late_with_seed, NULL);
}

// Bodies of 0, 1 and 2 wait in a ring, each for the next one, which is in another one. Who has called them could
// still call another one, until it is in shutdown itself.
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

static void
those_that_wait_for_each_other_in_different_ones_end_with_their_callers_deadline(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 10; seed++) {
        entered_count = 0;
        cluster_options o = { .world_size = 4, .timeout_ms = CLUSTER_NO_TIMEOUT };
        assert_true(cluster_run(seed, o, wait_in_a_ring, NULL).took_ns < 30 * SIM_SECOND);
    }
}

GW_TESTS(collective_sim, one_with_a_worker_that_has_asked_for_shutdown_ends_at_once,
         one_ends_when_a_worker_that_is_missing_asks_for_shutdown,
         one_ends_when_a_worker_that_is_missing_leaves_alone,
         rounds_that_all_enter_succeed_and_no_others,
         a_worker_that_has_asked_enters_those_of_functions_that_it_serves,
         a_body_that_is_in_one_already_is_waited_for,
         a_function_that_runs_while_its_worker_asks_is_waited_for,
         those_that_wait_for_each_other_in_different_ones_end_with_their_callers_deadline);
