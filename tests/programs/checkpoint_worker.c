// gradwire-checkpoint-worker URL RANK SIZE FOLDER STEP
//
// A worker that writes a checkpoint of STEP with the others, keeps one, and prints how it ended: "whole", or
// "failed <status>: <text>". With STEP 2 it writes one of step 1 before, and prints "one".
#include <gradwire.h>
#include <stdio.h>
#include <stdlib.h>

enum { NUMBERS = 400000 };

static void write_one(gw_scope *s, gw_group *g, const char *folder, int64_t step) {
    gw_map *values = gw_map_open(s), *own = gw_map_open(s);
    gw_map_put(s, values, "x", gw_full(s, GW_F32, (double)step, NUMBERS));
    gw_map_put(s, values, "step", step);
    gw_map_put(s, own, "rank", gw_group_rank(g));
    gw_wait(s, gw_checkpoint_begin(s, folder, g, values, .step = step, .keep = 1, .own = own));
}

int main(int argc, char **argv) {
    if (argc != 6) return 2;
    setvbuf(stdout, NULL, _IOLBF, 0);
    int rank = (int)strtol(argv[2], NULL, 10), size = (int)strtol(argv[3], NULL, 10);
    int64_t step = strtoll(argv[5], NULL, 10);
    gw_scope *root = gw_scope_open(NULL);
    gw_rpc_init(root, .name = gw_format(root, "worker%d", rank), .rank = rank, .world_size = size,
                .init_method = argv[1]);
    gw_group *g = gw_group_world(root);
    if (step == 2) write_one(root, g, argv[4], 1);
    if (step == 2 && gw_ok(root)) printf("one\n");
    gw_scope *s = gw_scope_open(root);
    write_one(s, g, argv[4], step);
    gw_error e = gw_scope_close(s);
    if (e.status)
        printf("failed %s: %s\n", gw_status_name(e.status), e.text);
    else
        printf("whole\n");
    gw_rpc_shutdown(root);
    return gw_exit_code(gw_scope_close(root));
}
