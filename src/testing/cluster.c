#include "runtime/runtime.h"
#include "testing/cluster.h"

#include "agent/state/agent.h"
#include "testing/testing.h"

#include <stdio.h>

typedef struct worker {
    const cluster_options *options;
    cluster_outcome *outcome;
    cluster_main *main;
    void *context;
    sim *sim;
    env *env;
    int rank;
} worker;

static int64_t timeout_of(const cluster_options *o) {
    if (o->timeout_ms == CLUSTER_NO_TIMEOUT) return GW_NO_TIMEOUT;
    return o->timeout_ms ? o->timeout_ms : 60000;
}

static void run_worker(void *arg) {
    worker *w = arg;
    const cluster_options *o = w->options;
    char name[16];
    snprintf(name, sizeof name, "w%d", w->rank);
    gw_scope *root = gw_scope_open(NULL);
    runtime_open_on(root, w->env, true,
                    GW_OPTIONS(gw_rpc_options, .name = name, .rank = w->rank,
                               .world_size = o->world_size, .init_method = "tcp://127.0.0.1:29500",
                               .timeout_ms = timeout_of(o), .key = o->key,
                               .threads = o->threads ? o->threads : 4,
                               .serve_later = o->serves_later[w->rank]));
    if (gw_ok(root)) w->main(root, w->rank, w->context);
    gw_rpc_stats stats = { 0 };
    int owned = 0;
    if (root->agent) {
        stats = gw_rpc_get_stats(root);
        if (!o->leaves[w->rank]) gw_rpc_shutdown(root);
        owned = gw_rref_owned_count(root);
    }
    gw_error error = gw_scope_close(root);
    if (sim_is_crashed(w->sim, w->rank)) return;
    w->outcome->stats[w->rank] = stats;
    w->outcome->owned[w->rank] = owned;
    w->outcome->errors[w->rank] = error;
}

static void plan(sim *s, uint64_t seed, const cluster_options *o, void *context) {
    if (o->faults.nodes) assert_true(sim_fault_plan(s, seed, o->faults));
    if (o->direct) o->direct(s, context);
}

cluster_outcome cluster_run(uint64_t seed, cluster_options options, cluster_main *main,
                            void *context) {
    cluster_outcome outcome = { 0 };
    worker workers[CLUSTER_WORKERS_MAX];
    assert_in_range(options.world_size, 1, CLUSTER_WORKERS_MAX);
    sim *s = sim_open(seed, options.network);
    assert_non_null(s);
    for (int rank = 0; rank < options.world_size; rank++) {
        workers[rank] = (worker){ &options, &outcome, main, context, s, sim_env(s, rank), rank };
        assert_non_null(workers[rank].env);
        assert_true(sim_spawn(s, rank, run_worker, &workers[rank]));
    }
    plan(s, seed, &options, context);
    assert_true(sim_run(s, 3600 * SIM_SECOND));
    for (int rank = 0; rank < options.world_size; rank++)
        outcome.crashed[rank] = sim_is_crashed(s, rank);
    outcome.counts = sim_count(s);
    outcome.trace_hash = sim_trace_hash(s);
    outcome.took_ns = sim_now_ns(s);
    sim_close(s);
    for (int rank = 0; rank < options.world_size && !options.fails; rank++)
        assert_string_equal(outcome.errors[rank].text, "");
    return outcome;
}

gw_error cluster_pause_ms(gw_scope *s, int64_t ms) {
    gw_scope *t = gw_scope_open(s);
    gw_scope_set_timeout(t, ms);
    gw_wait(t, gw_future_open(t));
    return gw_scope_close(t);
}

void cluster_sleep_ms(gw_scope *s, int64_t ms) {
    gw_error late = cluster_pause_ms(s, ms);
    assert_int_equal(late.status, GW_TIMEOUT);
}

gw_group *cluster_open_group(gw_scope *s, int first, int count, const char *name,
                             int64_t timeout_ms) {
    gw_worker members[CLUSTER_WORKERS_MAX];
    char worker[16];
    for (int i = 0; i < count; i++) {
        snprintf(worker, sizeof worker, "w%d", first + i);
        members[i] = gw_rpc_worker(s, worker);
    }
    return gw_group_open(s, members, count, .name = name, .timeout_ms = timeout_ms);
}

void cluster_delay_ms(env *e, int64_t ms) {
    waiter w = { .what = "its time to start" };
    env_enter(e);
    env_wait(e, &w, env_now_ns(e) + ms * 1000000);
    env_leave(e);
}

void cluster_join(gw_scope *root, env *e, int node) {
    char name[16];
    snprintf(name, sizeof name, "w%d", node);
    runtime_open_on(root, e, true,
                    GW_OPTIONS(gw_rpc_options, .name = name,
                               .job = node ? GW_JOB_JOIN : GW_JOB_CREATE,
                               .init_method = "tcp://127.0.0.1:29500"));
}
