// Passes over the graphs of several workers, in the simulator.
#include "distributed/autograd/distributed_pass.h"

#include "testing/cluster.h"
#include "testing/testing.h"
#include <gradwire.h>
#include <string.h>

enum { SEEDS = 30, TO_AND_FRO = 700 };

static uint64_t seed_count(void) {
    return (uint64_t)testing_scaled(SEEDS);
}

// ---- Functions ----------------------------------------------------------------------------------

// The weights of one worker: a leaf w in a scope of its own.
typedef struct dist_layer {
    gw_scope *own;
    gw_tensor *w;
} dist_layer;

GW_CLASS(dist_layer, open_layer, "float");

static void open_layer(gw_scope *own, dist_layer *self, const gw_args *a) {
    self->own = own;
    self->w = gw_requires_grad(own, gw_full(own, GW_F32, gw_arg_float(own, a, 0), 3));
}

GW_METHOD(dist_layer, forward, GW_INLINE, "tensor") {
    return gw_value_of(gw_mul(s, self->w, gw_arg_tensor(s, a, 0)));
}

GW_METHOD(dist_layer, grad_sum, GW_INLINE, "") {
    return gw_value_of(gw_item(s, gw_sum(s, gw_grad(s, self->w))));
}

GW_METHOD(dist_layer, grads_count, GW_INLINE, "") {
    return gw_value_of(gw_grads_count(s));
}

// Sends x through the layer of |next| and its own.
GW_METHOD(dist_layer, through, GW_POOL, "rref, tensor") {
    gw_tensor *y =
        gw_tensor_of(s, gw_rpc_sync(s, gw_arg_rref(s, a, 0), "forward", gw_arg_tensor(s, a, 1)));
    return gw_value_of(gw_mul(s, self->w, y));
}

static gw_value square(gw_scope *s, gw_value v, void *context) {
    (void)context;
    gw_tensor *y = gw_tensor_of(s, v);
    return gw_value_of(gw_mul(s, y, y));
}

// The output of the layer for x, squared in a continuation, so that no thread waits for it.
GW_FUNCTION(dist_square_later, GW_INLINE, "rref, tensor") {
    gw_future *y = gw_rpc_async(s, gw_arg_rref(s, a, 0), "forward", gw_arg_tensor(s, a, 1));
    return gw_value_of(gw_then(s, y, square, NULL));
}

static double sum_of_grad(gw_scope *s, gw_tensor *x) {
    return gw_item(s, gw_sum(s, gw_grad(s, x)));
}

// ---- Tests --------------------------------------------------------------------------------------

static void walk_round_trip(gw_scope *root, int rank, void *context) {
    (void)context;
    if (rank) return;
    gw_rref *layer = gw_remote(root, "w1", "dist_layer", 2.0);
    gw_tensor *x = gw_requires_grad(root, gw_full(root, GW_F32, 5.0, 3));
    for (int step = 0; step < 3; step++) {
        gw_scope *s = gw_scope_open(root);
        gw_tensor *y = gw_tensor_of(s, gw_rpc_sync(s, layer, "forward", x));
        assert_true(gw_needs_grad(y));
        gw_backward(s, gw_sum(s, gw_mul(s, y, y)));
        assert_true(sum_of_grad(s, x) == 3 * 2 * 10 * 2);
        assert_true(gw_float_of(s, gw_rpc_sync(s, layer, "grad_sum")) == 3 * 2 * 10 * 5);
        gw_scope_close_up(s);
        assert_true(gw_ok(root));
    }
}

static void it_walks_to_another_worker_and_back(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= seed_count(); seed++)
        cluster_run(seed, (cluster_options){ .world_size = 2 }, walk_round_trip, NULL);
}

