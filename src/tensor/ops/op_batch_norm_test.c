#include "testing/op_expect.h"

#include <math.h>

// Channel |i| of N C L by the definition.
static void check_channel(const gw_tensor *x, const gw_tensor *y, int64_t i, double tolerance) {
    int64_t n = x->sizes[0], c = x->sizes[1], l = x->sizes[2];
    double mean = 0, variance = 0;
    for (int64_t k = 0; k < n * l; k++)
        mean += element(x, (k / l * c + i) * l + k % l) / (double)(n * l);
    for (int64_t k = 0; k < n * l; k++)
        variance += pow(element(x, (k / l * c + i) * l + k % l) - mean, 2) / (double)(n * l);
    for (int64_t k = 0; k < n * l; k++) {
        int64_t at = (k / l * c + i) * l + k % l;
        double z = (element(x, at) - mean) / sqrt(variance + 1e-3);
        expect_near(element(y, at), z * (double)(i + 1) - 0.5, tolerance);
    }
}

// Short runs, long runs, and runs of several leaves of a sum.
static void it_is_the_definition(void **state) {
    (void)state;
    static const gw_dtype dtypes[] = { GW_F32, GW_F64, GW_F16 };
    static const double tolerances[] = { 4e-6, 1e-12, 1e-2 };
    static const int64_t lengths[] = { 1, 5, 16, 33, 1500 };
    for (int d = 0; d < 3; d++)
        for (int i = 0; i < 5; i++) {
            gw_scope *s = gw_scope_open(NULL);
            gw_tensor *x = gw_randn(s, GW_F64, 3, 4, lengths[i]);
            x = gw_to_dtype(s, gw_add(s, gw_mul(s, x, 2.0), 1.0), dtypes[d]);
            gw_tensor *weight = gw_arange(s, dtypes[d], 1, 5, 1);
            gw_tensor *bias = gw_full(s, dtypes[d], -0.5, 4);
            gw_batch_norm_options options =
                GW_OPTIONS(gw_batch_norm_options, .training = true, .eps = 1e-3);
            gw_tensor *y = gw_batch_norm_with(s, x, weight, bias, options);
            assert_string_equal(gw_scope_error(s)->text, "");
            for (int64_t c = 0; c < 4; c++) check_channel(x, y, c, tolerances[d]);
            gw_scope_close_up(s);
        }
}

static void running_ones_follow_in_training_only(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *x = gw_view(s, gw_from(s, ((double[]){ 1, 10, 2, 20, 3, 30 }), 6), 3, 2);
    gw_tensor *mean = gw_zeros(s, GW_F64, 2), *variance = gw_ones(s, GW_F64, 2);
    gw_batch_norm_options options =
        GW_OPTIONS(gw_batch_norm_options, .running_mean = mean, .running_var = variance);
    gw_batch_norm_with(s, x, NULL, NULL, options);
    expect_values(s, mean, (double[]){ 0, 0 }, 0);
    options.training = true;
    gw_batch_norm_with(s, gw_requires_grad(s, x), NULL, NULL, options);
    expect_values(s, mean, (double[]){ 0.2, 2 }, 1e-12);
    expect_values(s, variance, (double[]){ 0.9 + 0.1, 0.9 + 10 }, 1e-12);
    options.momentum = 0.5;
    gw_batch_norm_with(s, x, NULL, NULL, options);
    expect_values(s, mean, (double[]){ 1.1, 11 }, 1e-12);
    options.momentum = 0;
    gw_batch_norm_with(s, x, NULL, NULL, options);
    expect_values(s, mean, (double[]){ 1.1, 11 }, 1e-12);
    assert_false(gw_needs_grad(mean));
    gw_scope_close_up(s);
}

