// Random values: their bounds, means, deviations and kinds of distribution; PyTorch's bits cannot
// be had.
#include "testing/testing.h"

#include <gradwire/autograd.h>
#include <gradwire/nn.h>

#include <math.h>

static double largest(gw_scope *s, gw_tensor *x) {
    return gw_item(s, gw_max(s, gw_abs(s, x)));
}

static double fourth_moment(gw_scope *s, gw_tensor *x) {
    return gw_item(s, gw_mean(s, gw_pow(s, x, 4)));
}

// Uniform between -|bound| and |bound|: the deviation is the half width / sqrt 3.
static void expect_uniform(gw_scope *s, gw_tensor *x, double bound) {
    assert_true(gw_ok(s));
    assert_true(largest(s, x) <= bound * (1 + 1e-6) && largest(s, x) > 0.99 * bound);
    double error = 6 / sqrt((double)gw_numel(x));
    assert_float_equal(gw_item(s, gw_mean(s, x)), 0, bound * error);
    assert_float_equal(gw_item(s, gw_std(s, x)), bound / sqrt(3), bound * error);
}

// Normal: its fourth moment is three times the square of its second.
static void expect_normal(gw_scope *s, gw_tensor *x, double mean, double std) {
    assert_true(gw_ok(s));
    double error = 6 / sqrt((double)gw_numel(x));
    assert_float_equal(gw_item(s, gw_mean(s, x)), mean, std * error);
    assert_float_equal(gw_item(s, gw_std(s, x)), std, std * error);
    gw_tensor *unit = gw_div(s, gw_sub(s, x, mean), std);
    assert_float_equal(fourth_moment(s, unit), 3, error * sqrt(96));
}

// ---- In general ---------------------------------------------------------------------------------
static void it_writes_into_parameters(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_module *m = gw_nn_linear(s, 3, 2);
    gw_tensor *w = gw_module_parameter_get(s, m, "weight");
    gw_tensor *y = gw_module_call(s, m, gw_ones(s, GW_F32, 3));
    assert_ptr_equal(gw_init_constant(s, w, 2), w);
    gw_init_zeros(s, gw_module_parameter_get(s, m, "bias"));
    assert_true(gw_item(s, gw_sum(s, w)) == 12);
    assert_true(gw_item(s, gw_sum(s, gw_module_call(s, m, gw_ones(s, GW_F32, 3)))) == 12);
    // Nothing was recorded, and earlier results keep the old values.
    gw_backward(s, gw_sum(s, y));
    assert_true(gw_item(s, gw_sum(s, gw_grad(s, w))) == 6);
    gw_init_ones(s, gw_select(s, gw_detach(s, w), 0, 1));
    assert_string_equal(gw_to_text(s, gw_detach(s, w)),
                        "tensor([[2., 2., 2.],\n        [1., 1., 1.]])");
    assert_int_equal(gw_scope_close(s).status, GW_OK);
}

static void the_same_seed_gives_the_same_values(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *x[3];
    for (int i = 0; i < 3; i++) {
        gw_seed(s, i < 2 ? 7 : 8);
        x[i] = gw_init_orthogonal(s, gw_zeros(s, GW_F32, 4, 3), 1);
        gw_add(s, x[i], gw_init_trunc_normal(s, gw_zeros(s, GW_F32, 4, 3), 0, 1, -2, 2));
    }
    assert_true(gw_equal(s, x[0], x[1]));
    assert_false(gw_equal(s, x[0], x[2]));
    assert_int_equal(gw_scope_close(s).status, GW_OK);
}

static void expect_fails(gw_scope *s, const gw_tensor *x, const char *text) {
    assert_string_equal(gw_scope_error(s)->text, text);
    assert_int_equal(gw_scope_error(s)->status, GW_INVALID);
    gw_init_normal(s, (gw_tensor *)x, 0, 1);  // nothing happens
    gw_scope_clear(s);
}

static void invalid_targets_are_errors(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *x = gw_init_uniform(s, gw_zeros(s, GW_I64, 3), 0, 1);
    expect_fails(s, x, "gw_init_uniform: i64 is not a float");
    gw_tensor *bias = gw_zeros(s, GW_F32, 3), *weight = gw_zeros(s, GW_F32, 3, 2, 2);
    gw_init_kaiming_uniform(s, bias, 0, GW_FAN_IN, GW_GAIN_RELU);
    expect_fails(s, bias, "gw_init_kaiming_uniform: x has 1 dimensions, but must have at least 2");
    gw_init_eye(s, weight);
    expect_fails(s, weight, "gw_init_eye: x has 3 dimensions, but must be a matrix");
    gw_init_dirac(s, weight, 2);
    expect_fails(s, weight, "gw_init_dirac: 3 channels cannot be divided equally among 2 groups");
    gw_init_sparse(s, gw_zeros(s, GW_F32, 2, 2), 1.5, 1);
    expect_fails(s, weight, "gw_init_sparse: sparsity 1.5 is not between 0 and 1");
    gw_init_trunc_normal(s, weight, 0, 1, 2, -2);
    expect_fails(s, weight,
                 "gw_init_trunc_normal: the deviation 1 must be above 0, and the bound 2 below the "
                 "bound -2");
    assert_true(largest(s, weight) == 0);
    assert_int_equal(gw_scope_close(s).status, GW_OK);
}

