// Re-forms, or opens, a group in one scope many times, as in a long job. The heap stays flat.
//
//     gradwire run -n 2 -- case-reform_often 4300 group
//
// |what|: group (a group is re-formed), ddp (and replicas continue in it), shard (and a sharded optimizer), open (a
// group of one name is opened in the scope of each step).
//
// Right: "ok" of each rank, and 0.
#include <gradwire.h>

#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WARM = 300, GROWTH_BYTES = 2 << 20 };

typedef struct loop {
    gw_scope *root;
    gw_group *group;
    gw_ddp *ddp;
    gw_optimizer *optimizer;
    int step;
} loop;

static void open_group(loop *l) {
    l->group = gw_group_world(l->root, .name = "trainers", .timeout_ms = 60000);
}

static void open_ddp(loop *l) {
    open_group(l);
    gw_module *model = gw_nn_linear(l->root, 64, 32);
    l->ddp = gw_ddp_open(l->root, model, .group = l->group);
    l->optimizer = gw_sgd(l->root, gw_parameters(l->root, model), .lr = 0.01);
}

static void open_shard(loop *l) {
    open_group(l);
    gw_module *model = gw_nn_linear(l->root, 64, 32);
    l->optimizer = gw_sgd(l->root, gw_parameters(l->root, model), .lr = 0.01, .momentum = 0.9);
    gw_optimizer_shard(l->root, l->optimizer, .group = l->group);
}

static void open_nothing(loop *l) {
    (void)l;
}

static void continue_as_group(loop *l, gw_scope *s) {
    l->group = gw_group_reform(l->root, l->group);
    gw_barrier(s, l->group);
}

static void continue_with_ddp(loop *l, gw_scope *s) {
    continue_as_group(l, s);
    gw_ddp_reform(l->root, l->ddp, l->optimizer, l->group);
}

static void continue_with_shard(loop *l, gw_scope *s) {
    continue_as_group(l, s);
    gw_optimizer_reform(l->root, l->optimizer, l->group);
}

// Rank 0 closes the group before the others have entered, and opens the next one; it is not far ahead.
static void continue_with_another(loop *l, gw_scope *s) {
    gw_group *g = gw_group_world(s, .name = "step", .timeout_ms = 60000);
    gw_broadcast(s, g, gw_ones(s, GW_F32, 4), 0);
    if (l->step % 16 == 0) gw_barrier(s, g);
}

static const struct {
    const char *name;
    void (*open)(loop *l);
    void (*advance)(loop *l, gw_scope *s);
} kinds[] = {
    { "group", open_group, continue_as_group },
    { "ddp", open_ddp, continue_with_ddp },
    { "shard", open_shard, continue_with_shard },
    { "open", open_nothing, continue_with_another },
};

static size_t heap_bytes(void) {
    return mallinfo2().uordblks;
}

static void run(gw_scope *root, int kind, int count) {
    loop l = { .root = root };
    kinds[kind].open(&l);
    size_t warm_bytes = 0;
    for (; l.step < count && gw_ok(root); l.step++) {
        gw_scope *s = gw_scope_open(root);
        kinds[kind].advance(&l, s);
        gw_scope_close_up(s);
        if (l.step == WARM) warm_bytes = heap_bytes();
    }
    size_t bytes = heap_bytes();
    if (gw_ok(root) && bytes > warm_bytes + GROWTH_BYTES)
        gw_fail(root, GW_LIMIT, "the heap has grown from %zu KiB to %zu KiB", warm_bytes / 1024,
                bytes / 1024);
}

int main(int argc, char **argv) {
    int count = argc > 1 ? (int)strtol(argv[1], NULL, 10) : 4300, kind = 0;
    for (int i = 0; argc > 2 && i < (int)(sizeof kinds / sizeof kinds[0]); i++)
        if (strcmp(argv[2], kinds[i].name) == 0) kind = i;
    gw_scope *root = gw_scope_open(NULL);
    gw_rpc_init(root);
    run(root, kind, count);
    if (gw_ok(root)) printf("ok\n");
    gw_rpc_shutdown(root);
    return gw_exit_code(gw_scope_close(root));
}
