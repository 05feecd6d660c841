// The launcher shows the output of a rank that is killed before it has filled or flushed a buffer. Started with
// `gradwire run -n 2 -- lost_output`: rank 1 prints five lines and kills itself.
#include <gradwire.h>
#include <signal.h>
#include <stdio.h>

int main(void) {
    printf("before joining\n");
    gw_scope *root = gw_scope_open(NULL);
    gw_rpc_init(root);
    for (int step = 0; step < 4; step++) printf("step %d\n", step);
    if (gw_rpc_self(root).rank == 1) raise(SIGKILL);
    gw_rpc_shutdown(root);
    return gw_exit_code(gw_scope_close(root));
}
