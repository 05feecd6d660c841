// Rank 0 fails before it opens the group, and calls gw_rpc_shutdown; rank 1 waits for it in a barrier, without a
// timeout: gradwire run -n 2 -- case-failed_before_group. It ends at once; the first line is rank 0's own error, and
// the error of rank 1 names rank 0 and the reason.
#include <gradwire.h>

int main(void) {
    gw_scope *root = gw_scope_open(NULL);
    gw_rpc_init(root);
    if (gw_rpc_self(root).rank == 0) gw_fail(root, GW_REMOTE, "train.csv: no such file");
    gw_group *g = gw_group_world(root, .timeout_ms = GW_NO_TIMEOUT);
    gw_barrier(root, g);
    gw_rpc_shutdown(root);
    return gw_exit_code(gw_scope_close(root));
}
