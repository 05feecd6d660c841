// Hangs until it is killed, for `gradwire hang`. Started by `gradwire run -n3 -- case-hangs body` or `-n2 -- case-hangs
// cycle`. Each rank prints "started PID" when all have joined.
//   body: rank 0 calls a function of rank 1 that never returns; the other programs wait in a barrier, which rank 0 enters
//         after the call.
//   cycle: each rank calls a function of the other, which waits for a message of the caller.
//   barrier: rank 0 waits in a barrier that rank 1 does not enter.
#include <gradwire.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

GW_FUNCTION(sleeps, GW_POOL) {
    (void)s, (void)a;
    for (;;) poll(NULL, 0, 1000);
    return gw_none();
}

GW_FUNCTION(receives, GW_POOL) {
    gw_recv(s, gw_group_world(s, .timeout_ms = GW_NO_TIMEOUT), gw_arg_int(s, a, 0));
    return gw_none();
}

static void hang(gw_scope *root, const char *how, int rank) {
    if (strcmp(how, "body") == 0 && rank == 0) gw_rpc_sync(root, 1, "sleeps");
    if (strcmp(how, "cycle") == 0) gw_rpc_sync(root, 1 - rank, "receives", rank);
    for (; strcmp(how, "barrier") == 0 && rank == 1;) poll(NULL, 0, 1000);
    gw_barrier(root, gw_group_world(root, .timeout_ms = GW_NO_TIMEOUT));
}

int main(int argc, char **argv) {
    if (argc != 2) return 2;
    gw_scope *root = gw_scope_open(NULL);
    gw_rpc_init(root, .timeout_ms = GW_NO_TIMEOUT);
    gw_barrier(root, gw_group_world(root, .timeout_ms = GW_NO_TIMEOUT));
    printf("started %d\n", (int)getpid());
    if (gw_ok(root)) hang(root, argv[1], gw_rpc_self(root).rank);
    gw_rpc_shutdown(root);
    return gw_exit_code(gw_scope_close(root));
}
