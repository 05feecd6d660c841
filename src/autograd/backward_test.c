#include "testing/testing.h"

#include "tensor/ops/op.h"
#include <gradwire/autograd.h>
#include <gradwire/ops.h>

#include <string.h>

// A leaf of |count| numbers that wants a gradient.
#define leaf(s, ...)                                                                               \
    leaf_of((s), sizeof((float[]){ __VA_ARGS__ }) / sizeof(float), (float[]){ __VA_ARGS__ })
static gw_tensor *leaf_of(gw_scope *s, size_t count, const float *values) {
    return gw_requires_grad(s, gw_from(s, values, (int64_t)count));
}

#define assert_values(s, x, ...) assert_all((s), (x), (float[]){ __VA_ARGS__ })
static void assert_all(gw_scope *s, gw_tensor *x, const float *expected) {
    assert_true(gw_ok(s));
    assert_true(gw_is_contiguous(x));
    for (int64_t i = 0; i < gw_numel(x); i++)
        assert_float_equal(((const float *)gw_data(x))[i], expected[i], 1e-6);
}

// Closes |s|, which must have failed so.
static void assert_fails(gw_scope *s, gw_status status, const char *words) {
    gw_error e = gw_scope_close(s);
    assert_int_equal(e.status, status);
    if (!strstr(e.text, words)) fail_msg("\"%s\" does not contain \"%s\"", e.text, words);
}

static void assert_closes(gw_scope *s) {
    gw_error e = gw_scope_close(s);
    if (e.status) fail_msg("%s", e.text);
}

// ---- Results of a pass -----------------------------------------------------------------------
static void it_finds_the_gradient_of_a_product(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *a = leaf(s, 2, 3), *b = leaf(s, 5, 7);
    gw_backward(s, gw_sum(s, gw_mul(s, a, b)));
    assert_values(s, gw_grad(s, a), 5, 7);
    assert_values(s, gw_grad(s, b), 2, 3);
    assert_closes(s);
}

static void it_adds_the_parts_of_a_value_used_several_times(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *x = leaf(s, 2, 3);
    gw_tensor *square = gw_mul(s, x, x);
    gw_tensor *y = gw_add(s, gw_add(s, square, square), gw_mul(s, x, 10.0));  // 2 x^2 + 10 x
    gw_backward(s, gw_sum(s, y));
    assert_values(s, gw_grad(s, x), 18, 22);
    assert_closes(s);
}

static void it_starts_from_a_given_gradient(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *x = leaf(s, 1, 2, 3);
    gw_tensor *gradient = gw_from(s, ((double[]){ 1, 10, 100 }), 3);  // converted
    gw_backward(s, gw_mul(s, x, 2.0), .gradient = gradient);
    assert_values(s, gw_grad(s, x), 2, 20, 200);
    assert_int_equal(gw_dtype_of(gw_grad(s, x)), GW_F32);
    assert_closes(s);
}

static void it_gives_a_leaf_that_is_the_loss_a_gradient_of_1(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *x = leaf(s, 4);
    gw_backward(s, x);
    assert_values(s, gw_grad(s, x), 1);
    assert_closes(s);
}

static void it_gives_gradients_the_leafs_shape_and_dtype(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *row = gw_requires_grad(s, gw_ones(s, GW_F32, 1, 3));
    gw_tensor *table = gw_requires_grad(s, gw_ones(s, GW_F64, 2, 3));
    gw_backward(s, gw_sum(s, gw_mul(s, row, table)));
    gw_tensor *d = gw_grad(s, row);
    assert_int_equal(gw_dtype_of(d), GW_F32);
    assert_int_equal(gw_dims(d), 2);
    assert_int_equal(gw_size(d, 0), 1);
    assert_values(s, d, 2, 2, 2);
    assert_int_equal(gw_dtype_of(gw_grad(s, table)), GW_F64);
    assert_closes(s);
}

static void it_adds_up_over_passes_in_one_scope(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *x = leaf(s, 2, 3);
    gw_backward(s, gw_sum(s, gw_mul(s, x, x)));
    gw_tensor *first = gw_grad(s, x);
    gw_backward(s, gw_sum(s, gw_mul(s, x, 10.0)));
    assert_values(s, gw_grad(s, x), 14, 16);
    assert_values(s, first, 4, 6);  // a requested gradient stays
    assert_int_equal(gw_grads_count(s), 1);
    assert_closes(s);
}

