// Four steps, each an all_reduce of 10 * step + rank. In step 2 rank 0 names an operation that does not exist, and both
// continue:
//
//     gradwire run -n 2 -- case-refused_locally
//
// Right: INVALID on both in step 2; the sums 21, 61 and 81 in the others.
#include <gradwire.h>
#include <stdio.h>

int main(void) {
    gw_scope *root = gw_scope_open(NULL);
    gw_rpc_init(root);
    gw_group *g = gw_group_world(root);
    int rank = gw_group_rank(g);
    for (int step = 1; step <= 4; step++) {
        gw_scope *s = gw_scope_open(root);
        gw_reduce_op op = step == 2 && rank == 0 ? (gw_reduce_op)99 : GW_SUM;
        gw_tensor *sum = gw_all_reduce(s, g, gw_full(s, GW_F32, 10 * step + rank, 2), op);
        double got = gw_ok(s) ? gw_item(s, gw_select(s, sum, 0, 0)) : 0;
        gw_error e = gw_scope_close(s);
        if (e.status)
            printf("rank %d step %d: %s\n", rank, step, gw_status_name(e.status));
        else
            printf("rank %d step %d: sum %g\n", rank, step, got);
    }
    gw_rpc_shutdown(root);
    return gw_exit_code(gw_scope_close(root));
}
