// Rank 0 cannot read its data, and rank 1 waits for it in the call WHAT: gradwire run -n 2 --
// case-failed_before_group_matrix WHAT. Each ends at once; the first line is rank 0's own error, and the error of rank
// 1 names rank 0 and the reason.
#include <gradwire.h>
#include <stdio.h>
#include <string.h>

static const char *what;

static bool is(const char *name) {
    return strcmp(what, name) == 0;
}

static gw_group *world(gw_scope *s) {
    return gw_group_world(s, .timeout_ms = GW_NO_TIMEOUT);
}

int main(int argc, char **argv) {
    what = argc > 1 ? argv[1] : "world";
    gw_scope *root = gw_scope_open(NULL);
    gw_rpc_init(root, .timeout_ms = GW_NO_TIMEOUT);
    int rank = gw_rpc_self(root).rank;
    gw_group *opened_before = is("opened") || is("ddpopened") ? world(root) : NULL;
    if (rank == 0) gw_checkpoint_load(root, "missing.safetensors");
    gw_module *model = gw_nn_linear(root, 3, 2);
    if (is("opened")) gw_barrier(root, opened_before);
    if (is("ddp")) gw_ddp_open(root, model, .group = world(root));
    if (is("ddpopened")) gw_ddp_open(root, model, .group = opened_before);
    if (is("world")) gw_barrier(root, world(root));
    if (is("split")) gw_barrier(root, gw_group_split(root, world(root), 0, 0));
    if (is("shard"))
        gw_optimizer_shard(root, gw_adam(root, gw_parameters(root, model)), .group = world(root));
    if (is("recv") && rank == 1) gw_recv(root, world(root), 0);
    if (is("named") && rank == 1) gw_named(root, 0, "server");
    if (is("rpcbarrier")) {
        int count;
        const gw_worker *workers = gw_rpc_workers(root, &count);
        gw_rpc_barrier(root, workers, count);
    }
    gw_rpc_shutdown(root);
    return gw_exit_code(gw_scope_close(root));
}
