// Accumulated gradients, as functions see them that are called in the scope of the passes.
#include "distributed/autograd/distributed_pass.h"

#include "testing/cluster.h"
#include "testing/testing.h"
#include <gradwire.h>
#include <math.h>
#include <string.h>

enum { SEEDS = 10, SIZE = 3 };

// ---- Functions: two weights, of which the forward uses one --------------------------------------

typedef struct grads_layer {
    gw_tensor *w, *unused;
} grads_layer;

GW_CLASS(grads_layer, open_layer, "float");

static void open_layer(gw_scope *own, grads_layer *self, const gw_args *a) {
    self->w = gw_requires_grad(own, gw_full(own, GW_F64, gw_arg_float(own, a, 0), SIZE));
    self->unused = gw_requires_grad(own, gw_ones(own, GW_F64, SIZE));
}

GW_METHOD(grads_layer, forward, GW_INLINE, "tensor") {
    return gw_value_of(gw_mul(s, self->w, gw_arg_tensor(s, a, 0)));
}

GW_METHOD(grads_layer, weight, GW_INLINE, "") {
    return gw_value_of(gw_rref_open(s, self->w));
}

// The gradient's sum, found by its index among all.
GW_METHOD(grads_layer, grads_get, GW_INLINE, "") {
    if (gw_grads_count(s) != 1) return gw_value_of(-1.0);
    gw_tensor_grad g = gw_grads_get(s, 0);
    bool same = g.leaf == self->w && !gw_grad_find(s, self->unused);
    return gw_value_of(same ? gw_item(s, gw_sum(s, g.grad)) : -2.0);
}

GW_METHOD(grads_layer, grads_get_beyond, GW_INLINE, "") {
    gw_grads_get(s, gw_grads_count(s));
    return gw_none();
}

GW_METHOD(grads_layer, grad, GW_INLINE, "") {
    return gw_value_of(gw_grad(s, self->w));
}

// The body begins a pass of its own, whose gradients are added; with true, after it has read them.
GW_METHOD(grads_layer, regularise, GW_INLINE, "bool") {
    if (gw_arg_bool(s, a, 0)) (void)gw_grads_count(s);
    gw_backward(s, gw_sum(s, gw_mul(s, self->w, self->w)));
    return gw_value_of(gw_item(s, gw_sum(s, gw_grad(s, self->w))));
}

// How many passes of the caller have gradients here.
GW_METHOD(grads_layer, passes, GW_INLINE, "") {
    agent *here = s->agent;
    int count = 0;
    (void)self;
    env_enter(here->env);
    list_each(l, &graphs_of(here)->passes) count++;
    env_leave(here->env);
    return gw_value_of(count);
}

// The count of the weight, less its object's.
GW_METHOD(grads_layer, holders, GW_INLINE, "") {
    return gw_value_of((int)((gw_handle *)self->w)->count);
}

static void run_two(cluster_main *main, void *context) {
    for (uint64_t seed = 1; seed <= (uint64_t)testing_scaled(SEEDS); seed++)
        cluster_run(seed, (cluster_options){ .world_size = 2 }, main, context);
}

static gw_rref *open_remote_layer(gw_scope *s) {
    return gw_remote(s, "w1", "grads_layer", 2.0);
}

// d w is |by| at each element.
static void walk(gw_scope *s, gw_rref *layer, double by) {
    gw_tensor *x = gw_full(s, GW_F64, by, SIZE);
    gw_backward(s, gw_sum(s, gw_tensor_of(s, gw_rpc_sync(s, layer, "forward", x))));
}

static double call_number(gw_scope *s, gw_rref *layer, const char *method) {
    double x = gw_float_of(s, gw_rpc_sync(s, layer, method));
    if (!gw_ok(s)) fail_msg("%s", gw_scope_error(s)->text);
    return x;
}

// ---- Reading ------------------------------------------------------------------------------------

