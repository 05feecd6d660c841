// Memory of each replica of a model with a plain optimizer, with sharded optimizer state (ZeRO-1), and with sharded
// gradients, too (ZeRO-2). After PyTorch's recipe "Shard Optimizer States with ZeroRedundancyOptimizer".
//
//     zero_memory                                 makes its own four processes
//     gradwire run -n 8 -- zero_memory --width 2000
//
// The line that differs: 1 (gw_optimizer_shard). The weights are the same, bit for bit.
#include "../common/memory.h"
#include "../common/program.h"
#include "../common/weights.h"

// The kind with the least memory runs first, so that the peak so far is that of the current kind.
enum { ZERO_2, ZERO_1, PLAIN, KINDS, LAYERS = 20, BATCH = 20 };
static const char *const names[] = { "ZeRO-2", "ZeRO-1", "plain" };
static int64_t width = 1000, steps = 4;
static double gradients_mb;  // of the last pass
static curve progress = { .options = { .title = "MB in memory", .x_label = "step", .of = &steps } };

static void train_step(gw_scope *outer, gw_module *model, gw_optimizer *opt) {
    gw_scope *s = gw_scope_open(outer);
    gw_tensor *y = gw_module_call(s, model, gw_randn(s, GW_F32, BATCH, width));
    gw_backward(s, gw_mse(s, y, gw_randn(s, GW_F32, BATCH, width)));
    gw_optimizer_step(s, opt);
    gradients_mb = memory_of_gradients(s);
    curve_put(&progress, memory_now());
    gw_scope_close_up(s);
}

// Its row of the table.
static const char *train(gw_scope *root, int kind) {
    gw_scope *s = gw_scope_open(root);
    gw_seed(s, (uint64_t)gw_rpc_self(s).rank);
    gw_module *layers[LAYERS];
    for (int i = 0; i < LAYERS; i++) layers[i] = gw_nn_linear(s, width, width);
    gw_module *model = gw_nn_sequential_with(s, layers, LAYERS);
    gw_ddp_open(s, model);
    gw_optimizer *opt = gw_adam(s, gw_parameters(s, model));
    if (kind < PLAIN) gw_optimizer_shard(s, opt, .gradients = kind ? GW_WHOLE : GW_SHARDED);
    for (int64_t i = 0; i < steps && gw_ok(s); i++) train_step(s, model, opt);
    const char *row = gw_format(root, "%-6s %8.1f %9.1f %8.1f %8.1f   %.9g", names[kind],
                                memory_of_weights(s, model), gradients_mb,
                                (double)gw_optimizer_state_bytes(opt) / 1e6, memory_peak(),
                                weights_sum(s, model));
    gw_scope_close_up(s);
    return row;
}

static void work(gw_scope *root) {
    const char *rows[KINDS];
    for (int kind = 0; kind < KINDS; kind++) {
        curve_begin(&progress, names[kind]);
        rows[kind] = train(root, kind);
    }
    curve_print(&progress, "in MB: weights gradients    state     peak   sum");
    for (int kind = 0; kind < KINDS && gw_ok(root); kind++) curve_print(&progress, rows[kind]);
}

int main(int argc, char **argv) {
    return program_main(
        argc, argv, work, &progress, .about = "Shows what sharding saves.", .workers = 4,
        .flags = { { "width", "N", "of a layer", .integer = &width, .min = 1, .max = 1e5 },
                   { "steps", "N", "of each kind", .integer = &steps, .min = 1, .max = 1e6 } });
}