static void it_keeps_scopes_apart(void **state) {
    (void)state;
    gw_scope *root = gw_scope_open(NULL);
    gw_tensor *x = leaf(root, 2, 3);
    gw_scope *one = gw_scope_open(root), *two = gw_scope_open(root);
    gw_backward(one, gw_sum(one, gw_mul(one, x, 10.0)));
    gw_backward(two, gw_sum(two, gw_mul(two, x, x)));
    assert_values(one, gw_grad(one, x), 10, 10);
    assert_values(two, gw_grad(two, x), 4, 6);
    assert_null(gw_grad_find(root, x));
    assert_closes(root);
}

static void it_gives_leaves_of_one_gradient_values_of_their_own(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *a = leaf(s, 1, 2), *b = leaf(s, 3, 4), *gradient = gw_ones(s, GW_F32, 2);
    gw_backward(s, gw_add(s, a, b), .gradient = gradient);
    ((float *)gw_data_for_write(s, gw_grad(s, a)))[0] = 50;
    ((float *)gw_data_for_write(s, gradient))[1] = 60;
    assert_values(s, gw_grad(s, a), 50, 1);
    assert_values(s, gw_grad(s, b), 1, 1);
    assert_closes(s);
}

static void it_gives_the_same_bits_for_the_same_inputs(void **state) {
    (void)state;
    float first[64];
    for (int run = 0; run < 3; run++) {
        gw_scope *s = gw_scope_open(NULL);
        gw_seed(s, 7);
        gw_tensor *x = gw_requires_grad(s, gw_randn(s, GW_F32, 64));
        gw_tensor *y = gw_mul(s, x, x);
        for (int i = 0; i < 20; i++) y = gw_add(s, gw_mul(s, y, 0.3), gw_mul(s, x, y));
        gw_backward(s, gw_sum(s, y));
        const float *grad = gw_data(gw_grad(s, x));
        if (run == 0) memcpy(first, grad, sizeof first);
        assert_memory_equal(first, grad, sizeof first);
        assert_closes(s);
    }
}

// ---- Which paths it walks -----------------------------------------------------------------------
static void only_the_given_inputs_get_gradients(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *a = leaf(s, 2, 3), *b = leaf(s, 5, 7);
    gw_tensor *product = gw_mul(s, a, b), *loss = gw_sum(s, gw_mul(s, product, product));
    gw_backward(s, loss, .inputs = (gw_tensor *const[]){ b, product }, .input_count = 2);
    assert_values(s, gw_grad(s, b), 40, 126);       // 2 a b a
    assert_values(s, gw_grad(s, product), 20, 42);  // 2 a b
    assert_null(gw_grad_find(s, a));
    assert_int_equal(gw_grads_count(s), 2);
    assert_closes(s);
}

static int derivative_count;

static void infer_same(op_call *c) {
    const gw_tensor *x = arg_tensor(c->args, 0);
    op_output(c, (gw_dtype)x->dtype, x->dims, x->sizes);
}
static void compute_copy(op_call *c) {
    const gw_tensor *x = arg_tensor(c->args, 0);
    memcpy(storage_writable(c->outputs[0]->storage), tensor_bytes(x),
           (size_t)x->numel * sizeof(float));
}
static void grad_counted(op_grad *g) {
    derivative_count++;
    g->d_inputs[0] = g->d_outputs[0];
}
static const op counted = { .name = "counted",
                            .params = "x:tensor",
                            .infer = infer_same,
                            .compute = compute_copy,
                            .grad = grad_counted };

static gw_tensor *count(gw_scope *s, gw_tensor *x) {
    return op_run(s, &counted, (const gw_value[]){ gw_value_of(x) }, 1, NULL);
}

static void it_runs_only_nodes_that_lead_to_an_input(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *a = leaf(s, 2), *b = leaf(s, 5);
    gw_tensor *loss = gw_mul(s, count(s, count(s, a)), count(s, b));
    derivative_count = 0;
    gw_backward(s, loss, .inputs = &b, .input_count = 1, .retain_graph = true);
    assert_int_equal(derivative_count, 1);
    derivative_count = 0;
    gw_backward(s, loss);
    assert_int_equal(derivative_count, 3);
    assert_values(s, gw_grad(s, b), 4);
    assert_closes(s);
}

static void it_does_nothing_for_an_input_it_does_not_reach(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *a = leaf(s, 2), *b = leaf(s, 5);
    gw_tensor *loss = count(s, a);
    derivative_count = 0;
    gw_backward(s, loss, .inputs = &b, .input_count = 1);
    assert_true(gw_ok(s));
    assert_int_equal(derivative_count, 0);
    assert_int_equal(gw_grads_count(s), 0);
    assert_closes(s);
}

