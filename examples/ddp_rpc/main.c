// DistributedDataParallel inside RPC: a sparse part on a server, a dense part with a replica on each
// trainer, one backward pass and one optimizer over both. After the tutorial "Combining Distributed
// DataParallel with Distributed RPC Framework" of PyTorch, with its four roles, sizes and loop.
//
//     ddp_rpc                                     makes its own four processes
//     gradwire run -n 4 -- ddp_rpc
//
// The master makes an embedding table on the server and has the trainers train it. A trainer looks rows up there,
// passes them through its replica of a linear layer, and steps over both. Labels are planted: indices of a bag are
// those of its class; --random draws any, as the tutorial does.
//
// The lines that communicate: 8 (the table, "train" on both trainers, the group and the replicas, the look-up, the
// optimizer, the report, the end). Backward and step are as in a local program.
#include "step.h"

#include "../common/program.h"

enum { BATCHES = 10, TRAINERS = 2, MASTER = 2 };
static const char *const names[] = { "trainer0", "trainer1", "master", "ps", NULL };

// The command line, the same on all workers.
static int64_t epochs = 100;
static bool is_random;

static curve progress = {
    .options = { .title = "loss", .x_label = "epoch", .of = &epochs, .goal = 0.7, .falls = true }
};

// Trainers call this on the master after each epoch, with its mean loss.
GW_FUNCTION(report, GW_INLINE, "float") {
    curve_put(&progress, gw_arg_float(s, a, 0));
    return gw_none();
}

// The master calls this on trainers, with the table. Returns the weights of the replica.
GW_FUNCTION(train, GW_POOL, "rref") {
    gw_worker trainers[] = { gw_rpc_worker(s, "trainer0"), gw_rpc_worker(s, "trainer1") };
    gw_module *table = gw_module_from_rref(s, gw_arg_rref(s, a, 0));
    gw_module *layer = gw_nn_linear(s, FEATURES, CLASSES);
    gw_ddp_open(s, layer, .group = gw_group_open(s, trainers, TRAINERS));
    gw_optimizer *opt = gw_sgd(s, gw_parameters(s, table, layer), .lr = 0.05, .concurrent = true);
    for (int64_t epoch = 1; epoch <= epochs && gw_ok(s); epoch++) {
        gw_scope *t = gw_scope_open(s);
        double sum = 0;
        for (int i = 0; i < BATCHES; i++)
            sum += train_step(t, table, layer, opt, batch_draw(t, !is_random));
        if (gw_rpc_self(t).rank == 0) gw_rpc_notify(t, "master", "report", sum / BATCHES);
        gw_scope_close_up(t);
    }
    return gw_value_of(gw_detach(s, gw_module_parameter_get(s, layer, "weight")));
}

static void lead(gw_scope *s) {
    gw_worker trainers[] = { gw_rpc_worker(s, "trainer0"), gw_rpc_worker(s, "trainer1") };
    gw_map *sum = gw_map_open(s);
    gw_map_put(s, sum, "mode", "sum");
    gw_module *table = gw_module_remote(s, "ps", "gw.nn.embedding_bag", EMBEDDINGS, FEATURES, sum);
    gw_call_options call = GW_OPTIONS(gw_call_options, .timeout_ms = GW_NO_TIMEOUT);
    gw_list *weights = gw_rpc_sync_all_with(s, gw_to_workers(trainers, TRAINERS), "train",
                                            GW_ARGS(gw_module_rref(s, table)), call);
    gw_tensor *first = gw_tensor_of(s, gw_list_get(s, weights, 0));
    if (!gw_equal(s, first, gw_tensor_of(s, gw_list_get(s, weights, 1))))
        gw_fail(s, GW_MISMATCH, "the replicas differ");
    if (gw_ok(s)) curve_print(&progress, "the replicas have the same bits");
}

static void work(gw_scope *root) {
    if (is_random) progress.options.goal = 0;  // there is nothing to learn
    if (gw_rpc_self(root).rank == MASTER) lead(root);
    gw_barrier(root, gw_group_world(root, .timeout_ms = GW_NO_TIMEOUT));  // serves until then
}

int main(int argc, char **argv) {
    return program_main(
        argc, argv, work, &progress, MASTER,
        .about = "Trains an embedding table on a server and replicas of a layer on two trainers.",
        .workers = 4, .exactly = true, .roles = "two trainers, a master, a server", .names = names,
        .flags = { { "epochs", "N", "of 10 batches on each trainer", .integer = &epochs, .min = 1,
                     .max = 1e6 },
                   { "random", NULL, "labels without a rule, as in the tutorial",
                     .is_set = &is_random } });
}
