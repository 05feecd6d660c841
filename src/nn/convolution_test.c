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

static void assert_padded(gw_padding_mode mode, const double expected[4]) {
    gw_scope *s = gw_scope_open(NULL);
    gw_module *m = gw_nn_conv1d(s, 1, 1, .kernel = { 3 }, .padding = { 1 }, .padding_mode = mode,
                                .bias = false, .dtype = GW_F64);
    gw_init_ones(s, gw_module_parameter_at(s, m, 0));
    gw_tensor *x = gw_requires_grad(s, gw_from(s, ((double[]){ 1, 2, 4, 8 }), 1, 1, 4));
    gw_tensor *y = gw_module_call(s, m, x);
    gw_backward(s, gw_sum(s, y));
    assert_true(gw_ok(s));
    assert_memory_equal(gw_data(y), expected, 4 * sizeof *expected);
    assert_true(gw_item(s, gw_sum(s, gw_grad(s, x))) == (mode == GW_PAD_ZEROS ? 10 : 12));
    assert_int_equal(gw_scope_close(s).status, GW_OK);
}

static void the_padding_mode_can_be_chosen(void **state) {
    (void)state;
    assert_padded(GW_PAD_ZEROS, (double[]){ 3, 7, 14, 12 });
    assert_padded(GW_PAD_REFLECT, (double[]){ 5, 7, 14, 16 });
    assert_padded(GW_PAD_REPLICATE, (double[]){ 4, 7, 14, 20 });
    assert_padded(GW_PAD_CIRCULAR, (double[]){ 11, 7, 14, 13 });
}

static void in_two_dimensions_each_is_padded(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_module *m = gw_nn_conv2d(s, 1, 1, .kernel = { 1, 3 }, .padding = { 0, 1 }, .bias = false,
                                .padding_mode = GW_PAD_CIRCULAR, .dtype = GW_F64);
    gw_init_ones(s, gw_module_parameter_at(s, m, 0));
    gw_tensor *x = gw_from(s, ((double[]){ 1, 2, 4, 8, 16, 32 }), 1, 1, 2, 3);
    const double *y = gw_data(gw_contiguous(s, gw_module_call(s, m, x)));
    assert_true(gw_ok(s));
    for (int i = 0; i < 6; i++) assert_true(y[i] == (i < 3 ? 7 : 56));
    assert_int_equal(gw_scope_close(s).status, GW_OK);
}

static void paddings_that_do_not_fit_are_refused(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *x = gw_zeros(s, GW_F32, 1, 1, 4);
    gw_module_call(
        s, gw_nn_conv1d(s, 1, 1, .kernel = { 3 }, .padding = { 4 }, .padding_mode = GW_PAD_REFLECT),
        x);
    assert_string_equal(gw_scope_error(s)->text,
                        "gw_nn_conv1d: the padding 4 is too large for 4 numbers");
    gw_scope_clear(s);
    gw_nn_conv1d(s, 1, 1, .kernel = { 3 }, .padding_mode = (gw_padding_mode)9);
    assert_string_equal(gw_scope_close(s).text,
                        "gw_nn_conv1d: .padding_mode is 9, which does not exist");
}

// A network like those for digits: every layer fits the output of the one before it.
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
    assert_refused(0, 2, three,
                   "gw_nn_conv2d: from 0 to 2 channels: both numbers must be 1 or more");
    assert_refused(2, 2, GW_OPTIONS(gw_nn_conv_options),
                   "gw_nn_conv2d: the size of the kernel is 0, but must be 1 or more");
    assert_refused(2, 2, GW_OPTIONS(gw_nn_conv_options, .kernel = { 3, -1 }),
                   "gw_nn_conv2d: the size of the kernel is -1, but must be 1 or more");
    assert_refused(4, 6, GW_OPTIONS(gw_nn_conv_options, .kernel = { 3, 3 }, .groups = 4),
                   "gw_nn_conv2d: 4 input and 6 output channels cannot be divided into 4 groups");
    assert_refused(3, 2, three,
                   "gw.conv2d: input has 1 channels, but the weight is for 3: they must be equal");
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
         the_padding_mode_can_be_chosen, in_two_dimensions_each_is_padded,
         paddings_that_do_not_fit_are_refused, a_small_network_learns, sequences_are_pooled,
         convolutions_that_cannot_be_are_refused, they_survive_without_memory);