static void it_runs_a_node_once_however_many_paths_lead_to_it(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *a = leaf(s, 1), *x = a;
    for (int i = 0; i < 40; i++) {  // 2^40 paths
        x = count(s, x);
        x = gw_add(s, x, x);
    }
    derivative_count = 0;
    gw_backward(s, gw_mul(s, x, 0x1p-40));
    assert_int_equal(derivative_count, 40);
    assert_values(s, gw_grad(s, a), 1);
    assert_closes(s);
}

// ---- Graphs -------------------------------------------------------------------------------------
static void it_walks_and_destroys_a_chain_of_a_million(void **state) {
    (void)state;
    int length = testing_scaled(1000000);
    gw_scope *root = gw_scope_open(NULL);
    gw_tensor *x = leaf(root, 1), *y = NULL;
    gw_set(root, &y, x);
    for (int i = 0; i < length; i++) {
        gw_scope *s = gw_scope_open(root);
        gw_set(root, &y, gw_add(s, y, 1.0));
        gw_scope_close_up(s);
    }
    gw_backward(root, y);
    assert_values(root, gw_grad(root, x), 1);
    assert_closes(root);
}

static void it_destroys_a_long_chain_that_no_pass_went_through(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *y = leaf(s, 1);
    for (int i = 0; i < testing_scaled(200000); i++) y = gw_mul(s, y, y);
    assert_closes(s);
}

static void it_releases_saved_values_without_retain_graph(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *x = leaf(s, 3);
    gw_tensor *loss = gw_mul(s, x, x);
    gw_backward(s, loss, .retain_graph = true);
    gw_backward(s, loss);
    assert_values(s, gw_grad(s, x), 12);
    gw_tensor *other = gw_add(s, loss, gw_mul(s, x, 2.0));
    gw_backward(s, other);
    assert_int_equal(gw_scope_error(s)->status, GW_WRONG_STATE);
    gw_scope_clear(s);
    assert_values(s, gw_grad(s, x), 12);  // as it was
    gw_backward(s, loss);
    assert_fails(s, GW_WRONG_STATE, "gw.mul");
}

static void it_walks_again_through_operators_that_save_nothing(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *x = leaf(s, 3);
    gw_tensor *loss = gw_add(s, x, 1.0);
    gw_backward(s, loss);
    gw_backward(s, loss);
    assert_values(s, gw_grad(s, x), 2);
    assert_closes(s);
}

static void it_uses_the_values_at_the_time_of_recording(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *x = leaf(s, 3), *factor = gw_from(s, ((float[]){ 5 }), 1);
    gw_tensor *y = gw_mul(s, x, factor), *z = gw_mul(s, y, y);
    ((float *)gw_data_for_write(s, factor))[0] = 1000;
    ((float *)gw_data_for_write(s, y))[0] = 1000;
    ((float *)gw_data_for_write(s, x))[0] = 1000;
    gw_backward(s, z);
    assert_values(s, gw_grad(s, x), 2 * 15 * 5);
    assert_float_equal(((const float *)gw_data(y))[0], 1000, 0);
    assert_closes(s);
}

static void it_outlives_the_scopes_it_was_recorded_in(void **state) {
    (void)state;
    gw_scope *root = gw_scope_open(NULL);
    gw_tensor *x = leaf(root, 3), *loss = NULL;
    gw_scope *s = gw_scope_open(root);
    gw_set(root, &loss, gw_mul(s, gw_mul(s, x, x), x));
    gw_scope_close_up(s);
    gw_backward(root, loss);
    assert_values(root, gw_grad(root, x), 27);
    assert_closes(root);
}

// ---- Bad input ----------------------------------------------------------------------------------
static void backward_requires_one_number_or_a_gradient(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_backward(s, gw_mul(s, leaf(s, 1, 2), 2.0));
    assert_fails(s, GW_INVALID, "backward: the tensor has 2 elements");
}

static void the_loss_must_need_a_gradient(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_backward(s, gw_ones(s, GW_F32));
    assert_fails(s, GW_INVALID, "backward: this tensor needs no gradient");
    s = gw_scope_open(NULL);
    gw_backward(s, NULL);
    assert_fails(s, GW_INVALID, "backward: no tensor");
}

