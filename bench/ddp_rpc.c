// A step of examples/ddp_rpc: an embedding table on a server, replicas of a layer on two trainers,
// one backward pass and one optimizer over both. The time of the slower trainer, without drawing the
// batch.
#include "../examples/ddp_rpc/step.h"
#include "bench.h"

enum { TRAINERS = 2, MASTER = 2, SERVER = 3, STEPS = 1000, WARM = 50 };

static double times[STEPS];  // of the trainer that this process is
static bool has_trained;

static double time_step(gw_scope *outer, gw_module *emb, gw_module *fc, gw_optimizer *opt) {
    gw_scope *s = gw_scope_open(outer);
    batch b = batch_draw(s, false);
    double start = now_us();
    train_step(s, emb, fc, opt, b);
    double us = now_us() - start;
    gw_scope_close_up(s);
    return us;
}

GW_FUNCTION(bench_train, GW_POOL, "rref") {
    gw_worker trainers[] = { gw_rpc_worker(s, "w0"), gw_rpc_worker(s, "w1") };
    gw_group *g = gw_group_open(s, trainers, TRAINERS);
    gw_module *emb = gw_module_from_rref(s, gw_arg_rref(s, a, 0));
    gw_module *fc = gw_nn_linear(s, FEATURES, CLASSES);
    gw_ddp_open(s, fc, .group = g);
    gw_optimizer *opt = gw_sgd(s, gw_parameters(s, emb, fc), .lr = 0.05, .concurrent = true);
    for (int i = -WARM; i < STEPS && gw_ok(s); i++) {
        double us = time_step(s, emb, fc, opt);
        if (i >= 0) times[i] = us;
    }
    const double *slowest = gw_data(gw_all_reduce(s, g, gw_from(s, times, STEPS), GW_MAX));
    has_trained = gw_ok(s);
    for (int i = 0; has_trained && i < STEPS; i++) times[i] = slowest[i];
    return gw_none();
}

static void have_them_train(gw_scope *s) {
    gw_worker trainers[] = { gw_rpc_worker(s, "w0"), gw_rpc_worker(s, "w1") };
    gw_map *sum = gw_map_open(s);
    gw_map_put(s, sum, "mode", "sum");
    gw_module *emb = gw_module_remote(s, SERVER, "gw.nn.embedding_bag", EMBEDDINGS, FEATURES, sum);
    gw_call_options call = GW_OPTIONS(gw_call_options, .timeout_ms = GW_NO_TIMEOUT);
    gw_rpc_sync_all_with(s, gw_to_workers(trainers, TRAINERS), "bench_train",
                         GW_ARGS(gw_module_rref(s, emb)), call);
}

static void step(gw_scope *root, samples *out) {
    int rank = gw_rpc_self(root).rank;
    if (rank == MASTER) have_them_train(root);
    gw_barrier(root, gw_group_world(root, .timeout_ms = GW_NO_TIMEOUT));
    for (int i = 0; rank == 0 && has_trained && i < STEPS; i++) samples_add(out, times[i]);
}

const bench_case ddp_rpc_cases[] = {
    { "app.ddp_rpc.step", -4, step },
    { 0 },
};
