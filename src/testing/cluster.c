#include "testing/cluster.h"

#include "rpc/agent.h"
#include "testing/testing.h"

#include <stdio.h>

typedef struct worker {
    const cluster_options *options;
    cluster_outcome *outcome;
    cluster_main *main;
    void *context;
    env *env;
    int rank;
} worker;

static void run_worker(void *arg) {
    worker *w = arg;
    const cluster_options *o = w->options;
    char name[16];
    snprintf(name, sizeof name, "w%d", w->rank);
    gw_scope *root = gw_scope_open(NULL);
    agent_open_on(root, w->env, true,
                  (gw_rpc_options){ .name = name,
                                    .rank = w->rank,
                                    .world_size = o->world_size,
                                    .init_method = "tcp://127.0.0.1:29500",
                                    .timeout_ms = o->timeout_ms,
                                    .threads = o->threads });
    if (gw_ok(root)) w->main(root, w->rank, w->context);
    if (root->agent) {
        w->outcome->stats[w->rank] = gw_rpc_get_stats(root);
        if (!o->leaves[w->rank]) gw_rpc_shutdown(root);
        w->outcome->owned[w->rank] = gw_rref_owned_count(root);
    }
    w->outcome->errors[w->rank] = gw_scope_close(root);
}

cluster_outcome cluster_run(uint64_t seed, cluster_options options, cluster_main *main,
                            void *context) {
    cluster_outcome outcome = { 0 };
    worker workers[CLUSTER_WORKERS_MAX];
    assert_in_range(options.world_size, 1, CLUSTER_WORKERS_MAX);
    sim *s = sim_open(seed, options.network);
    assert_non_null(s);
    for (int rank = 0; rank < options.world_size; rank++) {
        workers[rank] = (worker){ &options, &outcome, main, context, sim_env(s, rank), rank };
        assert_non_null(workers[rank].env);
        assert_true(sim_spawn(s, rank, run_worker, &workers[rank]));
    }
    assert_true(sim_run(s, 3600 * SIM_SECOND));
    outcome.counts = sim_count(s);
    outcome.trace_hash = sim_trace_hash(s);
    outcome.took_ns = sim_now_ns(s);
    sim_close(s);
    for (int rank = 0; rank < options.world_size && !options.fails; rank++)
        assert_string_equal(outcome.errors[rank].text, "");
    return outcome;
}
