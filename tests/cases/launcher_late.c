// The launcher is stopped for a while (SIGSTOP, SIGCONT) as the ranks join and end. None of their reports is lost, so
// no rank is reported as not joined. Started with `gradwire run -n 30 -- launcher_late`: each rank prints "all fine",
// the exit code is 0, and there is no other line.
#include <gradwire.h>
#include <stdio.h>

int main(void) {
    gw_scope *root = gw_scope_open(NULL);
    gw_rpc_init(root);
    gw_barrier(root, gw_group_world(root));
    int rank = gw_rpc_self(root).rank;
    if (gw_ok(root)) printf("rank %d all fine\n", rank);
    gw_rpc_shutdown(root);
    return gw_exit_code(gw_scope_close(root));
}
