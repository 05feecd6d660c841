// Running a mixed workload: its workers, the plan of faults, coming to rest, and the verdict.
#include "jobs.h"

#include "base/map.h"
#include "base/mem.h"
#include "base/scope.h"
#include "rpc/agent.h"
#include "testing/oracle.h"
#include "testing/testing.h"

#include <stdio.h>

enum { CHECK_EVERY = 32 };

// ---- Choices of the seed ----

static sim_options choose_network(const jobs *j) {
    sim_options o = sim_varied(j->seed, 0);
    uint64_t x = hash_u64(j->seed + 11);
    if (o.delay_max_us > 20000) o.delay_max_us = 20000;
    if (o.window_bytes < 1000 && x % 4) o.window_bytes = 0;
    o.cut_per_million = x / 4 % 3 == 0 ? 10000 : 0;
    if (j->kind == JOBS_LOSSY || j->kind == JOBS_ALL) {
        o.lose_per_million = x / 12 % 2 ? 3000 : 0;
        o.duplicate_per_million = x / 24 % 2 ? 20000 : 0;
    }
    return o;
}

static sim_faults choose_faults(const jobs *j) {
    bool all = j->kind == JOBS_ALL;
    return (sim_faults){
        .nodes = j->worker_count,
        .until_ns = j->fault_ns,
        .crashes = j->kind == JOBS_CRASHES || all ? 2 : 0,
        .stops = j->kind == JOBS_STOPS || all ? 2 : 0,
        .partitions = j->kind == JOBS_PARTITIONS || all ? 2 : 0,
        .clogs = j->kind == JOBS_PARTITIONS || all ? 1 : 0,
        .cuts = 1,
        .wall_steps = 1,
    };
}

// ---- Coming to rest ----

static bool is_out(const jobs_worker *w) {
    return w->ended || sim_is_ghost(w->env);
}

static bool all_have_reached(const jobs *j, int phase) {
    for (int i = 0; i < j->worker_count; i++)
        if (!is_out(&j->workers[i]) && j->workers[i].phase < phase) return false;
    return true;
}

static void pass_time(jobs_worker *w, int64_t ns) {
    waiter wait = { .what = "the others" };
    env_enter(w->env);
    env_wait(w->env, &wait, env_now_ns(w->env) + ns);
    env_leave(w->env);
}

// How long it may take until everybody knows what has happened and nothing is under way.
static int64_t calm_ns(const jobs *j) {
    sim_counts c = sim_count(j->sim);
    int64_t calm = SIM_SECOND + 50 * j->delay_max_ns;
    if (c.cuts + c.frames_lost > 0) calm += 3 * SIM_SECOND;
    if (c.crashes > 0) calm += 2 * SIM_SECOND;
    if (c.stops + c.partitions > 0) calm += 30 * SIM_SECOND;
    return calm;
}

// Returns once all that are left have come here and it has been calm for a while; the first of them looks around.
static void come_to_rest(jobs_worker *w, void (*look)(jobs *j)) {
    jobs *j = w->jobs;
    int phase = ++w->phase;
    while (!all_have_reached(j, phase)) {
        if (sim_is_ghost(w->env)) return;
        pass_time(w, 50 * 1000000);
    }
    pass_time(w, calm_ns(j));
    if (sim_is_ghost(w->env) || j->rest_phase >= phase) return;
    j->rest_phase = phase;
    look(j);
}

static int survivors(jobs *j, agent *agents[JOBS_NODES_MAX]) {
    int count = 0;
    for (int i = 0; i < JOBS_NODES_MAX; i++) {
        agents[i] = j->agents[i];
        bool is_out = agents[i] && (sim_is_ghost(agents[i]->env) || agents[i]->fence.status);
        if (is_out) agents[i] = NULL;
        count += agents[i] != NULL;
    }
    return count;
}

static void expect_equal_views(jobs *j, agent *const *agents) {
    for (int i = 0; i < j->worker_count; i++)
        for (int k = 0; k < j->worker_count && agents[i]; k++)
            if (i != k && agents[i]->members[k]->lost != !agents[k])
                fail_msg("at rest worker %d takes worker %d to be %s", i, k,
                         agents[k] ? "gone" : "there");
}

static void look_at_rest(jobs *j) {
    agent *agents[JOBS_NODES_MAX];
    if (survivors(j, agents) == 0 || j->kind >= JOBS_CRASHES) return;
    expect_equal_views(j, agents);
    oracle_check_rest(agents, JOBS_NODES_MAX);
}

