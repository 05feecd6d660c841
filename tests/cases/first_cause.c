// If a rank ends in the middle of the job, the launcher names it as the cause, not the ranks that fail because of it.
// Started with `gradwire run -n 3 -- first_cause CODE`: rank 1 exits with CODE.
#include <gradwire.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int main(int argc, char **argv) {
    if (argc != 2) return 2;
    gw_scope *root = gw_scope_open(NULL);
    gw_rpc_init(root);
    gw_group *world = gw_group_world(root);
    gw_barrier(root, world);
    if (gw_rpc_self(root).rank == 1) _exit((int)strtol(argv[1], NULL, 10));
    gw_barrier(root, world);
    if (!gw_ok(root)) printf("failed\n");
    gw_rpc_shutdown(root);
    return gw_exit_code(gw_scope_close(root));
}
