#include "testing/testing.h"

#include <gradwire/autograd.h>
#include <gradwire/nn.h>

#include <math.h>

static void convolutions_start_as_in_pytorch(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_module *m = gw_nn_conv2d(s, 8, 64, .kernel = { 3, 3 }, .groups = 2);
    gw_tensor *w = gw_module_parameter_get(s, m, "weight");
    assert_true(gw_equal(s, gw_zeros(s, GW_F32, 64, 4, 3, 3), gw_mul(s, w, 0.0)));
    double bound = 1 / sqrt(4 * 3 * 3), high = gw_item(s, gw_max(s, gw_abs(s, w)));
    assert_true(high <= bound && high > 0.95 * bound);
    assert_true(fabs(gw_item(s, gw_std(s, w)) - bound / sqrt(3)) < 0.05 * bound);
    gw_tensor *b = gw_module_parameter_get(s, m, "bias");
    high = gw_item(s, gw_max(s, gw_abs(s, b)));
    assert_true(high <= bound && high > 0.8 * bound);
    assert_int_equal(gw_scope_close(s).status, GW_OK);
}

static void kernels_may_be_longer_one_way(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_module *m = gw_nn_conv2d(s, 1, 2, .kernel = { 3, 1 }, .padding = { 1, 0 }, .bias = false,
                                .dtype = GW_F64);
    assert_int_equal(gw_module_parameter_count(m), 1);
    assert_int_equal(gw_size(gw_module_parameter_at(s, m, 0), 2), 3);
    assert_int_equal(gw_size(gw_module_parameter_at(s, m, 0), 3), 1);
    gw_tensor *y = gw_module_call(s, m, gw_zeros(s, GW_F64, 5, 1, 4, 4));
    assert_int_equal(gw_size(y, 1), 2);
    assert_int_equal(gw_size(y, 2), 4);
    assert_int_equal(gw_size(y, 3), 4);
    assert_int_equal(gw_scope_close(s).status, GW_OK);
}

// Of the kind that reads digits: every layer finds what the one before it gives.
static void a_small_network_learns(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_module *m = gw_nn_sequential(
        s, gw_nn_conv2d(s, 1, 4, .kernel = { 3, 3 }, .padding = { 1, 1 }), gw_nn_relu(s),
        gw_nn_max_pool2d(s, .kernel = { 2, 2 }), gw_nn_conv2d(s, 4, 8, .kernel = { 3, 3 }),
        gw_nn_adaptive_avg_pool2d(s, 1, 1), gw_nn_flatten(s), gw_nn_linear(s, 8, 3));
    gw_tensor *y = gw_module_call(s, m, gw_randn(s, GW_F32, 5, 1, 8, 8));
    assert_int_equal(gw_size(y, 0), 5);
    assert_int_equal(gw_size(y, 1), 3);
    gw_backward(s, gw_sum(s, y));
    assert_int_equal(gw_grads_count(s), 6);
    assert_int_equal(gw_scope_close(s).status, GW_OK);
}

static void sequences_are_pooled(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_pool_options two = GW_OPTIONS(gw_pool_options, .kernel = { 2, 2 });
    gw_tensor *x = gw_from(s, ((float[]){ 1, 2, 3, 6 }), 1, 4);
    gw_tensor *largest = gw_from(s, ((float[]){ 2, 6 }), 1, 2);
    gw_tensor *mean = gw_from(s, ((float[]){ 1.5, 4.5 }), 1, 2);
    assert_true(gw_equal(s, gw_module_call(s, gw_nn_max_pool1d_with(s, two), x), largest));
    assert_true(gw_equal(s, gw_module_call(s, gw_nn_avg_pool1d_with(s, two), x), mean));
    assert_true(gw_equal(s, gw_module_call(s, gw_nn_adaptive_avg_pool1d(s, 2), x), mean));
    assert_true(
        gw_equal(s, gw_module_call(s, gw_nn_avg_pool2d_with(s, two), gw_reshape(s, x, 1, 2, 2)),
                 gw_full(s, GW_F32, 3.0, 1, 1, 1)));
    gw_module *conv = gw_nn_conv1d(s, 1, 2, .kernel = { 3, 3 });
    assert_int_equal(gw_size(gw_module_call(s, conv, x), 1), 2);
    assert_int_equal(gw_scope_close(s).status, GW_OK);
}

static void assert_refused(int64_t in, int64_t out, gw_nn_conv_options options, const char *text) {
    gw_scope *s = gw_scope_open(NULL);
    gw_module_call(s, gw_nn_conv2d_with(s, in, out, options), gw_zeros(s, GW_F32, 1, 4, 4));
    gw_error e = gw_scope_close(s);
    assert_string_equal(e.text, text);
    assert_int_equal(e.status, GW_INVALID);
}

static void convolutions_that_cannot_be_are_refused(void **state) {
    (void)state;
    gw_nn_conv_options three = GW_OPTIONS(gw_nn_conv_options, .kernel = { 3, 3 });
    assert_refused(0, 2, three, "gw_nn_conv2d: from 0 to 2 channels");
    assert_refused(2, 2, GW_OPTIONS(gw_nn_conv_options), "gw_nn_conv2d: a kernel of 0");
    assert_refused(2, 2, GW_OPTIONS(gw_nn_conv_options, .kernel = { 3, -1 }),
                   "gw_nn_conv2d: a kernel of -1");
    assert_refused(4, 6, GW_OPTIONS(gw_nn_conv_options, .kernel = { 3, 3 }, .groups = 4),
                   "gw_nn_conv2d: from 4 to 6 channels in 4 groups");
    assert_refused(3, 2, three, "gw.conv2d: input of 1 channels, the weight wants 3");
}

static void convolve_once(void *context) {
    (void)context;
    gw_scope *s = gw_scope_open(NULL);
    gw_module *m = gw_nn_sequential(
        s, gw_nn_conv2d(s, 1, 2, .kernel = { 3, 3 }, .padding = { 1, 1 }),
        gw_nn_max_pool2d(s, .kernel = { 2, 2 }), gw_nn_flatten(s), gw_nn_layer_norm(s, 8));
    gw_backward(s, gw_sum(s, gw_module_call(s, m, gw_randn(s, GW_F32, 2, 1, 4, 4))));
    gw_error error = gw_scope_close(s);
    assert_true(error.status == GW_OK || error.status == GW_NO_MEMORY);
}

static void they_survive_without_memory(void **state) {
    (void)state;
    testing_alloc_failure_loop(convolve_once, NULL);
}

GW_TESTS(nn_convolution, convolutions_start_as_in_pytorch, kernels_may_be_longer_one_way,
         a_small_network_learns, sequences_are_pooled, convolutions_that_cannot_be_are_refused,
         they_survive_without_memory);
