// Running a mixed workload: its workers, the plan of faults, the wait for quiescence, and the checks.
#include "jobs.h"

#include "base/map.h"
#include "base/mem.h"
#include "base/scope.h"
#include "agent/state/agent.h"
#include "runtime/runtime.h"
#include "testing/oracle.h"
#include "testing/testing.h"

#include <stdio.h>
#include <stdlib.h>

enum { CHECK_EVERY = 32 };

// ---- Choices of the seed ------------------------------------------------------------------------

static bool has_all_faults(const jobs *j) {
    return j->kind == JOBS_ALL || (j->kind == JOBS_TOGETHER && hash_u64(j->seed + 17) % 2);
}

static sim_options choose_network(const jobs *j) {
    sim_options o = sim_varied(j->seed, 0);
    uint64_t x = hash_u64(j->seed + 11);
    if (o.delay_max_us > 20000) o.delay_max_us = 20000;
    if (o.window_bytes < 1000 && x % 4) o.window_bytes = 0;
    o.cut_per_million = x / 4 % 3 == 0 ? 10000 : 0;
    if (j->kind == JOBS_LOSSY || has_all_faults(j)) {
        o.lose_per_million = x / 12 % 2 ? 3000 : 0;
        o.duplicate_per_million = x / 24 % 2 ? 20000 : 0;
    }
    if (j->kind == JOBS_RINGS) {
        o.rings = true;
        o.cut_per_million = x / 48 % 2 ? 10000 : 0;
    }
    return o;
}

static sim_faults choose_faults(const jobs *j) {
    bool all = has_all_faults(j);
    return (sim_faults){
        .nodes = j->worker_count,
        .until_ns = j->fault_ns,
        .crashes = (j->kind == JOBS_RINGS && j->seed % 2) || j->kind == JOBS_CRASHES ||
                           j->kind == JOBS_GROUP || all
                       ? 2
                       : 0,
        .stops =
            (j->kind == JOBS_RINGS && j->seed % 3 == 0) || j->kind == JOBS_STOPS || all ? 2 : 0,
        .partitions = j->kind == JOBS_PARTITIONS || all ? 2 : 0,
        .clogs = j->kind == JOBS_PARTITIONS || all ? 1 : 0,
        .cuts = 1,
        .wall_steps = 1,
    };
}

// ---- Quiescence ---------------------------------------------------------------------------------

static bool is_out(const void *context, int worker) {
    const jobs_worker *w = &((const jobs *)context)->workers[worker];
    return w->ended || sim_is_ghost(w->env);
}

// The first worker at rest checks the state of all.
static void await_rest(jobs_worker *w, void (*check)(jobs *j)) {
    jobs *j = w->jobs;
    if (quiescence_await(&j->rest, w->env, (int)(w - j->workers))) check(j);
}

static int survivors(jobs *j, agent *agents[JOBS_NODES_MAX]) {
    int count = 0;
    for (int i = 0; i < JOBS_NODES_MAX; i++) {
        agents[i] = j->agents[i];
        if (agents[i] && (sim_is_ghost(agents[i]->env) || agents[i]->phase == AGENT_LEFT))
            agents[i] = NULL;
        count += agents[i] != NULL;
    }
    return count;
}

static void expect_equal_views(agent *const *agents) {
    for (int i = 0; i < JOBS_NODES_MAX; i++)
        for (int k = 0; agents[i] && k < JOBS_NODES_MAX; k++) {
            const member *m = k < agents[i]->member_count ? agents[i]->members[k] : NULL;
            if (i != k && !agents[k] != !(m && !m->lost))
                fail_msg("at rest worker %d takes worker %d to be %s", i, k,
                         agents[k] ? "lost" : "present");
        }
}

static void check_at_rest(jobs *j) {
    agent *agents[JOBS_NODES_MAX];
    if (survivors(j, agents) == 0) return;
    expect_equal_views(agents);
    oracle_check_rest(agents, JOBS_NODES_MAX);
}

static void check_when_empty(jobs *j) {
    agent *agents[JOBS_NODES_MAX];
    survivors(j, agents);
    for (int i = 0; i < JOBS_NODES_MAX; i++)
        if (agents[i]) oracle_check_empty(agents[i]);
}

// T_close: a second after a crash all others have detected it.
static void expect_detected(const jobs *j, const jobs_worker *dead, agent *const *agents) {
    int64_t late_ns = sim_now_ns(j->sim) - sim_crashed_ns(j->sim, dead->node);
    if (!dead->joined || late_ns < SIM_SECOND + 50 * j->delay_max_ns) return;
    for (int i = 0; i < JOBS_NODES_MAX; i++) {
        const agent *a = agents[i];
        if (a && dead->rank < a->member_count && !a->members[dead->rank]->lost)
            fail_msg("worker %d has not detected, %.6f s later, the crash of worker %d", i,
                     (double)late_ns / 1e9, dead->rank);
    }
}

