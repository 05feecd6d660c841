// Distributed passes: how many messages they cost, how large their graphs may be, their errors,
// and their behaviour without memory.
#include "distributed/autograd/distributed_pass.h"

#include "runtime/runtime.h"
#include "testing/cluster.h"
#include "testing/testing.h"
#include <gradwire.h>
#include <string.h>

// ---- Functions ----------------------------------------------------------------------------------

typedef struct passes_layer {
    gw_tensor *w;  // 3 2
} passes_layer;

GW_CLASS(passes_layer, open_layer);

static void open_layer(gw_scope *own, passes_layer *self, const gw_args *a) {
    (void)a;
    self->w = gw_requires_grad(own, gw_full(own, GW_F32, 2.0, 3, 2));
}

GW_METHOD(passes_layer, forward, GW_INLINE, "tensor") {
    return gw_value_of(gw_mul(s, self->w, gw_arg_tensor(s, a, 0)));
}

GW_METHOD(passes_layer, weight, GW_INLINE, "") {
    return gw_value_of(self->w);
}

GW_METHOD(passes_layer, grad, GW_INLINE, "") {
    return gw_value_of(gw_grad(s, self->w));
}

// A graph of |n| nodes.
GW_FUNCTION(passes_chain, GW_INLINE, "tensor, int") {
    gw_tensor *x = gw_arg_tensor(s, a, 0);
    for (int64_t i = gw_arg_int(s, a, 1); i-- > 0;) x = gw_neg(s, x);
    return gw_value_of(x);
}

GW_FUNCTION(passes_wait_inline, GW_INLINE, "tensor") {
    gw_backward(s, gw_sum(s, gw_arg_tensor(s, a, 0)));
    return gw_none();
}

static gw_tensor *forward(gw_scope *s, gw_rref *layer, gw_tensor *x) {
    return gw_tensor_of(s, gw_rpc_sync(s, layer, "forward", x));
}

static gw_tensor *open_input(gw_scope *s) {
    return gw_requires_grad(s, gw_ones(s, GW_F32, 3, 2));
}

static void run_two(cluster_main *main) {
    cluster_run(1, (cluster_options){ .world_size = 2 }, main, NULL);
}

static void expect_error(gw_scope *s, gw_status status, const char *text) {
    assert_int_equal(gw_scope_error(s)->status, status);
    if (!strstr(gw_scope_error(s)->text, text)) fail_msg("%s", gw_scope_error(s)->text);
    gw_scope_clear(s);
}

// ---- Cost ---------------------------------------------------------------------------------------

// Request and reply, a gradient each way, done, and the end of the scope.
static void count_messages(gw_scope *root, int rank, void *context) {
    (void)context;
    if (rank) return;
    gw_rref *layer = gw_remote(root, "w1", "passes_layer");
    gw_tensor *x = open_input(root);
    gw_rpc_stats before = { 0 };
    for (int step = 0; step < 8; step++) {
        if (step == 3) before = gw_rpc_get_stats(root);
        gw_scope *s = gw_scope_open(root);
        gw_backward(s, gw_sum(s, forward(s, layer, x)));
        gw_scope_close_up(s);
    }
    gw_rpc_stats after = gw_rpc_get_stats(root);
    assert_int_equal(after.messages_sent - before.messages_sent, 3 * 5);
    assert_in_range(after.messages_received - before.messages_received, 3 * 5 - 1, 3 * 5);
    assert_int_equal(graphs_of(root->agent)->mark_calls, 0);
}

static void a_steady_step_costs_six_messages(void **state) {
    (void)state;
    run_two(count_messages);
}

// ---- Large graphs -------------------------------------------------------------------------------

static void walk_many(gw_scope *root, int rank, void *context) {
    (void)context;
    if (rank) return;
    gw_tensor *x = open_input(root), *y = x;
    gw_scope *s = gw_scope_open(root);
    for (int i = 0; i < 300; i++) y = gw_tensor_of(s, gw_rpc_sync(s, "w1", "passes_chain", y, 2));
    gw_backward(s, gw_sum(s, y));
    assert_true(gw_item(s, gw_sum(s, gw_grad(s, x))) == 6);
    // The marks of these calls are complete in their messages, two each, so gw.marks is not called.
    assert_in_range(graphs_of(root->agent)->mark_calls, 1, 2 * (300 - LIMIT_MARKS / 2));
    gw_scope_close_up(s);
}

