// Four steps of an optimizer, each with a mark before it. One worker, started by `gradwire run -n1`.
#include <gradwire.h>

int main(void) {
    gw_scope *root = gw_scope_open(NULL);
    gw_rpc_init(root);
    gw_module *m = gw_nn_linear(root, 2, 1);
    gw_optimizer *opt = gw_sgd(root, gw_parameters(root, m), .lr = 0.1);
    for (int step = 1; step <= 4 && gw_ok(root); step++) {
        gw_scope *s = gw_scope_open(root);
        gw_mark(s, gw_format(s, "step %d", step));
        gw_backward(s, gw_sum(s, gw_module_call(s, m, gw_ones(s, GW_F32, 1, 2))));
        gw_optimizer_step(s, opt);
        gw_scope_close_up(s);
    }
    gw_rpc_shutdown(root);
    return gw_exit_code(gw_scope_close(root));
}
