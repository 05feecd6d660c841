// Hooks of gradients in passes over several workers: where they run, passes inside them, and one
// that fails.
#include "distributed/autograd/distributed_pass.h"

#include "testing/cluster.h"
#include "testing/testing.h"
#include <gradwire.h>
#include <string.h>

enum { SEEDS = 20, SIZE = 3 };

// ---- Functions ----------------------------------------------------------------------------------

typedef struct hooks_layer {
    gw_tensor *w;
} hooks_layer;

GW_CLASS(hooks_layer, open_layer, "float");

static void open_layer(gw_scope *own, hooks_layer *self, const gw_args *a) {
    self->w = gw_requires_grad(own, gw_full(own, GW_F64, gw_arg_float(own, a, 0), SIZE));
}

GW_METHOD(hooks_layer, forward, GW_INLINE, "tensor") {
    return gw_value_of(gw_mul(s, self->w, gw_arg_tensor(s, a, 0)));
}

// Sends x through the layer of |next| and its own.
GW_METHOD(hooks_layer, through, GW_POOL, "rref, tensor") {
    gw_tensor *y =
        gw_tensor_of(s, gw_rpc_sync(s, gw_arg_rref(s, a, 0), "forward", gw_arg_tensor(s, a, 1)));
    return gw_value_of(gw_mul(s, self->w, y));
}

// x times the layer's weight, with a hook that no other output has.
static gw_tensor *twice(gw_scope *s, gw_tensor *grad, void *context) {
    (void)context;
    return gw_mul(s, grad, 2);
}

GW_METHOD(hooks_layer, forward_hooked, GW_INLINE, "tensor") {
    gw_tensor *y = gw_mul(s, self->w, gw_arg_tensor(s, a, 0));
    gw_register_hook(s, y, twice, NULL);
    return gw_value_of(y);
}

GW_METHOD(hooks_layer, hook_weight, GW_INLINE, "") {
    return gw_value_of(gw_register_hook(s, self->w, twice, NULL));
}

GW_METHOD(hooks_layer, unhook_weight, GW_INLINE, "int") {
    gw_remove_hook(s, self->w, (int)gw_arg_int(s, a, 0));
    return gw_none();
}

static gw_tensor *fail_here(gw_scope *s, gw_tensor *grad, void *context) {
    (void)grad;
    (void)context;
    gw_fail(s, GW_INVALID, "no such gradient");
    return NULL;
}

GW_METHOD(hooks_layer, break_weight, GW_INLINE, "") {
    return gw_value_of(gw_register_hook(s, self->w, fail_here, NULL));
}

GW_METHOD(hooks_layer, grad_sum, GW_INLINE, "") {
    return gw_value_of(gw_item(s, gw_sum(s, gw_grad(s, self->w))));
}

GW_METHOD(hooks_layer, has_grad, GW_INLINE, "") {
    return gw_value_of(gw_grad_find(s, self->w) != NULL);
}

static gw_tensor *forward(gw_scope *s, gw_rref *layer, gw_tensor *x) {
    return gw_tensor_of(s, gw_rpc_sync(s, layer, "forward", x));
}

static double call_sum(gw_scope *s, gw_rref *layer) {
    return gw_float_of(s, gw_rpc_sync(s, layer, "grad_sum"));
}

static double sum_of_grad(gw_scope *s, gw_tensor *x) {
    return gw_item(s, gw_sum(s, gw_grad(s, x)));
}

static void expect_fine(gw_scope *s) {
    if (!gw_ok(s)) fail_msg("%s", gw_scope_error(s)->text);
}

static gw_tensor *open_input(gw_scope *s, double value) {
    return gw_requires_grad(s, gw_full(s, GW_F64, value, SIZE));
}

static void run_seeds(int world_size, cluster_main *main) {
    for (uint64_t seed = 1; seed <= (uint64_t)testing_scaled(SEEDS); seed++)
        cluster_run(seed, (cluster_options){ .world_size = world_size }, main, NULL);
}

// ---- Where they run -----------------------------------------------------------------------------

static void hook_local_and_remote(gw_scope *root, int rank, void *context) {
    (void)context;
    if (rank) return;
    gw_rref *layer = gw_remote(root, "w1", "hooks_layer", 2.0);
    gw_tensor *x = open_input(root, 5);
    int64_t hook = gw_int_of(root, gw_rpc_sync(root, layer, "hook_weight"));
    for (int hooked = 1; hooked >= 0; hooked--) {
        gw_scope *s = gw_scope_open(root);
        gw_tensor *y = gw_tensor_of(s, gw_rpc_sync(s, layer, "forward_hooked", x));
        gw_register_hook(s, y, twice, NULL);
        gw_backward(s, gw_sum(s, y));
        expect_fine(s);
        // Hooks of y: of the receive here, and of the send at the owner.
        assert_true(sum_of_grad(s, x) == SIZE * 2 * 2 * 2);
        assert_true(call_sum(s, layer) == SIZE * 5 * 2 * 2 * (hooked ? 2 : 1));
        if (hooked) gw_rpc_sync(s, layer, "unhook_weight", hook);
        gw_scope_close_up(s);
    }
}