static void count_them(gw_scope *root, int rank, void *context) {
    (void)context;
    if (rank) return;
    gw_rref *layer = open_remote_layer(root);
    gw_scope *s = gw_scope_open(root);
    walk(s, layer, 5);
    walk(s, layer, 1);
    assert_true(call_number(s, layer, "grads_get") == SIZE * 6);
    gw_rpc_sync(s, layer, "grads_get_beyond");
    assert_int_equal(gw_scope_error(s)->status, GW_INVALID);
    assert_non_null(strstr(gw_scope_error(s)->text, "gradient 1 is out of range for 1 gradients"));
    gw_scope_clear(s);
    gw_scope *other = gw_scope_open(root);
    assert_true(call_number(other, layer, "grads_get") == -1);
    gw_scope_close_up(other);
    gw_scope_close_up(s);
}

static void a_function_counts_those_of_its_callers_scope(void **state) {
    (void)state;
    run_two(count_them, NULL);
}

static void walk_remote_too(gw_scope *root, int rank, void *context) {
    (void)context;
    if (rank) return;
    gw_rref *layer = open_remote_layer(root);
    for (int reads_first = 0; reads_first < 2; reads_first++) {
        gw_scope *s = gw_scope_open(root);
        walk(s, layer, 5);
        gw_value sum = gw_rpc_sync(s, layer, "regularise", (bool)reads_first);
        assert_true(gw_float_of(s, sum) == SIZE * (5 + 2 * 2));
        assert_true(call_number(s, layer, "grads_get") == SIZE * 5);
        gw_scope_close_up(s);
    }
}

static void a_pass_of_a_function_adds_to_them(void **state) {
    (void)state;
    run_two(walk_remote_too, NULL);
}

// ---- Sums ---------------------------------------------------------------------------------------

// Values whose sum depends on the order.
static double value_of(int i) {
    return (i % 2 ? 1.1 : -0.3) * (i * i % 7 + 1) / 3;
}

static void walk_often(gw_scope *root, int rank, void *context) {
    int passes = *(int *)context;
    if (rank) return;
    gw_rref *layer = open_remote_layer(root);
    for (int round = 0; round < 2; round++) {
        gw_scope *s = gw_scope_open(root);
        double sum = 0;
        int most = 0;
        for (int i = 0; i < passes; i++) {
            walk(s, layer, value_of(i));
            sum += value_of(i);
            int kept = (int)gw_int_of(s, gw_rpc_sync(s, layer, "passes"));
            if (kept > most) most = kept;
        }
        const double *g = gw_data(gw_tensor_of(s, gw_rpc_sync(s, layer, "grad")));
        for (int i = 0; i < SIZE; i++) assert_true(g[i] == sum);
        assert_in_range(most, 1, 3);
        gw_scope_close_up(s);
    }
}

static void passes_that_are_over_are_kept_as_their_sum(void **state) {
    (void)state;
    run_two(walk_often, &(int){ 40 });
}

// More passes than a worker may store.
static void walk_beyond_limit(gw_scope *root, int rank, void *context) {
    (void)context;
    if (rank) return;
    gw_rref *layer = open_remote_layer(root);
    gw_scope *s = gw_scope_open(root);
    int passes = LIMIT_PASSES_PER_PEER + 3;
    gw_tensor *x = gw_ones(s, GW_F64, SIZE);
    for (int i = 0; i < passes && gw_ok(s); i++) {
        gw_scope *inside = gw_scope_open(s);
        gw_tensor *y = gw_tensor_of(inside, gw_rpc_sync(inside, layer, "forward", x));
        gw_backward(s, gw_sum(inside, y));
        gw_scope_close_up(inside);
    }
    assert_true(call_number(s, layer, "grads_get") == (double)SIZE * passes);
    gw_scope_close_up(s);
}

static void a_scope_has_any_number_of_passes(void **state) {
    (void)state;
    cluster_run(1, (cluster_options){ .world_size = 2 }, walk_beyond_limit, NULL);
}

// ---- Freeing ------------------------------------------------------------------------------------

