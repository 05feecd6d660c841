// PyTorch's tutorial "Combining DistributedDataParallel with the RPC framework": two trainers and a parameter server
// are in gw_rpc_shutdown, and a master calls a function on each trainer, which opens DDP among the trainers and trains,
// with a table of the parameter server: gradwire run -n 4 -- case-tutorial_ddp_rpc. Both trainers print the same
// weights.
#include <gradwire.h>
#include <stdio.h>

enum { TRAINER_0, TRAINER_1, MASTER, SERVER };

GW_FUNCTION(scale, GW_INLINE, "tensor") {
    return gw_value_of(gw_mul(s, gw_arg_tensor(s, a, 0), 0.5));
}

GW_FUNCTION(run_trainer, GW_POOL) {
    (void)a;
    gw_worker trainers[] = { gw_rpc_worker(s, TRAINER_0), gw_rpc_worker(s, TRAINER_1) };
    gw_group *g = gw_group_open(s, trainers, 2, .timeout_ms = GW_NO_TIMEOUT);
    gw_module *model = gw_nn_linear(s, 3, 2);
    gw_ddp_open(s, model, .group = g);
    gw_optimizer *opt = gw_sgd(s, gw_parameters(s, model), .lr = 0.1);
    for (int step = 0; step < 5 && gw_ok(s); step++) {
        gw_scope *t = gw_scope_open(s);
        gw_tensor *x = gw_mul(t, gw_ones(t, GW_F32, 4, 3), 1.0 + gw_group_rank(g));
        gw_tensor *scaled = gw_tensor_of(t, gw_rpc_sync(t, SERVER, "scale", x));
        gw_tensor *y = gw_module_call(t, model, scaled);
        gw_backward(t, gw_mean(t, gw_mul(t, y, y)));
        gw_optimizer_step(t, opt);
        gw_scope_close_up(t);
    }
    gw_list *parameters = gw_parameters(s, model);
    gw_barrier(s, g);
    return gw_value_of(gw_item(s, gw_sum(s, gw_tensor_of(s, gw_list_get(s, parameters, 0)))));
}

int main(void) {
    gw_scope *root = gw_scope_open(NULL);
    gw_rpc_init(root, .timeout_ms = GW_NO_TIMEOUT);
    if (gw_rpc_self(root).rank == MASTER) {
        gw_future *done[] = { gw_rpc_async(root, TRAINER_0, "run_trainer"),
                              gw_rpc_async(root, TRAINER_1, "run_trainer") };
        for (int i = 0; i < 2; i++)
            printf("trainer %d: %.9g\n", i, gw_float_of(root, gw_wait(root, done[i])));
    }
    gw_rpc_shutdown(root);
    return gw_exit_code(gw_scope_close(root));
}
