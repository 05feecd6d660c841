// A rank that ends before it has joined ends the joining of the others at once, not after join_timeout. Started with
// `gradwire run --on-failure=keep -n 3 -- early_exit RANK HOW`: RANK ends at once, HOW is "kill" or an exit code. The
// others print the error of gw_rpc_init, DISCONNECTED with the end of that rank.
#include <gradwire.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char **argv) {
    if (argc != 3) return 2;
    if (gw_rpc_launched().rank == (int)strtol(argv[1], NULL, 10)) {
        if (strcmp(argv[2], "kill") == 0) kill(getpid(), SIGKILL);
        return (int)strtol(argv[2], NULL, 10);
    }
    gw_scope *root = gw_scope_open(NULL);
    gw_rpc_init(root);
    const gw_error *error = gw_scope_error(root);
    printf("init: %s: %s\n", gw_status_name(error->status), error->text);
    return gw_exit_code(gw_scope_close(root));
}
