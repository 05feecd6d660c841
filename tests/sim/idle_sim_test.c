// Long silences in virtual time: a job that is idle for a day, a worker that is stopped for
// minutes, workers that do not get the processor for seconds.
#include "agent/state/agent.h"
#include "runtime/runtime.h"
#include "testing/sim.h"
#include "testing/testing.h"

#include <gradwire.h>
#include <stdio.h>

enum { WORKERS = 3 };

GW_FUNCTION(idle_echo, GW_INLINE, "any") {
    return gw_arg(s, a, 0);
}

typedef struct idler {
    env *env;
    int rank;
    int64_t idle_s;
    gw_error called, left;
} idler;

// Computes without waiting: other threads run the agent's loop.
static void be_idle(gw_scope *root, int64_t seconds) {
    env *e = agent_of(root)->env;
    waiter w = { .what = "the end of being idle" };
    env_enter(e);
    env_wait(e, &w, env_now_ns(e) + seconds * SIM_SECOND);
    env_leave(e);
}

static void call_all(gw_scope *root) {
    for (int to = 0; to < WORKERS && gw_ok(root); to++)
        if (gw_int_of(root, gw_rpc_sync(root, to, "idle_echo", 7)) != 7 && gw_ok(root))
            gw_fail(root, GW_REMOTE, "a wrong answer");
}

static void run_idler(void *arg) {
    idler *x = arg;
    char name[16];
    snprintf(name, sizeof name, "w%d", x->rank);
    gw_scope *root = gw_scope_open(NULL);
    runtime_open_on(root, x->env, true,
                    GW_OPTIONS(gw_rpc_options, .name = name, .rank = x->rank, .world_size = WORKERS,
                               .init_method = "tcp://127.0.0.1:29500"));
    if (gw_ok(root)) call_all(root);
    if (gw_ok(root)) be_idle(root, x->idle_s);
    if (gw_ok(root)) call_all(root);
    x->called = *gw_scope_error(root);
    gw_scope_clear(root);
    gw_rpc_shutdown(root);
    x->left = gw_scope_close(root);
}

static int64_t stopped_s;

static void stop_one(sim *s, void *arg) {
    (void)arg;
    sim_stop(s, 2);
}

static void continue_one(sim *s, void *arg) {
    (void)arg;
    sim_continue(s, 2);
}

static bool is_behind_firewall;

// The firewall forgets a connection after 60 s. Here also connections with heartbeats.
static void forget_connections(sim *s, void *arg) {
    sim_cut_all(s);
    assert_true(sim_at(s, sim_now_ns(s) + 60 * SIM_SECOND, forget_connections, arg));
}

static void idle(uint64_t seed, int64_t idle_s, idler out[WORKERS]) {
    sim *s = sim_open(seed, (sim_options){ 0 });
    assert_non_null(s);
    for (int rank = 0; rank < WORKERS; rank++) {
        out[rank] = (idler){ .env = sim_env(s, rank), .rank = rank, .idle_s = idle_s };
        assert_true(sim_spawn(s, rank, run_idler, &out[rank]));
    }
    if (stopped_s) {
        assert_true(sim_at(s, 5 * SIM_SECOND, stop_one, NULL));
        assert_true(sim_at(s, (5 + stopped_s) * SIM_SECOND, continue_one, NULL));
    }
    if (is_behind_firewall) forget_connections(s, NULL);
    assert_true(sim_run(s, (idle_s + 3600) * SIM_SECOND));
    sim_close(s);
}

static void idle_for_a_day(uint64_t seed, void *context) {
    (void)context;
    idler workers[WORKERS];
    idle(seed, 24 * 3600, workers);
    for (int rank = 0; rank < WORKERS; rank++) {
        assert_string_equal(workers[rank].called.text, "");
        assert_string_equal(workers[rank].left.text, "");
    }
}

static void a_day_of_silence_changes_nothing(void **state) {
    (void)state;
    stopped_s = 0;
    testing_for_seeds(1, idle_for_a_day, NULL);
}

// The others call a worker that is stopped for 4 s, and wait; no worker is declared dead.
static void starve(uint64_t seed, void *context) {
    (void)context;
    idler workers[WORKERS];
    idle(seed, 8, workers);
    for (int rank = 0; rank < WORKERS; rank++) {
        assert_string_equal(workers[rank].called.text, "");
        assert_string_equal(workers[rank].left.text, "");
    }
}

static void a_worker_starved_for_4_s_is_not_declared_dead(void **state) {
    (void)state;
    stopped_s = 4;
    testing_for_seeds(50, starve, NULL);
}

static void suspend(uint64_t seed, void *context) {
    (void)context;
    idler workers[WORKERS];
    idle(seed, 700, workers);
    for (int rank = 0; rank < 2; rank++)
        assert_int_equal(workers[rank].called.status, GW_DISCONNECTED);
    assert_int_equal(workers[2].called.status, GW_FENCED);
}

static void a_worker_suspended_for_10_minutes_is_fenced(void **state) {
    (void)state;
    stopped_s = 600;
    testing_for_seeds(20, suspend, NULL);
}

static void idle_behind_a_firewall(uint64_t seed, void *context) {
    (void)context;
    idler workers[WORKERS];
    idle(seed, 3600, workers);
    for (int rank = 0; rank < WORKERS; rank++) {
        assert_string_equal(workers[rank].called.text, "");
        assert_string_equal(workers[rank].left.text, "");
    }
}

static void connections_that_a_firewall_forgets_are_resumed(void **state) {
    (void)state;
    is_behind_firewall = true;
    testing_for_seeds(10, idle_behind_a_firewall, NULL);
    is_behind_firewall = false;
}

GW_TESTS(idle_sim, a_day_of_silence_changes_nothing, a_worker_starved_for_4_s_is_not_declared_dead,
         a_worker_suspended_for_10_minutes_is_fenced,
         connections_that_a_firewall_forgets_are_resumed);