static void look_when_empty(jobs *j) {
    agent *agents[JOBS_NODES_MAX];
    survivors(j, agents);
    for (int i = 0; i < JOBS_NODES_MAX; i++)
        if (agents[i]) oracle_check_empty(agents[i]);
}

static void look_at_any_time(sim *s, void *arg) {
    jobs *j = arg;
    agent *agents[JOBS_NODES_MAX];
    survivors(j, agents);
    oracle_check(agents, JOBS_NODES_MAX);
    sim_at_decision(s, sim_count(s).decisions + CHECK_EVERY, look_at_any_time, j);
}

// ---- A worker ----

static void work(jobs_worker *w) {
    w->scope = gw_scope_open(w->root);
    for (int i = 0; i < w->jobs->steps && !sim_is_ghost(w->env); i++) {
        jobs_step(w);
        if (jobs_draw(w, 4) == 0) pass_time(w, (int64_t)jobs_draw(w, 20000000));
    }
    come_to_rest(w, look_at_rest);
    gw_error none = gw_scope_close(w->scope);
    if (!sim_is_ghost(w->env)) assert_string_equal(none.text, "");
    come_to_rest(w, look_when_empty);
}

static void run_worker(void *arg) {
    jobs_worker *w = arg;
    jobs *j = w->jobs;
    char name[16];
    snprintf(name, sizeof name, "w%d", w->node);
    w->root = gw_scope_open(NULL);
    agent_open_on(w->root, w->env, true,
                  (gw_rpc_options){ .name = name,
                                    .rank = w->node,
                                    .world_size = j->worker_count,
                                    .init_method = "tcp://127.0.0.1:29500",
                                    .timeout_ms = GW_NO_TIMEOUT,
                                    .join_timeout_ms = 60000,
                                    .threads = j->threads });
    if (gw_ok(w->root)) {
        w->joined = true;
        j->agents[w->node] = w->root->agent;
        work(w);
        j->agents[w->node] = NULL;
        gw_rpc_shutdown(w->root);
    }
    w->was_ghost = sim_is_ghost(w->env);
    w->error = gw_scope_close(w->root);
    w->ended = true;
}

// ---- The verdict ----

static bool ended_well(const jobs_worker *w) {
    if (w->was_ghost || (!w->joined && jobs_has_faults())) return true;
    // The others may have gone on without a worker that was stopped or cut off: it says so.
    sim_counts c = sim_count(w->jobs->sim);
    return w->error.status == GW_OK || (w->error.status == GW_FENCED && c.stops + c.partitions);
}

static void judge(jobs *j) {
    for (int i = 0; i < j->worker_count; i++)
        if (!ended_well(&j->workers[i]))
            fail_msg("worker %d ended with: %s", i, j->workers[i].error.text);
    jobs_check_ledger();
}

jobs_outcome jobs_run(uint64_t seed, jobs_kind kind) {
    jobs *j = mem_calloc(sizeof *j);
    assert_non_null(j);
    jobs_now = j;
    j->seed = seed;
    j->kind = kind;
    uint64_t x = hash_u64(seed + 5);
    j->worker_count = 2 + (int)(x % 8 % 5);
    j->steps = 24 / j->worker_count + 6 + (int)(x / 8 % 8);
    j->threads = 1 + (int)(x / 64 % 3);
    j->fault_ns = INT64_C(1000000) << (x / 256 % 10);
    sim_options network = choose_network(j);
    j->delay_max_ns = network.delay_max_us > 0 ? (int64_t)network.delay_max_us * 1000 : 1000;
    sim *s = j->sim = sim_open(seed, network);
    assert_non_null(s);
    for (int i = 0; i < j->worker_count; i++) {
        j->workers[i] = (jobs_worker){
            .jobs = j, .node = i, .env = sim_env(s, i), .random = hash_u64(seed * 31 + (uint64_t)i)
        };
        assert_true(sim_spawn(s, i, run_worker, &j->workers[i]));
    }
    assert_true(sim_fault_plan(s, seed, choose_faults(j)));
    sim_at_decision(s, CHECK_EVERY, look_at_any_time, j);
    assert_true(sim_run(s, 600 * SIM_SECOND));
    judge(j);
    jobs_outcome o = { .counts = sim_count(s),
                       .trace_hash = sim_trace_hash(s),
                       .took_ns = sim_now_ns(s),
                       .calls = j->call_count,
                       .things = (uint64_t)j->thing_count };
    snprintf(o.plan, sizeof o.plan, "%s", sim_plan_text(s));
    for (uint64_t i = 1; i <= j->call_count; i++) o.bodies += j->calls[i].runs;
    sim_close(s);
    jobs_now = NULL;
    mem_free(j);
    return o;
}