// One branch is too deep for the walk of a message, and many are not.
static void walk_wide(gw_scope *root, int rank, void *context) {
    (void)context;
    if (rank) return;
    gw_tensor *x = open_input(root);
    gw_scope *s = gw_scope_open(root);
    gw_tensor *sum = gw_zeros(s, GW_F32, 3, 2);
    for (int i = 0; i < 20; i++) {
        int length = i == 7 ? 2 * LIMIT_UPSTREAM_NODES : 2;
        gw_tensor *y = gw_tensor_of(s, gw_rpc_sync(s, "w1", "passes_chain", x, length));
        y = gw_tensor_of(s, gw_rpc_sync(s, "w1", "passes_chain", y, 2));
        sum = gw_add(s, sum, y);
    }
    gw_backward(s, gw_sum(s, sum));
    assert_true(gw_item(s, gw_sum(s, gw_grad(s, x))) == 6 * 20);
    assert_in_range(graphs_of(root->agent)->mark_calls, 1, 3);
    gw_scope_close_up(s);
}

static void it_sends_requests_only_for_unknown_upstreams(void **state) {
    (void)state;
    run_two(walk_wide);
}

static void it_requests_marks_that_no_message_could_carry(void **state) {
    (void)state;
    run_two(walk_many);
}

static void walk_deep(gw_scope *root, int rank, void *context) {
    (void)context;
    if (rank) return;
    gw_tensor *x = open_input(root);
    gw_scope *s = gw_scope_open(root);
    gw_tensor *y =
        gw_tensor_of(s, gw_rpc_sync(s, "w1", "passes_chain", x, 3 * LIMIT_UPSTREAM_NODES));
    gw_backward(s, gw_sum(s, gw_tensor_of(s, gw_rpc_sync(s, "w1", "passes_chain", y, 1))));
    assert_true(gw_item(s, gw_sum(s, gw_grad(s, x))) == -6);
    assert_true(graphs_of(root->agent)->mark_calls > 0);
    gw_scope_close_up(s);
}

static void it_sends_a_request_if_a_graph_is_too_deep_to_walk(void **state) {
    (void)state;
    run_two(walk_deep);
}

static void keep_rows(gw_scope *root, int rank, void *context) {
    (void)context;
    if (rank) return;
    gw_rref *layer = gw_remote(root, "w1", "passes_layer");
    gw_scope *s = gw_scope_open(root);
    gw_tensor *w = gw_tensor_of(s, gw_rpc_sync(s, layer, "weight"));
    gw_tensor *rows = gw_from(s, ((int64_t[]){ 2, 0, 2 }), 3);
    gw_tensor *y = gw_embedding(s, w, rows, .sparse = true);
    gw_backward(s, gw_sum(s, y));
    gw_tensor *g = gw_tensor_of(s, gw_rpc_sync(s, layer, "grad"));
    assert_int_equal(gw_numel(gw_rows_indices(s, g)), 2);
    assert_true(gw_item(s, gw_sum(s, gw_rows_values(s, g))) == 6);
    gw_scope_close_up(s);
}

static void gradients_of_rows_stay_rows(void **state) {
    (void)state;
    run_two(keep_rows);
}

// ---- Refusals -----------------------------------------------------------------------------------

static void misuse(gw_scope *root, int rank, void *context) {
    (void)context;
    if (rank) return;
    gw_rref *layer = gw_remote(root, "w1", "passes_layer");
    gw_tensor *x = open_input(root);
    gw_scope *s = gw_scope_open(root);
    gw_tensor *y = forward(s, layer, x);
    gw_backward(s, y);
    expect_error(s, GW_INVALID, "backward: the tensor has 6 elements, not one");
    gw_backward(s, gw_sum(s, gw_detach(s, y)));
    expect_error(s, GW_INVALID, "backward: this tensor needs no gradient");
    gw_scope *foreign = gw_scope_open(NULL);
    gw_backward(foreign, gw_sum(s, y));
    expect_error(foreign, GW_INVALID,
                 "the graph leads to other workers, but the scope belongs to another agent");
    gw_scope_close_up(foreign);
    gw_rpc_sync(s, "w1", "passes_wait_inline", y);
    expect_error(s, GW_WOULD_BLOCK, "w1: passes_wait_inline: ");
    gw_backward(s, gw_sum(s, y));
    assert_true(gw_ok(s));
    gw_backward(s, gw_sum(s, y));
    expect_error(s, GW_WRONG_STATE, "set .retain_graph in the first pass");
    gw_backward(s, gw_sum(s, forward(s, layer, x)), .gradient = gw_ones(s, GW_F32, 2));
    expect_error(s, GW_INVALID, "backward: the gradient is");
    gw_scope_close_up(s);
}

