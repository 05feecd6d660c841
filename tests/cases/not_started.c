// Started by hand, without a launcher: joining fails, and the program goes on with its failed scope, as one does that looks at it at
// the end. It is told at once what to do instead, does not die by a division by the size of a group that is not there, and ends
// with exit code 1.
#include <gradwire.h>
#include <stdio.h>

int main(void) {
    gw_scope *root = gw_scope_open(NULL);
    gw_rpc_init(root);
    fprintf(stderr, "the program goes on\n");
    gw_group *world = gw_group_world(root);
    int rows = 1000 / gw_group_size(world) + 1000 % gw_rpc_world_size(root);
    printf("%d\n", rows);
    return gw_exit_code(gw_scope_close(root));
}