static void they_run_on_the_worker_that_has_the_tensor(void **state) {
    (void)state;
    run_seeds(2, hook_local_and_remote);
}

// ---- Passes inside them -------------------------------------------------------------------------

typedef struct inner {
    gw_scope *scope;  // that gets its gradients; NULL: the pass's
    gw_rref *layer;
    gw_tensor *loss;
    int runs;
} inner;

// The inner pass leads to another worker, whose gradient it requests.
static gw_tensor *walk_inside(gw_scope *s, gw_tensor *grad, void *context) {
    inner *in = context;
    in->runs++;
    gw_scope *into = in->scope ? in->scope : s;
    gw_backward(into, in->loss);
    if (!in->scope) assert_true(call_sum(s, in->layer) == SIZE);
    return gw_mul(s, grad, 1);
}

static void nest(gw_scope *root, int rank, void *context) {
    (void)context;
    if (rank) return;
    gw_rref *layer = gw_remote(root, "w1", "hooks_layer", 2.0);
    gw_tensor *x = open_input(root, 5);
    for (int apart = 0; apart < 2; apart++) {
        gw_scope *s = gw_scope_open(root), *other = gw_scope_open(root);
        gw_tensor *z = open_input(other, 1), *y = forward(s, layer, gw_mul(s, x, x));
        inner in = { .scope = apart ? other : NULL,
                     .layer = layer,
                     .loss = gw_sum(other, forward(other, layer, z)) };
        gw_register_hook(s, y, walk_inside, &in);
        gw_backward(s, gw_sum(s, gw_mul(s, y, y)));
        expect_fine(s);
        assert_int_equal(in.runs, 1);
        // y is 2 x^2
        assert_true(sum_of_grad(s, x) == SIZE * (2 * 50) * 2 * 10);
        assert_true(call_sum(s, layer) == SIZE * (2 * 50) * 25);
        assert_true((gw_grad_find(other, z) != NULL) == apart);
        if (apart) assert_true(call_sum(other, layer) == SIZE && sum_of_grad(other, z) == SIZE * 2);
        gw_scope_close_up(s);
        gw_scope_close_up(other);
        for (int i = 0; i < 3; i++) {
            gw_scope *later = gw_scope_open(root);
            gw_backward(later, gw_sum(later, forward(later, layer, x)));
            assert_true(sum_of_grad(later, x) == SIZE * 2);
            gw_scope_close_up(later);
        }
        expect_fine(root);
    }
}

static void a_pass_may_be_inside_another(void **state) {
    (void)state;
    run_seeds(2, nest);
}

// Hooks at a participant: one whose pass stays there, and one whose pass would have to wait.
static gw_tensor *walk_alone(gw_scope *s, gw_tensor *grad, void *context) {
    (void)context;
    gw_enable_grad(s);
    gw_tensor *x = open_input(s, 3);
    gw_backward(s, gw_sum(s, gw_mul(s, x, x)));
    gw_tensor *by = gw_grad(s, x);
    gw_no_grad(s);
    return gw_mul(s, grad, by);
}

static gw_tensor *walk_away(gw_scope *s, gw_tensor *grad, void *context) {
    (void)context;
    gw_backward(s, *(gw_tensor **)context);
    return grad;
}

typedef struct hooks_kept {
    gw_scope *own;
    gw_tensor *remote;
} hooks_kept;

GW_CLASS(hooks_kept, open_kept, "rref");

static void open_kept(gw_scope *own, hooks_kept *self, const gw_args *a) {
    self->own = own;
    (void)a;
}

// Keeps a graph that leads to the layer.
GW_METHOD(hooks_kept, keep, GW_POOL, "rref") {
    gw_tensor *y = forward(s, gw_arg_rref(s, a, 0), gw_ones(s, GW_F64, SIZE));
    self->remote = gw_sum(self->own, y);
    return gw_none();
}

GW_METHOD(hooks_kept, alone, GW_INLINE, "tensor") {
    gw_tensor *y = gw_mul(s, gw_arg_tensor(s, a, 0), 1);
    gw_register_hook(s, y, walk_alone, NULL);
    return gw_value_of(y);
}

GW_METHOD(hooks_kept, away, GW_INLINE, "tensor") {
    gw_tensor *y = gw_mul(s, gw_arg_tensor(s, a, 0), 1);
    gw_register_hook(s, y, walk_away, &self->remote);
    return gw_value_of(y);
}