static void invalid_arguments_are_errors(void **state) {
    (void)state;
    run_two(misuse);
}

static void walk_after_shutdown(gw_scope *root, int rank, void *context) {
    (void)context;
    if (rank) {
        gw_rpc_shutdown(root);
        return;
    }
    gw_rref *layer = gw_remote(root, "w1", "passes_layer");
    gw_tensor *y = forward(root, layer, open_input(root));
    gw_rpc_shutdown(root);
    gw_backward(root, gw_sum(root, y));
    assert_false(gw_ok(root));
    assert_non_null(strstr(gw_scope_error(root)->text, "backward: "));
    gw_scope_clear(root);
}

static void it_ends_at_once_after_shutdown(void **state) {
    (void)state;
    cluster_run(1, (cluster_options){ .world_size = 2, .fails = true }, walk_after_shutdown, NULL);
}

// ---- Without memory -----------------------------------------------------------------------------

static void try_passes(gw_scope *root, int rank, void *context) {
    (void)context;
    if (rank) return;
    gw_scope *s = gw_scope_open(root);
    gw_rref *layer = gw_remote(s, "w1", "passes_layer");
    for (int i = 0; i < 2; i++) {
        gw_scope *step = gw_scope_open(s);
        gw_scope_set_timeout(step, 2000);
        gw_tensor *x = open_input(step), *y = forward(step, layer, forward(step, layer, x));
        gw_backward(step, gw_sum(step, y));
        double sum = gw_item(step, gw_sum(step, gw_ok(step) ? gw_grad(step, x) : x));
        if (gw_ok(step)) assert_true(sum == 24);
        gw_error error = gw_scope_close(step);
        (void)error;
    }
    gw_error error = gw_scope_close(s);
    (void)error;
}

typedef struct worker {
    env *env;
    int rank;
} worker;

static void run_worker(void *arg) {
    const worker *w = arg;
    int rank = w->rank;
    gw_scope *root = gw_scope_open(NULL);
    runtime_open_on(root, w->env, true,
                    GW_OPTIONS(gw_rpc_options, .name = rank ? "w1" : "w0", .rank = rank,
                               .world_size = 2, .join_timeout_ms = 20000, .timeout_ms = 5000,
                               .threads = 1, .init_method = "tcp://127.0.0.1:29500"));
    if (gw_ok(root)) try_passes(root, rank, NULL);
    gw_rpc_shutdown(root);
    gw_error ignored = gw_scope_close(root);
    (void)ignored;
}

static void run_job(void *context) {
    (void)context;
    worker workers[2];
    sim *s = sim_open(1, (sim_options){ .interleave_per_million = -1 });
    if (!s) return;
    int opened = 0;
    for (; opened < 2; opened++) {
        workers[opened] = (worker){ sim_env(s, opened), opened };
        if (!workers[opened].env || !sim_spawn(s, opened, run_worker, &workers[opened])) break;
    }
    if (opened == 2) assert_true(sim_run(s, 600 * SIM_SECOND));
    sim_close(s);
}

static void it_survives_failing_allocations(void **state) {
    (void)state;
    testing_alloc_failure_loop(run_job, NULL);
}

GW_TESTS_WITH_LIMIT(distributed_passes, 120, a_steady_step_costs_six_messages,
                    it_sends_requests_only_for_unknown_upstreams,
                    it_requests_marks_that_no_message_could_carry,
                    it_sends_a_request_if_a_graph_is_too_deep_to_walk, gradients_of_rows_stay_rows,
                    invalid_arguments_are_errors, it_ends_at_once_after_shutdown,
                    it_survives_failing_allocations);
