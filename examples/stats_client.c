// Calls a function that this program does not define: "stats" is a worker of the same job that runs stats_server.
#include <gradwire.h>
#include <stdio.h>

int main(void) {
    gw_scope *root = gw_scope_open(NULL);
    gw_rpc_init(root, .name = "client");
    gw_tensor *x = gw_arange(root, GW_F32, 0, 5, 1);
    gw_map *m = gw_map_of(root, gw_rpc_sync(root, "stats", "describe", x));
    int64_t count = gw_int_of(root, gw_map_get(root, m, "count"));
    double mean = gw_float_of(root, gw_map_get(root, m, "mean"));
    double std = gw_float_of(root, gw_map_get(root, m, "std"));
    if (gw_ok(root)) printf("count %lld, mean %.4f, std %.4f\n", (long long)count, mean, std);
    gw_rpc_shutdown(root);
    return gw_exit_code(gw_scope_close(root));
}
