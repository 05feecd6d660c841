#include "testing/testing.h"

#include <gradwire/autograd.h>
#include <gradwire/nn.h>

#include <math.h>
#include <string.h>

// ---- Linear -------------------------------------------------------------------------------------
static void linear_multiplies_and_adds(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_module *m = gw_nn_linear(s, 3, 2);
    gw_tensor *x = gw_randn(s, GW_F32, 4, 5, 3), *y = gw_module_call(s, m, x);
    assert_int_equal(gw_dims(y), 3);
    assert_int_equal(gw_size(y, -1), 2);
    gw_tensor *w = gw_module_parameter_get(s, m, "weight"),
              *b = gw_module_parameter_get(s, m, "bias");
    gw_tensor *expected = gw_add(s, gw_matmul(s, x, gw_transpose(s, w, 0, 1)), b);
    assert_true(gw_allclose(s, y, expected, .rtol = 1e-5, .atol = 1e-6));
    assert_int_equal(gw_scope_close(s).status, GW_OK);
}

static void linear_may_do_without_a_bias(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_module *m = gw_nn_linear(s, 3, 2, .bias = false, .dtype = GW_F64);
    assert_int_equal(gw_module_parameter_count(m), 1);
    assert_int_equal(gw_dtype_of(gw_module_parameter_at(s, m, 0)), GW_F64);
    gw_tensor *y = gw_module_call(s, m, gw_zeros(s, GW_F64, 3));
    assert_true(gw_equal(s, y, gw_zeros(s, GW_F64, 2)));
    assert_int_equal(gw_scope_close(s).status, GW_OK);
}

static void assert_uniform(gw_scope *s, gw_tensor *x, double bound) {
    double low = gw_item(s, gw_min(s, x)), high = gw_item(s, gw_max(s, x));
    assert_true(low >= -bound && high <= bound);
    assert_true(low < -0.95 * bound && high > 0.95 * bound);
    assert_true(fabs(gw_item(s, gw_mean(s, x))) < 0.1 * bound);
    // The deviation of a uniform distribution is its half width / sqrt 3.
    assert_float_equal(gw_item(s, gw_std(s, x)), bound / sqrt(3), 0.1 * bound);
}

static void linear_starts_as_in_pytorch(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_module *m = gw_nn_linear(s, 100, 400);
    assert_uniform(s, gw_module_parameter_get(s, m, "weight"), 0.1);
    assert_uniform(s, gw_module_parameter_get(s, m, "bias"), 0.1);
    assert_int_equal(gw_scope_close(s).status, GW_OK);
}

static void the_same_seed_gives_the_same_weights(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *weights[3];
    for (int i = 0; i < 3; i++) {
        gw_seed(s, i < 2 ? 7 : 8);
        weights[i] = gw_module_parameter_at(s, gw_nn_linear(s, 5, 5), 0);
    }
    assert_true(gw_equal(s, weights[0], weights[1]));
    assert_false(gw_equal(s, weights[0], weights[2]));
    assert_int_equal(gw_scope_close(s).status, GW_OK);
}

static void linear_requires_sizes(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_module_call(s, gw_nn_linear(s, -1, 2), gw_ones(s, GW_F32, 2));
    gw_error e = gw_scope_close(s);
    assert_int_equal(e.status, GW_INVALID);
    assert_non_null(
        strstr(e.text, "gw_nn_linear: from -1 to 2 features: neither number may be negative"));
}

// ---- The others ---------------------------------------------------------------------------------
static void layers_are_their_operators(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *x = gw_randn(s, GW_F32, 3, 4);
    gw_module *const layers[] = { gw_nn_relu(s),       gw_nn_leaky_relu(s, 0.2),
                                  gw_nn_tanh(s),       gw_nn_sigmoid(s),
                                  gw_nn_gelu(s),       gw_nn_silu(s),
                                  gw_nn_softmax(s, -1) };
    gw_tensor *const expected[] = { gw_relu(s, x),       gw_leaky_relu(s, x, 0.2),
                                    gw_tanh(s, x),       gw_sigmoid(s, x),
                                    gw_gelu(s, x),       gw_silu(s, x),
                                    gw_softmax(s, x, -1) };
    for (int i = 0; i < 7; i++)
        assert_true(gw_equal(s, gw_module_call(s, layers[i], x), expected[i]));
    assert_int_equal(gw_scope_close(s).status, GW_OK);
}

static void dropout_drops_in_training_only(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_module *m = gw_nn_dropout(s, 0.25);
    gw_tensor *x = gw_ones(s, GW_F32, 10000), *y = gw_module_call(s, m, x);
    assert_float_equal(gw_item(s, gw_mean(s, gw_to_dtype(s, gw_eq(s, y, 0.0), GW_F32))), 0.25,
                       0.03);
    assert_float_equal(gw_item(s, gw_max(s, y)), 1 / 0.75, 1e-6);
    gw_module_eval(s, m);
    assert_true(gw_equal(s, gw_module_call(s, m, x), x));
    assert_int_equal(gw_scope_close(s).status, GW_OK);
}

static void dropout_requires_a_probability(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_nn_dropout(s, 1.5);
    gw_error e = gw_scope_close(s);
    assert_non_null(strstr(e.text, "p is 1.5, but must be a probability: 0 to 1"));
}

static void flatten_joins_dimensions(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *x = gw_randn(s, GW_F32, 2, 3, 4, 5);
    assert_true(gw_equal(s, gw_module_call(s, gw_nn_flatten(s), x), gw_reshape(s, x, 2, 60)));
    assert_true(gw_equal(s, gw_module_call(s, gw_nn_flatten(s, .start_dim = 0, .end_dim = -2), x),
                         gw_reshape(s, x, 24, 5)));
    assert_true(
        gw_equal(s, gw_module_call(s, gw_nn_flatten(s, .start_dim = -1, .end_dim = 3), x), x));
    gw_tensor *one = gw_module_call(s, gw_nn_flatten(s, .start_dim = 0), gw_ones(s, GW_F32));
    assert_true(gw_equal(s, one, gw_ones(s, GW_F32, 1)));
    assert_int_equal(gw_scope_close(s).status, GW_OK);
    s = gw_scope_open(NULL);
    gw_module_call(s, gw_nn_flatten(s), gw_ones(s, GW_F32, 3));
    gw_error e = gw_scope_close(s);
    assert_string_equal(
        e.text, "gw_nn_flatten: .start_dim 1 and .end_dim 0 do not fit an input of 1 dimensions");
}

static void sequential_calls_one_after_the_other(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_module *m = gw_nn_sequential(s, gw_nn_linear(s, 3, 5), gw_nn_tanh(s), gw_nn_linear(s, 5, 1));
    gw_tensor *x = gw_randn(s, GW_F32, 2, 3);
    gw_tensor *y = gw_module_call(s, gw_module_child(s, m, "0"), x);
    y = gw_module_call(s, gw_module_child(s, m, "2"), gw_tanh(s, y));
    assert_true(gw_equal(s, gw_module_call(s, m, x), y));
    gw_backward(s, gw_sum(s, gw_module_call(s, m, x)));
    assert_int_equal(gw_grads_count(s), 4);
    assert_int_equal(gw_scope_close(s).status, GW_OK);
}

GW_TESTS(nn_layer, linear_multiplies_and_adds, linear_may_do_without_a_bias,
         linear_starts_as_in_pytorch, the_same_seed_gives_the_same_weights, linear_requires_sizes,
         layers_are_their_operators, dropout_drops_in_training_only, dropout_requires_a_probability,
         flatten_joins_dimensions, sequential_calls_one_after_the_other);
