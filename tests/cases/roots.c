// Members name different roots of a collective, and call K barriers after it:
//
//     gradwire run -n 2 -- case-roots {broadcast,scatter,reduce,gather} K
//
// Right: every member gets MISMATCH, at the latest from its first barrier, or from gw_rpc_shutdown without one. No member
// ends with 0.
#include <gradwire.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void enter(gw_scope *s, gw_group *g, const char *operation, gw_tensor *x, int root) {
    if (!strcmp(operation, "broadcast")) gw_broadcast(s, g, x, root);
    if (!strcmp(operation, "reduce")) gw_reduce(s, g, x, GW_SUM, root);
    if (!strcmp(operation, "gather")) gw_gather_to(s, g, x, root);
    if (strcmp(operation, "scatter") != 0) return;
    gw_list *all = gw_list_open(s);
    for (int i = 0; i < gw_group_size(g); i++) gw_list_add(s, all, x);
    gw_scatter_from(s, g, gw_group_rank(g) == root ? all : NULL, root);
}

int main(int argc, char **argv) {
    const char *operation = argc > 1 ? argv[1] : "broadcast";
    long barriers = argc > 2 ? strtol(argv[2], NULL, 10) : 0;
    gw_scope *root = gw_scope_open(NULL);
    gw_rpc_init(root);
    gw_group *g = gw_group_world(root);
    int rank = gw_group_rank(g);
    gw_error received = { 0 };
    for (long i = 0; i <= barriers && !received.status; i++) {
        gw_scope *s = gw_scope_open(root);
        if (i == 0)
            enter(s, g, operation, gw_full(s, GW_F32, rank, 3), rank % 2);
        else
            gw_barrier(s, g);
        received = gw_scope_close(s);
        printf("rank %d call %ld: %s\n", rank, i,
               received.status ? gw_status_name(received.status) : "OK");
    }
    gw_rpc_shutdown(root);
    gw_error last = gw_scope_close(root);
    if (last.status) printf("rank %d shutdown: %s\n", rank, gw_status_name(last.status));
    return gw_exit_code(received.status ? received : last);
}