// ---- Distributions ------------------------------------------------------------------------------
static void uniform_and_normal_have_their_moments(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    const gw_dtype dtypes[] = { GW_F32, GW_F64, GW_F16 };
    for (int i = 0; i < 3; i++) {
        gw_tensor *x = gw_zeros(s, dtypes[i], 200, 300);
        gw_init_uniform(s, x, 2, 6);
        expect_uniform(s, gw_sub(s, gw_to_dtype(s, x, GW_F64), 4), 2);
        gw_init_normal(s, x, 1, 3);
        expect_normal(s, gw_to_dtype(s, x, GW_F64), 1, 3);
    }
    assert_int_equal(gw_scope_close(s).status, GW_OK);
}

// Mean and variance by the formulae of the truncated normal distribution.
static void check_truncated(gw_scope *s, double mean, double std, double a, double b) {
    gw_tensor *x = gw_init_trunc_normal(s, gw_zeros(s, GW_F64, 60000), mean, std, a, b);
    assert_true(gw_item(s, gw_min(s, x)) >= a && gw_item(s, gw_max(s, x)) <= b);
    double low = (a - mean) / std, high = (b - mean) / std;
    double part = 0.5 * (erf(high / sqrt(2)) - erf(low / sqrt(2)));
    double d_low = exp(-low * low / 2) / sqrt(2 * M_PI),
           d_high = exp(-high * high / 2) / sqrt(2 * M_PI);
    double shift = (d_low - d_high) / part;
    double variance = 1 + (low * d_low - high * d_high) / part - shift * shift;
    double error = 6 * std * sqrt(variance / 60000);
    assert_float_equal(gw_item(s, gw_mean(s, x)), mean + std * shift, error);
    assert_float_equal(gw_item(s, gw_std(s, x)), std * sqrt(variance), 2 * error);
}

static void truncated_normal_numbers_stay_within_bounds(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    check_truncated(s, 0, 1, -2, 2);
    check_truncated(s, 1, 2, 0, 1.5);
    check_truncated(s, 0, 1, 2, 3);    // from one end
    check_truncated(s, 0, 1, -4, -1);  // and the other
    gw_tensor *x = gw_init_trunc_normal(s, gw_zeros(s, GW_F32, 60000), 1, 2, -100, 100);
    expect_normal(s, x, 1, 2);  // nothing is cut off
    assert_int_equal(gw_scope_close(s).status, GW_OK);
}

static void gains_are_pytorch_s(void **state) {
    (void)state;
    assert_true(gw_calculate_gain(GW_GAIN_LINEAR, 0) == 1 &&
                gw_calculate_gain(GW_GAIN_SIGMOID, 0) == 1);
    assert_float_equal(gw_calculate_gain(GW_GAIN_TANH, 0), 1.6666666666666667, 1e-15);
    assert_float_equal(gw_calculate_gain(GW_GAIN_RELU, 0), 1.4142135623730951, 1e-15);
    assert_float_equal(gw_calculate_gain(GW_GAIN_LEAKY_RELU, 0.01), 1.4141428569978354, 1e-15);
    assert_float_equal(gw_calculate_gain(GW_GAIN_LEAKY_RELU, 2), 0.6324555320336759, 1e-15);
    assert_true(gw_calculate_gain(GW_GAIN_SELU, 0) == 0.75);
}

// Of a convolution from 30 to 50 channels with a window of 3 by 4: fan in 360, fan out 600.
static void bounds_follow_the_numbers_of_inputs_and_outputs(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *x = gw_zeros(s, GW_F32, 50, 30, 3, 4);
    expect_uniform(s, gw_init_xavier_uniform(s, x, 2), 2 * sqrt(6.0 / 960));
    expect_normal(s, gw_init_xavier_normal(s, x, 2), 0, 2 * sqrt(2.0 / 960));
    expect_uniform(s, gw_init_kaiming_uniform(s, x, 0, GW_FAN_IN, GW_GAIN_LEAKY_RELU),
                   sqrt(6.0 / 360));
    expect_uniform(s, gw_init_kaiming_uniform(s, x, sqrt(5), GW_FAN_IN, GW_GAIN_LEAKY_RELU),
                   sqrt(1.0 / 360));
    expect_normal(s, gw_init_kaiming_normal(s, x, 0, GW_FAN_OUT, GW_GAIN_RELU), 0, sqrt(2.0 / 600));
    expect_normal(s, gw_init_kaiming_normal(s, x, 0, GW_FAN_OUT, GW_GAIN_TANH), 0,
                  5 / 3.0 / sqrt(600));
    assert_int_equal(gw_scope_close(s).status, GW_OK);
}