// A settled pass is freed a little later.
static void expect_holders(gw_scope *s, gw_rref *layer, int count) {
    for (int i = 0; i < 100 && gw_int_of(s, gw_rpc_sync(s, layer, "holders")) != count; i++) {
    }
    assert_int_equal(gw_int_of(s, gw_rpc_sync(s, layer, "holders")), count);
}

static void clip_after_passes(gw_scope *root, int rank, void *context) {
    int passes = *(int *)context;
    if (rank) return;
    gw_rref *layer = open_remote_layer(root);
    gw_list *params = gw_list_open(root);
    gw_list_add(root, params, gw_rref_of(root, gw_rpc_sync(root, layer, "weight")));
    int before = (int)gw_int_of(root, gw_rpc_sync(root, layer, "holders"));
    gw_scope *s = gw_scope_open(root);
    for (int i = 0; i < passes; i++) walk(s, layer, 3);
    assert_float_equal(gw_clip_grad_norm(s, params, 1), 3 * passes * sqrt(SIZE), 1e-9);
    walk(s, layer, 3);
    assert_float_equal(call_number(s, layer, "grads_get"), sqrt(SIZE) + SIZE * 3, 1e-5);
    gw_scope_close_up(s);
    expect_holders(root, layer, before);
}

static void clipping_releases_the_replaced_gradients(void **state) {
    (void)state;
    for (int passes = 1; passes < 5; passes++) run_two(clip_after_passes, &passes);
}

// ---- Too early ----------------------------------------------------------------------------------

// A weight that is not made before |ready| is set.
GW_FUNCTION(gradients_weight, GW_POOL, "tensor") {
    return gw_value_of(gw_requires_grad(s, gw_clone(s, gw_arg_tensor(s, a, 0))));
}

static void assert_fails(gw_scope *s, gw_status status, const char *words) {
    const gw_error *e = gw_scope_error(s);
    assert_int_equal(e->status, status);
    if (!strstr(e->text, words)) fail_msg("\"%s\" does not contain \"%s\"", e->text, words);
    gw_scope_clear(s);
}

static void read_too_early(gw_scope *root, int rank, void *context) {
    (void)context;
    if (rank) return;
    gw_future *ready = gw_future_open(root);
    gw_rref *w = gw_remote(root, 1, "gradients_weight", ready);
    gw_rref_grad(root, w);
    assert_fails(root, GW_NOT_FOUND, "no backward pass in this scope has reached this tensor");
    gw_future_set(root, ready, gw_ones(root, GW_F32, 3));
    gw_backward(root, gw_sum(root, gw_mul(root, gw_to_here(root, w), 2.0)));
    assert_true(gw_item(root, gw_mean(root, gw_rref_grad(root, w))) == 2);
    assert_true(gw_ok(root));
}

static void a_value_that_is_not_made_has_no_gradient(void **state) {
    (void)state;
    cluster_run(1, (cluster_options){ .world_size = 2 }, read_too_early, NULL);
}

static void read_none(gw_scope *root, int rank, void *context) {
    (void)context;
    if (rank) return;
    gw_rref_grad(root, NULL);
    assert_fails(root, GW_INVALID, "the reference is NULL");
    gw_scope *failed = gw_scope_open(root);
    gw_fail(failed, GW_INVALID, "something else");
    gw_rref_grad(root, gw_remote(failed, 1, "gradients_weight", gw_ones(root, GW_F32, 3)));
    assert_fails(root, GW_INVALID,
                 "the reference is the result of a call that failed in another scope");
    assert_int_equal(gw_scope_close(failed).status, GW_INVALID);
}

static void no_reference_has_no_gradient(void **state) {
    (void)state;
    cluster_run(1, (cluster_options){ .world_size = 2 }, read_none, NULL);
}

GW_TESTS(distributed_gradients, a_value_that_is_not_made_has_no_gradient,
         no_reference_has_no_gradient, a_function_counts_those_of_its_callers_scope,
         a_pass_of_a_function_adds_to_them, passes_that_are_over_are_kept_as_their_sum,
         a_scope_has_any_number_of_passes, clipping_releases_the_replaced_gradients);