static void nothing_changes_nothing(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *mean = gw_ones(s, GW_F32, 3), *variance = gw_ones(s, GW_F32, 3);
    gw_batch_norm_options options = GW_OPTIONS(gw_batch_norm_options, .running_mean = mean,
                                               .running_var = variance, .training = true);
    gw_tensor *w = gw_requires_grad(s, gw_ones(s, GW_F32, 3));
    gw_tensor *y = gw_batch_norm_with(s, gw_zeros(s, GW_F32, 0, 3, 4), w, NULL, options);
    expect_shape(s, y, "0x3x4");
    gw_backward(s, gw_sum(s, y));
    expect_values(s, gw_grad(s, w), (double[]){ 0, 0, 0 }, 0);
    expect_values(s, mean, (double[]){ 1, 1, 1 }, 0);
    gw_scope_close_up(s);
}

static void it_refuses_invalid_arguments(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_batch_norm_options train = GW_OPTIONS(gw_batch_norm_options, .training = true),
                          eval = GW_OPTIONS(gw_batch_norm_options);
    gw_tensor *x = gw_zeros(s, GW_F32, 2, 3);
    gw_batch_norm_with(s, gw_zeros(s, GW_F32, 3), NULL, NULL, train);
    expect_fails(s, "gw.batch_norm: input 3 has no channels: it must be N C or N C ...");
    gw_batch_norm_with(s, gw_zeros(s, GW_I64, 2, 3), NULL, NULL, train);
    expect_fails(
        s, "gw.batch_norm: i64 is not a float dtype, but must be one; gw_to_dtype converts it");
    gw_batch_norm_with(s, x, gw_zeros(s, GW_F32, 2), NULL, train);
    expect_fails(s, "gw.batch_norm: weight is 2 of f32, but must be 3 of f32");
    gw_batch_norm_with(s, x, NULL, gw_zeros(s, GW_F64, 3), train);
    expect_fails(s, "gw.batch_norm: bias is 3 of f64, but must be 3 of f32");
    gw_batch_norm_with(s, x, NULL, NULL, eval);
    expect_fails(s, "gw.batch_norm: without .training running_mean and running_var must be given");
    eval.running_mean = eval.running_var = gw_zeros(s, GW_I64, 3);
    gw_batch_norm_with(s, x, NULL, NULL, eval);
    expect_fails(s, "gw.batch_norm: running_mean is 3 of i64, but must be 3 of f32");
    gw_batch_norm_with(s, gw_zeros(s, GW_F32, 1, 3, 1), NULL, NULL, train);
    expect_fails(s, "gw.batch_norm: 1x3x1 has only one number for each channel: training must have "
                    "more to compute a variance");
    gw_scope_close_up(s);
}

static void train_once(void *context) {
    (void)context;
    gw_scope *s = gw_scope_open(NULL);
    gw_batch_norm_options options =
        GW_OPTIONS(gw_batch_norm_options, .running_mean = gw_zeros(s, GW_F32, 2),
                   .running_var = gw_ones(s, GW_F32, 2), .training = true);
    gw_tensor *x = gw_requires_grad(s, gw_randn(s, GW_F16, 3, 2, 2));
    gw_backward(s, gw_sum(s, gw_batch_norm_with(s, x, NULL, NULL, options)));
    gw_error error = gw_scope_close(s);
    assert_true(error.status == GW_OK || error.status == GW_NO_MEMORY);
}

static void it_survives_without_memory(void **state) {
    (void)state;
    testing_alloc_failure_loop(train_once, NULL);
}

// In evaluation it is a line, whose slope does not depend on its input.
static void an_infinite_input_has_a_gradient_in_evaluation(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *x = gw_requires_grad(s, gw_view(s, gw_from(s, ((float[]){ INFINITY, 1 }), 2), 2, 1));
    gw_tensor *y = gw_batch_norm(s, x, NULL, NULL, .running_mean = gw_zeros(s, GW_F32, 1),
                                 .running_var = gw_full(s, GW_F32, 4, 1), .eps = 0);
    gw_backward(s, gw_sum(s, y));
    assert_true(gw_equal(s, gw_grad(s, x), gw_full(s, GW_F32, 0.5, 2, 1)));
    assert_int_equal(gw_scope_close(s).status, GW_OK);
}

GW_TESTS(tensor_op_batch_norm, an_infinite_input_has_a_gradient_in_evaluation, it_is_the_definition,
         running_ones_follow_in_training_only, nothing_changes_nothing,
         it_refuses_invalid_arguments, it_survives_without_memory);