static void walk_three(gw_scope *root, int rank, void *context) {
    (void)context;
    if (rank) return;
    gw_rref *first = gw_remote(root, "w1", "dist_layer", 2.0);
    gw_rref *second = gw_remote(root, "w2", "dist_layer", 3.0);
    gw_tensor *x = gw_requires_grad(root, gw_full(root, GW_F32, 1.0, 3));
    gw_scope *s = gw_scope_open(root);
    gw_tensor *y = gw_tensor_of(s, gw_rpc_sync(s, first, "through", second, x));
    gw_backward(s, gw_sum(s, y));
    assert_true(sum_of_grad(s, x) == 18);
    assert_true(gw_float_of(s, gw_rpc_sync(s, first, "grad_sum")) == 9);
    assert_true(gw_float_of(s, gw_rpc_sync(s, second, "grad_sum")) == 6);
    gw_scope_close_up(s);
}

static void it_walks_through_calls_that_calls_have_made(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= seed_count(); seed++)
        cluster_run(seed, (cluster_options){ .world_size = 3 }, walk_three, NULL);
}

static void walk_callbacks(gw_scope *root, int rank, void *context) {
    (void)context;
    if (rank) return;
    gw_rref *layer = gw_remote(root, "w2", "dist_layer", 3.0);
    gw_tensor *x = gw_requires_grad(root, gw_full(root, GW_F32, 1.0, 3));
    gw_scope *s = gw_scope_open(root);
    gw_future *f = gw_rpc_async(s, "w1", "dist_square_later", layer, x);
    gw_tensor *z = gw_tensor_of(s, gw_wait(s, gw_then(s, f, square, NULL)));
    gw_backward(s, gw_sum(s, z));
    // z is (w x)^4
    assert_true(gw_ok(s));
    assert_true(sum_of_grad(s, x) == 3 * 4 * 27 * 3);
    assert_true(gw_float_of(s, gw_rpc_sync(s, layer, "grad_sum")) == 3 * 4 * 27);
    gw_scope_close_up(s);
}

static void it_walks_through_local_and_remote_callbacks(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= seed_count(); seed++)
        cluster_run(seed, (cluster_options){ .world_size = 3 }, walk_callbacks, NULL);
}

static void leave_some_unused(gw_scope *root, int rank, void *context) {
    (void)context;
    if (rank) return;
    gw_rref *layer = gw_remote(root, "w1", "dist_layer", 2.0);
    gw_tensor *x = gw_requires_grad(root, gw_full(root, GW_F32, 1.0, 3));
    gw_scope *s = gw_scope_open(root);
    gw_tensor *used = gw_tensor_of(s, gw_rpc_sync(s, layer, "forward", x));
    gw_rpc_sync(s, layer, "forward", x);
    gw_tensor *again = gw_tensor_of(s, gw_rpc_sync(s, layer, "forward", used));
    gw_rpc_sync(s, layer, "forward", again);
    gw_backward(s, gw_sum(s, used));
    assert_true(gw_ok(s));
    assert_true(sum_of_grad(s, x) == 6);

    // PyTorch's rule does not wait for ever here.
    gw_tensor *y = gw_tensor_of(s, gw_rpc_sync(s, layer, "forward", x));
    gw_backward(s, gw_sum(s, y), .fast = true);
    assert_int_equal(gw_scope_error(s)->status, GW_INVALID);
    assert_non_null(
        strstr(gw_scope_error(s)->text, "FAST mode expects a gradient of every sent tensor"));
    gw_error ignored = gw_scope_close(s);
    (void)ignored;
}

// PyTorch's test_backward_unused_send_function asserts that it waits for ever.
static void it_does_not_wait_for_tensors_that_the_loss_does_not_use(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= seed_count(); seed++)
        cluster_run(seed, (cluster_options){ .world_size = 2 }, leave_some_unused, NULL);
}