static void check_at_any_time(sim *s, void *arg) {
    jobs *j = arg;
    agent *agents[JOBS_NODES_MAX];
    survivors(j, agents);
    oracle_check(agents, JOBS_NODES_MAX);
    bool is_silent = sim_count(s).stops + sim_count(s).partitions > 0;
    for (int i = 0; i < j->worker_count && !is_silent; i++)
        if (sim_is_crashed(s, i)) expect_detected(j, &j->workers[i], agents);
    sim_at_decision(s, sim_count(s).decisions + CHECK_EVERY, check_at_any_time, j);
}

// ---- A worker -----------------------------------------------------------------------------------

static void work(jobs_worker *w) {
    w->scope = gw_scope_open(w->root);
    for (int i = 0; i < w->jobs->steps && !sim_is_ghost(w->env); i++) {
        jobs_step(w);
        if (w->jobs->kind == JOBS_TOGETHER && i % 4 == 3) jobs_run_collective(w, i / 4);
        if (jobs_draw(w, 4) == 0) sim_pass_time(w->env, (int64_t)jobs_draw(w, 20000000));
    }
    if (!w->leaves) await_rest(w, check_at_rest);
    gw_error none = gw_scope_close(w->scope);
    if (!sim_is_ghost(w->env)) assert_string_equal(none.text, "");
    if (!w->leaves) await_rest(w, check_when_empty);
}

static void end(jobs_worker *w) {
    jobs *j = w->jobs;
    w->is_going = true;
    if (w->leaves) {
        j->left_count++;
        gw_rpc_leave(w->root);
    } else {
        gw_rpc_shutdown(w->root);
    }
    j->agents[w->rank] = NULL;
}

static void run_worker(void *arg) {
    jobs_worker *w = arg;
    jobs *j = w->jobs;
    bool is_group = j->kind == JOBS_GROUP;
    char name[16];
    snprintf(name, sizeof name, "w%d", w->node);
    gw_rpc_options o =
        GW_OPTIONS(gw_rpc_options, .name = name, .init_method = "tcp://127.0.0.1:29500",
                   .timeout_ms = GW_NO_TIMEOUT, .join_timeout_ms = 60000, .threads = j->threads);
    if (is_group) {
        o.job = w->node == 0 ? GW_JOB_CREATE : GW_JOB_JOIN;
    } else {
        o.rank = w->node;
        o.world_size = j->worker_count;
    }
    sim_pass_time(w->env, w->starts_ns);
    w->root = gw_scope_open(NULL);
    runtime_open_on(w->root, w->env, true, o);
    if (gw_ok(w->root)) {
        w->joined = true;
        w->was_late = jobs_lacks_store();
        w->joined_ns = sim_now_ns(j->sim);
        w->rank = gw_rpc_self(w->root).rank;
        assert_in_range(w->rank, 0, JOBS_NODES_MAX - 1);
        j->agents[w->rank] = w->root->agent;
        work(w);
        end(w);
    }
    w->was_ghost = sim_is_ghost(w->env);
    bool was_few = jobs_has_lost_most();
    w->error = gw_scope_close(w->root);
    w->is_explained = was_few || jobs_explains(&w->error);
    w->ended = true;
}

// ---- The outcome --------------------------------------------------------------------------------

static bool ended_as_expected(const jobs_worker *w) {
    if (w->was_ghost || w->error.status == GW_OK) return true;
    if (!w->joined) return jobs_has_ends();
    return w->error.status == GW_FENCED && w->is_explained;
}

static void coordinator(jobs *j) {
    for (int i = 0; i < j->worker_count; i++)
        if (!ended_as_expected(&j->workers[i]))
            fail_msg("worker %d ended with: %s", i, j->workers[i].error.text);
    jobs_check_ledger();
}

// Workers of an elastic job start one after the other.
static void begin_worker(jobs *j, int node) {
    jobs_worker *w = &j->workers[node];
    *w = (jobs_worker){ .jobs = j,
                        .node = node,
                        .env = sim_env(j->sim, node),
                        .random = hash_u64(j->seed * 31 + (uint64_t)node) };
    if (j->kind == JOBS_GROUP) {
        w->leaves = node > 0 && jobs_draw(w, 3) == 0;
        w->starts_ns = (int64_t)jobs_draw(w, (uint64_t)j->fault_ns);
    }
    assert_true(sim_spawn(j->sim, node, run_worker, w));
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
    j->rest = (quiescence){ .sim = s,
                            .delay_max_ns = j->delay_max_ns,
                            .count = j->worker_count,
                            .is_out = is_out,
                            .context = j };
    for (int i = 0; i < j->worker_count; i++) begin_worker(j, i);
    assert_true(sim_fault_plan(s, seed, choose_faults(j)));
    sim_at_decision(s, CHECK_EVERY, check_at_any_time, j);
    if (getenv("SEED")) fputs(sim_plan_text(s), stderr);  // shown if it fails
    assert_true(sim_run(s, 600 * SIM_SECOND));
    coordinator(j);
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
