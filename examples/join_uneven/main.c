// Replicas with inputs for different numbers of iterations: a member without inputs shadows the collectives of the
// others, and steps its part of the sharded optimizer, until no member has inputs.
//
//     join_uneven                                 makes its own two processes
//     join_uneven --world-size 4 --active         gradients are means over those that have inputs
//     gradwire run -n 4 -- join_uneven
//
// The lines that a join adds: 3 (the participants, opening, closing). The loop is that of a local program.
#include "../common/program.h"

static int64_t inputs = 5;
static bool active;
static curve progress = { .options = { .title = "weight", .x_label = "iteration", .of = &inputs } };

static void work(gw_scope *root) {
    gw_module *model = gw_nn_linear(root, 1, 1);
    gw_tensor *weight = gw_module_parameter_get(root, model, "weight");
    gw_optimizer *opt = gw_adam(root, gw_parameters(root, model), .lr = 0.01);
    gw_optimizer_shard(root, opt);
    gw_joinable parts[] = { { .ddp = gw_ddp_open(root, model) }, { .optimizer = opt } };
    gw_join *join = gw_join_open(root, parts, 2, .active_divisor = active);
    int rank = gw_rpc_self(root).rank, used = 0;
    for (; used < inputs + rank && gw_ok(root); used++) {  // each has one more than the one before
        gw_scope *s = gw_scope_open(root);
        gw_backward(s, gw_sum(s, gw_module_call(s, model, gw_ones(s, GW_F32, 1, 1))));
        gw_optimizer_step(s, opt);
        curve_put(&progress, gw_item(s, weight));
        gw_scope_close_up(s);
    }
    gw_join_close(root, join);
    printf("worker%d has used all of its %d inputs: weight %.9g after %d iterations\n", rank, used,
           gw_item(root, weight), (int)gw_join_get_iteration(join).number);
}

int main(int argc, char **argv) {
    return program_main(
        argc, argv, work, &progress,
        .about = "Trains replicas with inputs for different numbers of steps.",
        .flags = { { "inputs", "N", "of the first process", .integer = &inputs, .max = 1e6 },
                   { "active", NULL, "divide by how many have inputs", .is_set = &active } });
}