static void the_given_gradient_must_have_the_shape_of_the_loss(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *y = gw_mul(s, leaf(s, 1, 2), 2.0);
    gw_backward(s, y, .gradient = gw_ones(s, GW_F32, 1, 2));
    assert_fails(s, GW_INVALID, "backward: the gradient is 1x2, but the tensor is 2");
}

static void the_given_gradient_must_be_floating(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *y = gw_mul(s, leaf(s, 1), 2.0);
    gw_backward(s, y, .gradient = gw_ones(s, GW_I64, 1));
    assert_fails(s, GW_INVALID, "i64");
}

static void inputs_must_need_gradients(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *x = gw_ones(s, GW_F32, 1);
    gw_backward(s, leaf(s, 1), .inputs = &x, .input_count = 1);
    assert_fails(s, GW_INVALID, "input 0");

    s = gw_scope_open(NULL);
    gw_backward(s, leaf(s, 1), .inputs = &x, .input_count = -1);
    assert_fails(s, GW_INVALID, "backward: .input_count is -1");
    s = gw_scope_open(NULL);
    gw_backward(s, leaf(s, 1), .input_count = 2);
    assert_fails(s, GW_INVALID, "backward: .input_count is 2, but .inputs is NULL");
}

static void it_does_nothing_in_a_failed_scope(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *loss = gw_mul(s, leaf(s, 3), 2.0);
    gw_fail(s, GW_REMOTE, "something else");
    gw_backward(s, loss);
    assert_true(tensor_is_poison(gw_grad(s, loss)));
    assert_null(gw_grad_find(s, loss));
    assert_fails(s, GW_REMOTE, "something else");
}

static void grad_wrong_shape(op_grad *g) {
    g->d_inputs[0] = gw_ones(g->scope, GW_F32, 3, 3);
}
static const op wrong = { .name = "wrong",
                          .params = "x:tensor",
                          .infer = infer_same,
                          .compute = compute_copy,
                          .grad = grad_wrong_shape };

static void it_names_the_operator_whose_derivative_fails(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *x = leaf(s, 3);
    gw_tensor *y = op_run(s, &wrong, (const gw_value[]){ gw_value_of(x) }, 1, NULL);
    gw_backward(s, gw_add(s, y, x));
    assert_int_equal(gw_scope_error(s)->status, GW_INVALID);
    gw_scope_clear(s);
    assert_null(gw_grad_find(s, x));  // not even the part that arrived first
    gw_backward(s, y);
    assert_fails(s, GW_INVALID, "backward: gw.wrong: the derivative of argument 0");
}

static void train_a_little(void *context) {
    (void)context;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *x = leaf(s, 2, 3), *y = x;
    for (int i = 0; i < 12; i++) y = gw_mul(s, gw_add(s, y, x), 0.5);
    gw_backward(s, gw_sum(s, y), .retain_graph = true);
    gw_backward(s, gw_sum(s, y), .inputs = &x, .input_count = 1);
    gw_grad(s, x);
    gw_error e = gw_scope_close(s);
    (void)e;
}

static void it_survives_any_failing_allocation(void **state) {
    (void)state;
    testing_alloc_failure_loop(train_a_little, NULL);
}

GW_TESTS(autograd_backward, it_finds_the_gradient_of_a_product,
         it_adds_the_parts_of_a_value_used_several_times, it_starts_from_a_given_gradient,
         it_gives_a_leaf_that_is_the_loss_a_gradient_of_1,
         it_gives_gradients_the_leafs_shape_and_dtype, it_adds_up_over_passes_in_one_scope,
         it_keeps_scopes_apart, it_gives_leaves_of_one_gradient_values_of_their_own,
         it_gives_the_same_bits_for_the_same_inputs, only_the_given_inputs_get_gradients,
         it_runs_only_nodes_that_lead_to_an_input, it_does_nothing_for_an_input_it_does_not_reach,
         it_runs_a_node_once_however_many_paths_lead_to_it,
         it_walks_and_destroys_a_chain_of_a_million,
         it_destroys_a_long_chain_that_no_pass_went_through,
         it_releases_saved_values_without_retain_graph,
         it_walks_again_through_operators_that_save_nothing,
         it_uses_the_values_at_the_time_of_recording, it_outlives_the_scopes_it_was_recorded_in,
         backward_requires_one_number_or_a_gradient, the_loss_must_need_a_gradient,
         the_given_gradient_must_have_the_shape_of_the_loss, the_given_gradient_must_be_floating,
         inputs_must_need_gradients, it_does_nothing_in_a_failed_scope,
         it_names_the_operator_whose_derivative_fails, it_survives_any_failing_allocation);