// ---- Matrices -----------------------------------------------------------------------------------
static void check_orthogonal(gw_scope *s, gw_tensor *x, double tolerance) {
    gw_tensor *m =
        gw_to_dtype(s, gw_reshape(s, gw_init_orthogonal(s, x, 3), gw_size(x, 0), -1), GW_F64);
    bool tall = gw_size(m, 0) > gw_size(m, 1);
    gw_tensor *across = gw_transpose(s, m, 0, 1);
    gw_tensor *product = tall ? gw_matmul(s, across, m) : gw_matmul(s, m, across);
    gw_tensor *eye = gw_init_eye(s, gw_zeros(s, GW_F64, gw_size(product, 0), gw_size(product, 0)));
    assert_true(gw_allclose(s, gw_div(s, product, 9), eye, .rtol = 0, .atol = tolerance));
}

static void orthogonal_matrices_are_orthogonal(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    check_orthogonal(s, gw_zeros(s, GW_F64, 30, 20), 1e-13);
    check_orthogonal(s, gw_zeros(s, GW_F64, 20, 30), 1e-13);
    check_orthogonal(s, gw_zeros(s, GW_F32, 8, 2, 2, 2), 1e-6);
    gw_init_orthogonal(s, gw_zeros(s, GW_F32, 0, 3), 1);
    // Of a single number the sign alone is random: both occur.
    double sum = 0;
    for (int i = 0; i < 40; i++)
        sum += gw_item(s, gw_init_orthogonal(s, gw_zeros(s, GW_F64, 1, 1), 1));
    assert_true(fabs(sum) < 40);
    assert_int_equal(gw_scope_close(s).status, GW_OK);
}

static void eye_and_dirac_keep_their_input(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *eye = gw_init_eye(s, gw_ones(s, GW_F32, 2, 3));
    assert_string_equal(gw_to_text(s, eye), "tensor([[1., 0., 0.],\n        [0., 1., 0.]])");
    gw_tensor *x = gw_randn(s, GW_F32, 1, 4, 5, 6);
    gw_conv_options same = GW_OPTIONS(gw_conv_options, .padding = { 1, 1 });
    gw_tensor *w = gw_init_dirac(s, gw_ones(s, GW_F32, 4, 4, 3, 3), 1);
    assert_true(gw_equal(s, gw_conv2d_with(s, x, w, NULL, same), x));
    same.groups = 2;
    w = gw_init_dirac(s, gw_ones(s, GW_F32, 4, 2, 3, 3), 2);
    assert_true(gw_equal(s, gw_conv2d_with(s, x, w, NULL, same), x));
    assert_int_equal(gw_scope_close(s).status, GW_OK);
}

static void sparse_columns_have_as_many_zeros(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *x = gw_init_sparse(s, gw_zeros(s, GW_F64, 999, 40), 0.2, 0.01);
    gw_tensor *zeros = gw_sum(s, gw_eq(s, x, 0), .dim = 0);
    assert_true(gw_item(s, gw_min(s, zeros)) == 200 && gw_item(s, gw_max(s, zeros)) == 200);
    gw_tensor *rest = gw_index_select(s, gw_reshape(s, x, -1), 0,
                                      gw_reshape(s, gw_nonzero(s, gw_reshape(s, x, -1)), -1));
    expect_normal(s, rest, 0, 0.01);
    // Not the same rows in every column.
    assert_true(gw_item(s, gw_max(s, gw_sum(s, gw_eq(s, x, 0), .dim = 1))) < 40);
    assert_int_equal(gw_scope_close(s).status, GW_OK);
}

GW_TESTS(nn_initializer, it_writes_into_parameters, the_same_seed_gives_the_same_values,
         invalid_targets_are_errors, uniform_and_normal_have_their_moments,
         truncated_normal_numbers_stay_within_bounds, gains_are_pytorch_s,
         bounds_follow_the_numbers_of_inputs_and_outputs, orthogonal_matrices_are_orthogonal,
         eye_and_dirac_keep_their_input, sparse_columns_have_as_many_zeros);
