// One member leaves, and its process ends, right behind a collective that it has completed. The collective succeeds on the
// others, one of which calls it late, and the next one fails there.
//
//     gradwire run -n 3 -- case-leave_behind RANK OPERATION ROWS
//
// Right: "ok" of each rank, and 0.
#include <gradwire.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MEMBERS = 3, ROOT = 1 };

static gw_tensor *call(gw_scope *s, gw_group *g, int rank, const char *what, int64_t rows) {
    gw_tensor *own = gw_full(s, GW_I64, rank + 1, rows);
    gw_tensor *of_all = gw_full(s, GW_I64, rank + 1, MEMBERS * rows);
    gw_list *items = gw_list_open(s);
    for (int i = 0; i < MEMBERS; i++) gw_list_add(s, items, gw_full(s, GW_I64, 2, rows));
    if (strcmp(what, "all_reduce") == 0) return gw_all_reduce(s, g, own, GW_SUM);
    if (strcmp(what, "reduce") == 0) return gw_reduce(s, g, own, GW_SUM, ROOT);
    if (strcmp(what, "broadcast") == 0) return gw_broadcast(s, g, own, ROOT);
    if (strcmp(what, "all_gather") == 0) return gw_all_gather(s, g, own);
    if (strcmp(what, "gather") == 0) return gw_gather_to(s, g, own, ROOT);
    if (strcmp(what, "scatter") == 0)
        return gw_scatter_from(s, g, rank == ROOT ? items : NULL, ROOT);
    if (strcmp(what, "reduce_scatter") == 0) return gw_reduce_scatter(s, g, of_all, GW_SUM);
    return gw_all_to_all(s, g, of_all);
}

static int64_t right_sum(int rank, const char *what, int64_t rows) {
    bool is_root = rank == ROOT;
    if (strcmp(what, "reduce") == 0 || strcmp(what, "gather") == 0) return is_root ? 6 * rows : 0;
    if (strcmp(what, "broadcast") == 0 || strcmp(what, "scatter") == 0) return 2 * rows;
    return 6 * rows;
}

static void be_late(gw_scope *root) {
    gw_scope *s = gw_scope_open(root);
    gw_scope_set_timeout(s, 20);
    gw_wait(s, gw_future_open(s));
    (void)!gw_scope_close(s).status;
}

static int say(const char *text) {
    fprintf(stderr, "%s\n", text);
    return 1;
}

int main(int argc, char **argv) {
    gw_scope *root = gw_scope_open(NULL);
    gw_rpc_init(root);
    int rank = gw_rpc_self(root).rank;
    if (argc != 4) return 2;
    int who = (int)strtol(argv[1], NULL, 10);
    int64_t rows = strtol(argv[3], NULL, 10);
    gw_group *g = gw_group_world(root, .timeout_ms = 60000);
    if (rank == (who + 1) % MEMBERS) be_late(root);
    gw_tensor *result = call(root, g, rank, argv[2], rows);
    if (rank == who) {
        gw_rpc_leave(root);
        gw_error e = gw_scope_close(root);
        if (!e.status) puts("ok");
        return gw_exit_code(e);
    }
    int64_t sum = gw_item_int(root, gw_sum(root, result));
    if (!gw_ok(root)) return say(gw_scope_error(root)->text);
    if (sum != right_sum(rank, argv[2], rows)) return say("a wrong sum");
    gw_barrier(root, g);
    const gw_error *e = gw_scope_error(root);
    if (e->status != GW_DISCONNECTED || e->lost.rank != who) return say(e->text);
    gw_scope_clear(root);
    gw_rpc_shutdown(root);
    puts("ok");
    return gw_exit_code(gw_scope_close(root));
}
