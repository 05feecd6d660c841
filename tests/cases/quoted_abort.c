// Four steps, each an all_reduce of 10 * step + rank. Step 1 ends on all members, as shapes differ. In step 2 rank 0
// fails by itself, with an error text that quotes the error of step 1 if requested, and both continue:
//
//     gradwire run -n 2 -- case-quoted_abort [quote]
//
// Right, in either form: MISMATCH on both in step 1, INVALID on both in step 2, then the sums 61 and 81.
#include <gradwire.h>
#include <stdio.h>
#include <string.h>

int main(int argc, char **argv) {
    bool quotes = argc > 1 && !strcmp(argv[1], "quote");
    gw_scope *root = gw_scope_open(NULL);
    gw_rpc_init(root);
    gw_group *g = gw_group_world(root);
    int rank = gw_group_rank(g);
    gw_error first = { 0 };
    for (int step = 1; step <= 4; step++) {
        gw_scope *s = gw_scope_open(root);
        if (step == 2 && rank == 0)
            gw_fail(s, GW_INVALID, "the retry failed%s%s", quotes ? " after: " : "",
                    quotes ? first.text : "");
        gw_tensor *x = gw_full(s, GW_F32, 10 * step + rank, step == 1 && rank ? 3 : 2);
        gw_tensor *sum = gw_all_reduce(s, g, x, GW_SUM);
        double got = gw_ok(s) ? gw_item(s, gw_select(s, sum, 0, 0)) : 0;
        gw_error e = gw_scope_close(s);
        if (step == 1) first = e;
        if (e.status)
            printf("rank %d step %d: %s\n", rank, step, gw_status_name(e.status));
        else
            printf("rank %d step %d: sum %g\n", rank, step, got);
    }
    gw_rpc_shutdown(root);
    return gw_exit_code(gw_scope_close(root));
}
