#include "testing/recording.h"
#include "testing/testing.h"

#include <gradwire/ops.h>
#include <gradwire/optim.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { PARAMETERS = 3 };

// A leaf whose gradient in |s| is |grad|.
static gw_tensor *leaf_with(gw_scope *s, gw_list *params, gw_tensor *grad) {
    gw_tensor *x = gw_requires_grad(s, gw_clone(s, grad));
    gw_backward(s, x, .gradient = grad);
    gw_list_add(s, params, x);
    return x;
}

static void run_case(recording *r) {
    gw_scope *s = gw_scope_open(NULL);
    assert_true(recording_takes(r, "clip"));
    double max_norm = recording_number(r);
    testing_note("max_norm %g", max_norm);
    gw_list *params = gw_list_open(s);
    gw_tensor *p[PARAMETERS];
    for (int i = 0; i < PARAMETERS; i++) {
        assert_true(recording_takes(r, "grad"));
        p[i] = leaf_with(s, params, recording_tensor(s, r));
    }
    double total = gw_clip_grad_norm(s, params, max_norm);
    assert_true(recording_takes(r, "total"));
    assert_float_equal(total, recording_number(r), 1e-6);
    for (int i = 0; i < PARAMETERS; i++) {
        assert_true(recording_takes(r, "clipped"));
        recording_compare("clipped", gw_grad(s, p[i]), recording_tensor(s, r), 1e-6, 0);
    }
    assert_true(recording_takes(r, "end"));
    assert_int_equal(gw_scope_close(s).status, GW_OK);
}

static void it_clips_as_pytorch_does(void **state) {
    (void)state;
    recording r = recording_open(RECORDINGS "clip.txt");
    while (recording_takes(&r, "case")) run_case(&r);
    assert_null(recording_word(&r));
    recording_close(&r);
}

static void shared_gradients_are_not_written(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_list *params = gw_list_open(s);
    gw_tensor *x = leaf_with(s, params, gw_from(s, ((double[]){ 3, 4 }), 2));
    gw_tensor *before = gw_grad(s, x);
    assert_float_equal(gw_clip_grad_norm(s, params, 1), 5, 1e-12);
    assert_float_equal(((const double *)gw_data(before))[1], 4, 0);
    assert_float_equal(((const double *)gw_data(gw_grad(s, x)))[1], 0.8, 1e-6);
    assert_int_equal(gw_scope_close(s).status, GW_OK);
}

static void parameters_without_gradient_count_nothing(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_list *params = gw_list_open(s);
    gw_list_add(s, params, gw_requires_grad(s, gw_ones(s, GW_F32, 2)));
    gw_backward(s, gw_requires_grad(s, gw_ones(s, GW_F32)));  // of something else
    assert_float_equal(gw_clip_grad_norm(s, params, 1), 0, 0);
    assert_int_equal(gw_grads_count(s), 1);
    assert_int_equal(gw_scope_close(s).status, GW_OK);
}

static void long_gradients_are_added_in_lanes(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_list *params = gw_list_open(s);
    leaf_with(s, params, gw_ones(s, GW_F32, 1003));
    assert_float_equal(gw_clip_grad_norm(s, params, 1), sqrt(1003), 1e-9);
    assert_float_equal(gw_clip_grad_norm(s, params, 1), 1, 1e-5);
    assert_int_equal(gw_scope_close(s).status, GW_OK);
}

static void a_norm_that_is_not_finite_spoils_the_gradients(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_list *params = gw_list_open(s);
    gw_tensor *x = leaf_with(s, params, gw_from(s, ((float[]){ NAN, 1 }), 2));
    assert_true(isnan(gw_clip_grad_norm(s, params, 1)));
    assert_true(isnan(((const float *)gw_data(gw_grad(s, x)))[1]));
    assert_int_equal(gw_scope_close(s).status, GW_OK);
}

static void a_norm_is_not_negative(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    assert_float_equal(gw_clip_grad_norm(s, NULL, 1), 0, 0);
    assert_int_equal(gw_scope_error(s)->status, GW_INVALID);
    gw_scope_clear(s);
    assert_float_equal(gw_clip_grad_norm(s, gw_list_open(s), -1), 0, 0);
    assert_int_equal(gw_scope_close(s).status, GW_INVALID);
}

// Each row counts once, with the sum of its parts.
static void it_clips_row_sparse_gradients(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *w = gw_requires_grad(s, gw_ones(s, GW_F32, 4, 1));
    gw_list *params = gw_list_open(s);
    gw_list_add(s, params, w);
    gw_tensor *at = gw_from(s, ((int64_t[]){ 3, 1, 3, 1, 3 }), 5);
    gw_tensor *x = gw_embedding(s, w, at, .sparse = true);
    gw_tensor *d = gw_from(s, ((float[]){ 2, 1, 1, 2, 1 }), 5, 1);
    gw_backward(s, x, .gradient = d);
    gw_tensor *before = gw_grad(s, w);
    assert_float_equal(gw_clip_grad_norm(s, params, 1), 5, 1e-6);
    assert_int_equal(gw_layout_of(gw_grad(s, w)), GW_ROWS);
    gw_tensor *clipped = gw_rows_values(s, gw_grad(s, w));
    assert_float_equal(gw_item(s, gw_select(s, clipped, 0, 0)), 0.6, 1e-6);
    assert_float_equal(gw_item(s, gw_select(s, clipped, 0, 1)), 0.8, 1e-6);
    assert_float_equal(gw_item(s, gw_sum(s, gw_to_dense(s, before))), 7, 0);
    assert_int_equal(gw_scope_close(s).status, GW_OK);
}

static void halves_are_clipped_with_the_others(void **state) {
    (void)state;
    const gw_dtype halves[] = { GW_F16, GW_BF16 };
    for (int i = 0; i < 2; i++) {
        gw_scope *s = gw_scope_open(NULL);
        gw_list *params = gw_list_open(s);
        // Squares of 300 overflow f16, and there are more than fit into a piece.
        gw_tensor *half = leaf_with(s, params, gw_full(s, halves[i], 300.0, 1600));
        gw_tensor *whole = leaf_with(s, params, gw_full(s, GW_F32, 9000.0));
        assert_float_equal(gw_clip_grad_norm(s, params, 150), 15000, 1e-6);
        gw_tensor *wide = gw_to_dtype(s, gw_grad(s, half), GW_F64);
        assert_float_equal(gw_item(s, gw_sum(s, wide)), 3 * 1600, 1e-6);
        assert_float_equal(gw_item(s, gw_grad(s, whole)), 90, 1e-4);
        assert_int_equal(gw_scope_close(s).status, GW_OK);
    }
}

GW_TESTS(optim_clip, halves_are_clipped_with_the_others, it_clips_row_sparse_gradients,
         it_clips_as_pytorch_does, shared_gradients_are_not_written,
         parameters_without_gradient_count_nothing, long_gradients_are_added_in_lanes,
         a_norm_that_is_not_finite_spoils_the_gradients, a_norm_is_not_negative);
