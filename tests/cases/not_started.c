// Started by hand, without a launcher: joining fails, and the program continues with its failed scope, like a program
// that checks the scope only at its end. The error names the remedy at once, the program does not divide by the size of
// a group that does not exist, and it ends with exit code 1.
#include <gradwire.h>
#include <stdio.h>

int main(void) {
    gw_scope *root = gw_scope_open(NULL);
    gw_rpc_init(root);
    fprintf(stderr, "the program continues\n");
    gw_group *world = gw_group_world(root);
    int rows = 1000 / gw_group_size(world) + 1000 % gw_rpc_world_size(root);
    printf("%d\n", rows);
    return gw_exit_code(gw_scope_close(root));
}
