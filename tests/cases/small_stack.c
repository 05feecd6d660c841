// A thread with a small stack, as musl gives to every thread, uses all parts of the library:
//     gradwire run -n 2 -- case-small_stack KIB
// "all fine" on both, exit 0.
#include <gradwire.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static gw_scope *root;
static gw_group *group;
static int me, other;

static void expect(gw_scope *s, bool is_right, const char *what) {
    if (gw_ok(s) && !is_right) gw_fail(s, GW_INVALID, "%s", what);
}

// ---- Calls --------------------------------------------------------------------------------------
GW_FUNCTION(small_double, GW_POOL, "tensor") {
    return gw_value_of(gw_mul(s, gw_arg_tensor(s, a, 0), 2.0));
}

GW_FUNCTION(small_fails, GW_POOL) {
    (void)a;
    gw_fail(s, GW_NOT_FOUND, "on purpose");
    return gw_none();
}

static void call(gw_scope *s) {
    gw_tensor *x = gw_ones(s, GW_F32, 1000);
    x = gw_tensor_of(s, gw_rpc_sync(s, other, "small_double", x));
    expect(s, gw_item(s, gw_max(s, x)) == 2, "a call gave another number");
    gw_rref *r = gw_remote(s, other, "small_double", gw_ones(s, GW_F64, 10));
    expect(s, gw_item(s, gw_max(s, gw_to_here(s, r))) == 2, "a reference gave another number");
    gw_scope *t = gw_scope_open(s);
    gw_rpc_sync(t, other, "small_fails");
    gw_error e = gw_scope_close(t);
    expect(s, e.status == GW_NOT_FOUND, "a call did not fail");
}

// ---- Collectives --------------------------------------------------------------------------------
static void all_reduce(gw_scope *s) {
    const int64_t counts[] = { 1, 1000, 1000000 };
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        gw_tensor *x = gw_all_reduce(s, group, gw_ones(s, GW_F32, counts[i]), GW_SUM);
        expect(s, gw_item(s, gw_max(s, x)) == 2, "another sum");
        x = gw_all_reduce(s, group, gw_ones(s, GW_BF16, counts[i]), GW_AVG);
        expect(s, gw_item(s, gw_max(s, x)) == 1, "another mean");
    }
}

static void other_collectives(gw_scope *s) {
    gw_tensor *x = gw_ones(s, GW_F32, 1000);
    gw_broadcast(s, group, x, 0);
    gw_all_gather(s, group, x);
    gw_reduce_scatter(s, group, gw_ones(s, GW_F32, 2, 500), GW_SUM);
    gw_barrier(s, group);
}

// ---- Training -----------------------------------------------------------------------------------
static gw_module *model;
static gw_optimizer *opt;

static void train(gw_scope *s) {
    gw_tensor *x = gw_randn(s, GW_F32, 64, 32), *y = gw_randn(s, GW_F32, 64, 10);
    gw_backward(s, gw_mse(s, gw_module_call(s, model, x), y));
    gw_clip_grad_norm(s, gw_parameters(s, model), 1.0);
    gw_optimizer_step(s, opt);
}

static void compute(gw_scope *s) {
    gw_tensor *a = gw_requires_grad(s, gw_randn(s, GW_F64, 60, 50));
    gw_tensor *b = gw_requires_grad(s, gw_randn(s, GW_F64, 50, 70));
    gw_tensor *y = gw_log_softmax(s, gw_matmul(s, a, b), 1);
    y = gw_add(s, y, gw_to_dtype(s, gw_ones(s, GW_F32, 70), GW_F64));
    gw_backward(s, gw_sum(s, y));
    gw_sum(s, gw_to_dtype(s, y, GW_BF16));
}

static void save(gw_scope *s) {
    const char *path = gw_format(s, "/tmp/case-small_stack.%d.gw", (int)getpid());
    gw_map *all = gw_map_open(s);
    gw_map_put(s, all, "model", gw_module_state_dict(s, model));
    gw_map_put(s, all, "opt", gw_optimizer_state_dict(s, opt));
    gw_checkpoint_save(s, path, all);
    gw_map *again = gw_checkpoint_load(s, path);
    gw_module_load_state_dict(s, model, gw_map_of(s, gw_map_get(s, again, "model")));
    gw_optimizer_load_state_dict(s, opt, gw_map_of(s, gw_map_get(s, again, "opt")));
    unlink(path);
}

static void print(gw_scope *s) {
    gw_format(s, "%s", gw_to_text(s, gw_ones(s, GW_F32, 20, 20)));
}

// ---- All ----------------------------------------------------------------------------------------
static void (*const uses[])(gw_scope *s) = { call, all_reduce, other_collectives, compute, train,
                                             save, print };

static void *run(void *context) {
    for (size_t i = 0; i < sizeof uses / sizeof *uses; i++) {
        gw_scope *s = gw_scope_open(root);
        uses[i](s);
        gw_scope_close_up(s);
    }
    return context;
}

int main(int argc, char **argv) {
    if (argc < 2) return 2;
    root = gw_scope_open(NULL);
    gw_rpc_init(root);
    me = gw_rpc_self(root).rank;
    other = 1 - me;
    group = gw_group_world(root);
    model = gw_nn_sequential(root, gw_nn_linear(root, 32, 16), gw_nn_linear(root, 16, 10));
    gw_ddp_open(root, model);
    opt = gw_adam(root, gw_parameters(root, model), .lr = 0.01);
    pthread_attr_t small;
    pthread_t thread;
    pthread_attr_init(&small);
    if (pthread_attr_setstacksize(&small, (size_t)strtol(argv[1], NULL, 10) << 10)) return 2;
    if (pthread_create(&thread, &small, run, NULL)) return 2;
    pthread_join(thread, NULL);
    pthread_attr_destroy(&small);
    gw_rpc_shutdown(root);
    gw_error e = gw_scope_close(root);
    if (!e.status) printf("all fine\n");
    return gw_exit_code(e);
}
