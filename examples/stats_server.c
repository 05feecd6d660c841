// A program that only serves: statistics of tensors. Its callers may be other programs; see
// stats_client.c.
#include <gradwire.h>

GW_FUNCTION(describe, GW_POOL, "tensor") {
    gw_tensor *x = gw_arg_tensor(s, a, 0);
    gw_map *m = gw_map_open(s);
    gw_map_put(s, m, "count", gw_numel(x));
    gw_map_put(s, m, "mean", gw_item(s, gw_mean(s, x)));
    gw_map_put(s, m, "std", gw_item(s, gw_std(s, x)));
    return gw_value_of(m);
}

int main(void) {
    gw_scope *root = gw_scope_open(NULL);
    gw_rpc_init(root, .name = "stats");
    gw_rpc_shutdown(root);  // serves until every worker is done
    return gw_exit_code(gw_scope_close(root));
}
