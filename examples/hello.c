// The shortest program: one worker calls another in three ways.
//
//     gradwire run -n 2 -- hello
#include <gradwire.h>

GW_FUNCTION(scale, GW_INLINE, "tensor, float") {
    return gw_value_of(gw_mul(s, gw_arg_tensor(s, a, 0), gw_arg_float(s, a, 1)));
}

int main(void) {
    gw_scope *root = gw_scope_open(NULL);
    gw_rpc_init(root);  // rank and world size: from the launcher
    if (gw_rpc_self(root).rank == 0) {
        float row[] = { 1, 2, 3 };
        gw_tensor *x = gw_from(root, row, 3);
        gw_tensor *y = gw_tensor_of(
            root, gw_rpc_sync(root, "worker1", "scale", x, 0.5));      // wait for the answer
        gw_future *f = gw_rpc_async(root, "worker1", "scale", y, 10);  // or continue at once
        gw_rref *sum = gw_remote(root, "worker1", "gw.add", x, f);     // or keep it on worker1
        gw_print(root, gw_to_here(root, sum));
    }
    gw_rpc_shutdown(root);
    return gw_exit_code(gw_scope_close(root));
}
