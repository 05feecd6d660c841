// The program of rank 0 fails, and the others fail because they wait for it: the launcher names rank 0 as the cause, and
// its exit code is that of the job. Started with `gradwire run -n 3 -- first_failure HOW`: the others wait for rank 0 in
// a collective or for a name that it publishes; HOW "kill": and end by a signal.
#include <gradwire.h>
#include <signal.h>
#include <string.h>

int main(int argc, char **argv) {
    if (argc != 2) return 2;
    gw_scope *root = gw_scope_open(NULL);
    gw_rpc_init(root);
    int rank = gw_rpc_self(root).rank;
    if (rank == 0) gw_fail(root, GW_REMOTE, "train.csv: no such file");
    if (strcmp(argv[1], "named") != 0)
        gw_barrier(root, gw_group_world(root));
    else if (rank != 0)
        gw_named(root, 0, "server");
    if (rank != 0 && strcmp(argv[1], "kill") == 0) {
        gw_barrier(root, gw_group_world(root));
        raise(SIGTERM);
    }
    gw_rpc_shutdown(root);
    int code = gw_exit_code(gw_scope_close(root));
    return rank == 0 ? 77 : code;
}
