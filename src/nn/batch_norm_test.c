#include "testing/testing.h"

#include <gradwire/autograd.h>
#include <gradwire/nn.h>

#include <math.h>

static void it_starts_as_in_pytorch(void **state) {
    (void)state;
    static const char *const buffers[] = { "running_mean", "running_var", "num_batches_tracked" };
    gw_scope *s = gw_scope_open(NULL);
    gw_module *m = gw_nn_batch_norm2d(s, 3, .dtype = GW_F64);
    assert_int_equal(gw_module_parameter_count(m), 2);
    assert_int_equal(gw_module_buffer_count(m), 3);
    for (int i = 0; i < 3; i++) assert_string_equal(gw_module_buffer_name(s, m, i), buffers[i]);
    assert_true(gw_equal(s, gw_module_parameter_get(s, m, "weight"), gw_ones(s, GW_F64, 3)));
    assert_true(gw_equal(s, gw_module_parameter_get(s, m, "bias"), gw_zeros(s, GW_F64, 3)));
    assert_true(gw_equal(s, gw_module_buffer_at(s, m, 0), gw_zeros(s, GW_F64, 3)));
    assert_true(gw_equal(s, gw_module_buffer_at(s, m, 1), gw_ones(s, GW_F64, 3)));
    assert_true(gw_equal(s, gw_module_buffer_at(s, m, 2), gw_zeros(s, GW_I64)));
    assert_int_equal(gw_scope_close(s).status, GW_OK);
}

static void it_counts_batches_in_training_only(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_module *m = gw_nn_batch_norm1d(s, 3);
    gw_tensor *count = gw_module_buffer_get(s, m, "num_batches_tracked");
    for (int i = 0; i < 4; i++) {
        if (i == 2) gw_module_eval(s, m);
        gw_module_call(s, m, gw_randn(s, GW_F32, 5, 3));
        assert_int_equal(gw_item_int(s, count), i < 2 ? i + 1 : 2);
    }
    assert_int_equal(gw_scope_close(s).status, GW_OK);
}

static void it_may_keep_the_mean_of_all_batches(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_nn_batch_norm_options options =
        GW_OPTIONS(gw_nn_batch_norm_options, .cumulative = true, .affine = false);
    gw_module *m = gw_nn_batch_norm1d_with(s, 1, options);
    assert_int_equal(gw_module_parameter_count(m), 0);
    for (int i = 0; i < 3; i++) {
        float batch[] = { (float)i, (float)(i + 2) };
        gw_module_call(s, m, gw_from(s, batch, 2, 1));
    }
    assert_float_equal(gw_item(s, gw_module_buffer_get(s, m, "running_mean")), 2, 1e-6);
    assert_float_equal(gw_item(s, gw_module_buffer_get(s, m, "running_var")), 2, 1e-6);
    assert_int_equal(gw_scope_close(s).status, GW_OK);
}

static void without_tracking_it_goes_by_the_batch(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_module *m = gw_nn_batch_norm1d(s, 2, .track_running_stats = false);
    assert_int_equal(gw_module_buffer_count(m), 0);
    gw_tensor *x = gw_randn(s, GW_F32, 2, 2, 7), *y = gw_module_call(s, m, x);
    gw_module_eval(s, m);
    assert_true(gw_equal(s, gw_module_call(s, m, x), y));
    assert_true(fabs(gw_item(s, gw_mean(s, y))) < 1e-6);
    assert_int_equal(gw_scope_close(s).status, GW_OK);
}

typedef gw_module *norm_open(gw_scope *s, int64_t features, gw_nn_batch_norm_options options);

static void assert_refused(norm_open *open, int64_t features, int dims, const char *text) {
    static const int64_t sizes[] = { 2, 3, 4, 5, 6 };
    gw_scope *s = gw_scope_open(NULL), *t = gw_scope_open(s);
    gw_module *m = open(s, features, GW_OPTIONS(gw_nn_batch_norm_options));
    gw_module_call(t, m, gw_zeros_with(t, GW_F32, (gw_shape){ dims, sizes }));
    gw_scope_close_up(t);
    gw_error e = gw_scope_close(s);
    assert_string_equal(e.text, text);
    assert_int_equal(e.status, GW_INVALID);
}

static void wrong_inputs_are_refused(void **state) {
    (void)state;
    assert_refused(gw_nn_batch_norm1d_with, 0, 2,
                   "gw_nn_batch_norm1d: the number of features is 0, but must be 1 or more");
    assert_refused(gw_nn_batch_norm1d_with, 3, 4,
                   "gw_nn_batch_norm1d: the input has 4 dimensions, but must have 2 or 3");
    assert_refused(gw_nn_batch_norm2d_with, 3, 3,
                   "gw_nn_batch_norm2d: the input has 3 dimensions, but must have 4");
    assert_refused(gw_nn_batch_norm2d_with, 4, 4,
                   "gw.batch_norm: weight is 4 of f32, but must be 3 of f32");
}

static void normalise_a_batch(void *context) {
    (void)context;
    gw_scope *s = gw_scope_open(NULL);
    gw_module *m = gw_nn_batch_norm1d(s, 2, .cumulative = true);
    gw_backward(s, gw_sum(s, gw_module_call(s, m, gw_randn(s, GW_F32, 3, 2))));
    gw_error error = gw_scope_close(s);
    assert_true(error.status == GW_OK || error.status == GW_NO_MEMORY);
}

static void it_survives_without_memory(void **state) {
    (void)state;
    testing_alloc_failure_loop(normalise_a_batch, NULL);
}

GW_TESTS(nn_batch_norm, it_starts_as_in_pytorch, it_counts_batches_in_training_only,
         it_may_keep_the_mean_of_all_batches, without_tracking_it_goes_by_the_batch,
         wrong_inputs_are_refused, it_survives_without_memory);