static void fetch_and_sum(gw_scope *root, int rank, void *context) {
    (void)context;
    if (rank) return;
    gw_rref *layer = gw_remote(root, "w1", "dist_layer", 2.0);
    gw_tensor *x = gw_requires_grad(root, gw_full(root, GW_F32, 1.0, 3));
    gw_scope *s = gw_scope_open(root);
    gw_rref *ry = gw_remote(s, "w2", "gw.add", x, gw_rpc_async(s, layer, "forward", x));
    gw_tensor *y = gw_to_here(s, ry), *again = gw_to_here(s, ry);
    gw_backward(s, gw_sum(s, gw_add(s, y, again)), .retain_graph = true);
    assert_true(sum_of_grad(s, x) == 2 * (3 + 6));
    assert_true(gw_float_of(s, gw_rpc_sync(s, layer, "grad_sum")) == 6);
    gw_backward(s, gw_sum(s, gw_to_here(s, ry)));
    assert_true(sum_of_grad(s, x) == 3 * (3 + 6));
    gw_backward(s, gw_sum(s, gw_to_here(s, ry)));
    assert_int_equal(gw_scope_error(s)->status, GW_WRONG_STATE);
    assert_non_null(strstr(gw_scope_error(s)->text, "set .retain_graph in that pass"));
    gw_error ignored = gw_scope_close(s);
    (void)ignored;
}

static void it_walks_through_references_promises_and_operators(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= seed_count(); seed++)
        cluster_run(seed, (cluster_options){ .world_size = 3 }, fetch_and_sum, NULL);
}

static void leave_nothing(gw_scope *root, int rank, void *context) {
    (void)context;
    if (rank == 0) {
        gw_rref *layer = gw_remote(root, "w1", "dist_layer", 2.0);
        gw_tensor *x = gw_requires_grad(root, gw_full(root, GW_F32, 1.0, 3));
        for (int step = 0; step < 5; step++) {
            gw_scope *s = gw_scope_open(root);
            gw_tensor *y = gw_tensor_of(s, gw_rpc_sync(s, layer, "forward", x));
            if (step % 2) gw_backward(s, gw_sum(s, y));
            gw_scope_close_up(s);
        }
    }
    gw_rpc_barrier(root,
                   (const gw_worker[]){ gw_rpc_worker(root, "w0"), gw_rpc_worker(root, "w1") }, 2);
    gw_scope *s = gw_scope_open(root);
    agent *a = root->agent;
    for (int i = 0; i < 50 && (graphs_of(a)->sends.count || !list_is_empty(&graphs_of(a)->passes));
         i++)
        gw_rpc_sync(s, rank ? "w0" : "w1", "gw.add", gw_ones(s, GW_F32, 1), 1.0);
    assert_int_equal(graphs_of(a)->sends.count, 0);
    assert_true(list_is_empty(&graphs_of(a)->passes));
    gw_error ignored = gw_scope_close(s);
    (void)ignored;
}

static void sends_and_passes_are_gone_with_their_scopes(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= seed_count(); seed++)
        cluster_run(seed, (cluster_options){ .world_size = 2 }, leave_nothing, NULL);
}

// Each reply of w1 contains two marks.
static void walk_to_and_fro(gw_scope *root, int rank, void *context) {
    (void)context;
    if (rank) return;
    gw_tensor *x = gw_requires_grad(root, gw_ones(root, GW_F64, 1)), *y = x;
    for (int i = 0; i < TO_AND_FRO && gw_ok(root); i++)
        y = gw_tensor_of(root, gw_rpc_sync(root, "w1", "gw.add", gw_mul(root, y, 1.0), x));
    gw_backward(root, gw_sum(root, y));
    assert_true(sum_of_grad(root, x) == TO_AND_FRO + 1);
    assert_true(gw_ok(root));
}

static void a_graph_may_cross_two_workers_many_times(void **state) {
    (void)state;
    cluster_run(1, (cluster_options){ .world_size = 2 }, walk_to_and_fro, NULL);
}

GW_TESTS(distributed_backward, it_walks_to_another_worker_and_back,
         a_graph_may_cross_two_workers_many_times, it_walks_through_calls_that_calls_have_made,
         it_walks_through_local_and_remote_callbacks,
         it_does_not_wait_for_tensors_that_the_loss_does_not_use,
         it_walks_through_references_promises_and_operators,
         sends_and_passes_are_gone_with_their_scopes);