static void nest_remote(gw_scope *root, int rank, void *context) {
    (void)context;
    if (rank) return;
    gw_rref *layer = gw_remote(root, "w0", "hooks_layer", 2.0);
    gw_rref *kept = gw_remote(root, "w1", "hooks_kept", layer);
    gw_tensor *x = open_input(root, 5);
    gw_rpc_sync(root, kept, "keep", layer);
    gw_scope *s = gw_scope_open(root);
    gw_backward(s, gw_sum(s, gw_tensor_of(s, gw_rpc_sync(s, kept, "alone", x))));
    expect_fine(s);
    assert_true(sum_of_grad(s, x) == SIZE * 6);
    gw_tensor *y = gw_tensor_of(s, gw_rpc_sync(s, kept, "away", x));
    gw_backward(s, gw_sum(s, y));
    assert_int_equal(gw_scope_error(s)->status, GW_WOULD_BLOCK);
    if (!strstr(gw_scope_error(s)->text, "a wait in a function that must not block"))
        fail_msg("%s", gw_scope_error(s)->text);
    gw_scope_clear(s);
    gw_scope_close_up(s);
    s = gw_scope_open(root);
    gw_backward(s, gw_sum(s, gw_tensor_of(s, gw_rpc_sync(s, kept, "alone", x))));
    assert_true(sum_of_grad(s, x) == SIZE * 6);
    gw_scope_close_up(s);
}

static void one_inside_anothers_stays_on_its_worker(void **state) {
    (void)state;
    run_seeds(2, nest_remote);
}

// ---- One that fails -----------------------------------------------------------------------------

static int parts_here(const gw_scope *root) {
    agent *a = root->agent;
    int count = 0;
    env_enter(a->env);
    list_each(l, &graphs_of(a)->passes) count++;
    list_each(l, &graphs_of(a)->ending) count++;
    env_leave(a->env);
    return count;
}

static void enter_barrier(gw_scope *root) {
    int count;
    const gw_worker *all = gw_rpc_workers(root, &count);
    gw_rpc_barrier(root, all, count);
}

static void play_failing(gw_scope *root) {
    gw_rref *first = gw_remote(root, "w1", "hooks_layer", 2.0);
    gw_rref *second = gw_remote(root, "w2", "hooks_layer", 3.0);
    gw_rref *third = gw_remote(root, "w3", "hooks_layer", 4.0);
    gw_tensor *x = open_input(root, 1);
    int64_t hook = gw_int_of(root, gw_rpc_sync(root, second, "break_weight"));
    gw_scope *s = gw_scope_open(root);
    gw_tensor *y = forward(s, third, gw_tensor_of(s, gw_rpc_sync(s, first, "through", second, x)));
    gw_backward(s, gw_sum(s, y));
    const gw_error *e = gw_scope_error(s);
    assert_int_equal(e->status, GW_INVALID);
    assert_string_equal(e->worker, "w2");
    if (!strstr(e->text, "w2: backward: ") || !strstr(e->text, "hook: no such gradient"))
        fail_msg("%s", e->text);
    gw_scope_clear(s);
    assert_null(gw_grad_find(s, x));
    // w3 and w1 had run their parts, or nearly.
    gw_rref *all[] = { first, second, third };
    for (int i = 0; i < 3; i++) assert_false(gw_bool_of(s, gw_rpc_sync(s, all[i], "has_grad")));

    // The graph is as it was.
    gw_rpc_sync(s, second, "unhook_weight", hook);
    gw_backward(s, gw_sum(s, y));
    expect_fine(s);
    assert_true(sum_of_grad(s, x) == SIZE * 2 * 3 * 4);
    assert_true(call_sum(s, first) == SIZE * 3 * 4);
    assert_true(call_sum(s, second) == SIZE * 2 * 4);
    assert_true(call_sum(s, third) == SIZE * 2 * 3);
    gw_scope_close_up(s);
}

static void fail_far_away(gw_scope *root, int rank, void *context) {
    (void)context;
    enter_barrier(root);
    if (!rank) play_failing(root);
    enter_barrier(root);
    gw_scope *s = gw_scope_open(root);
    for (int i = 0; i < 100 && parts_here(root); i++)
        gw_rpc_sync(s, rank ? "w0" : "w1", "gw.add", gw_ones(s, GW_F32, 1), 1.0);
    assert_int_equal(parts_here(root), 0);
    gw_scope_close_up(s);
}

static void one_that_fails_fails_the_pass_everywhere(void **state) {
    (void)state;
    run_seeds(4, fail_far_away);
}

GW_TESTS(distributed_hooks, they_run_on_the_worker_that_has_the_tensor,
         a_pass_may_be_inside_another, one_inside_anothers_stays_on_its_worker,
         one_that_fails_fails_the_pass_everywhere);
