#include "testing/op_expect.h"

#include <math.h>

static double mse(double x, double t) {
    return (x - t) * (x - t);
}
static double bce(double x, double t) {
    double p = 1 / (1 + exp(-x));
    return -t * log(p) - (1 - t) * log(1 - p);
}
static double smooth_l1(double x, double t) {
    double z = fabs(x - t);
    return z < 0.5 ? z * z : z - 0.25;
}

typedef gw_tensor *loss_function(gw_scope *s, gw_tensor *x, gw_tensor *target, gw_loss_options o);

static void check(gw_scope *s, loss_function *f, double (*definition)(double, double), gw_tensor *x,
                  gw_tensor *t, double tolerance) {
    gw_loss_options o = GW_OPTIONS(gw_loss_options, .beta = 0.5, .reduction = GW_NO_REDUCTION);
    gw_tensor *each = f(s, x, t, o);
    assert_string_equal(gw_scope_error(s)->text, "");
    double sum = 0;
    for (int64_t i = 0; i < x->numel; i++) {
        double expected = definition(element(x, i), element(t, i));
        expect_near(element(each, i), expected, tolerance);
        sum += expected;
    }
    o.reduction = GW_SUM_REDUCTION;
    expect_near(gw_item(s, f(s, x, t, o)), sum, tolerance);
    o.reduction = GW_MEAN;
    expect_near(gw_item(s, f(s, x, t, o)), sum / (double)x->numel, tolerance);
}

static void they_are_their_definitions(void **state) {
    (void)state;
    static const gw_dtype dtypes[] = { GW_F32, GW_F64, GW_F16 };
    static const double tolerances[] = { 2e-6, 1e-12, 2e-3 };
    for (int d = 0; d < 3; d++) {
        gw_scope *s = gw_scope_open(NULL);
        gw_tensor *x = gw_to_dtype(s, gw_randn(s, GW_F64, 40, 33), dtypes[d]);
        gw_tensor *t = gw_to_dtype(s, gw_rand(s, GW_F64, 40, 33), dtypes[d]);
        check(s, gw_mse_with, mse, x, t, tolerances[d]);
        check(s, gw_bce_with_logits_with, bce, x, t, tolerances[d]);
        check(s, gw_smooth_l1_with, smooth_l1, x, t, tolerances[d]);
        check(s, gw_smooth_l1_with, smooth_l1, gw_transpose(s, x, 0, 1), gw_transpose(s, t, 0, 1),
              tolerances[d]);
        gw_scope_close_up(s);
    }
}

static void large_logits_do_not_overflow(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *x = gw_from(s, ((float[]){ 1000, -1000, 1000, -20, 0 }), 5);
    gw_tensor *t = gw_from(s, ((float[]){ 1, 0, 0, 0, 0.5f }), 5);
    gw_tensor *loss = gw_bce_with_logits(s, x, t, .reduction = GW_NO_REDUCTION);
    expect_values(s, loss, (double[]){ 0, 0, 1000, 2.061153620e-9, 0.6931471806 }, 1e-7);
    assert_true(element(loss, 3) > 2.06e-9);
    gw_scope_close_up(s);
}

static void targets_broadcast_and_dtypes_are_promoted(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *x = gw_from(s, ((float[]){ 1, 2 }), 2, 1);
    gw_tensor *t = gw_from(s, ((double[]){ 0, 4, 1 }), 3);
    expect_text(s, gw_mse(s, x, t), GW_F64, "tensor(3.1667, dtype=f64)");
    gw_mse(s, gw_zeros(s, GW_F32, 2, 3), gw_zeros(s, GW_F32, 2));
    expect_fails(s, "gw.mse: 2x3 and 2 do not broadcast: counted from the last dimension, sizes "
                    "must be equal or 1");
    gw_bce_with_logits(s, x, gw_zeros(s, GW_F32, 2));
    expect_fails(s,
                 "gw.bce_with_logits: logits are 2x1 and target 2, but the shapes must be equal");
    gw_scope_close_up(s);
}

static void it_refuses_meaningless_arguments(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *x = gw_zeros(s, GW_F32, 2);
    gw_mse(s, x, gw_zeros(s, GW_I64, 2));
    expect_fails(s, "gw.mse: f32 and i64: both must be floats");
    gw_mse(s, x, x, .reduction = (gw_reduction)3);
    expect_fails(s, "gw.mse: reduction 3, but it must be 0 (mean), 1 (sum) or 2 (none)");
    gw_smooth_l1(s, x, x, .beta = -1);
    expect_fails(s, "gw.smooth_l1: beta is -1, but must be above 0");
    gw_scope_close_up(s);
}

static void l1_has_no_slope_at_zero_loss(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *x = gw_requires_grad(s, gw_from(s, ((float[]){ 1, 2, 3 }), 3));
    gw_tensor *t = gw_from(s, ((float[]){ 3, 2, 2 }), 3);
    gw_tensor *loss = gw_l1(s, x, t);
    expect_text(s, loss, GW_F32, "tensor(1.)");
    gw_backward(s, gw_mul(s, loss, 3));
    expect_text(s, gw_grad(s, x), GW_F32, "tensor([-1.,  0.,  1.])");
    gw_scope_close_up(s);
}

static void the_mean_of_no_losses_is_nan(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *x = gw_zeros(s, GW_F32, 0);
    expect_text(s, gw_mse(s, x, x), GW_F32, "tensor(nan)");
    expect_text(s, gw_mse(s, x, x, .reduction = GW_SUM_REDUCTION), GW_F32, "tensor(0.)");
    gw_scope_close_up(s);
}

// Squares of 400 do not fit into f16, nor does the difference of its ends; means of them do.
static void losses_of_halves_overflow_only_if_the_result_does(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *x = gw_requires_grad(s, gw_zeros(s, GW_F16, 1000));
    gw_scope *t = gw_scope_open(s);
    gw_no_grad(t);
    gw_fill_(t, gw_slice(t, x, 0, 0, 2, 1), 400);
    gw_scope_close_up(t);
    gw_tensor *loss = gw_mse(s, x, gw_zeros(s, GW_F16, 1000));
    expect_values(s, loss, (double[]){ 320 }, 1e-3);
    gw_backward(s, loss);
    expect_near(element(gw_grad(s, x), 0), 0.8, 1e-3);
    gw_tensor *far = gw_requires_grad(s, gw_full(s, GW_F16, 6e4, 1000));
    loss = gw_mse(s, far, gw_full(s, GW_F16, -6e4, 1000));
    gw_backward(s, loss);
    expect_near(element(gw_grad(s, far), 0), 240, 1e-3);
    gw_scope_close_up(s);
}

static void infinite_logits_have_infinite_losses(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *x = gw_from(s, ((float[]){ INFINITY, -INFINITY, INFINITY, -INFINITY }), 4);
    gw_tensor *target = gw_from(s, ((float[]){ 0.5f, 0.5f, 0, 1 }), 4);
    gw_tensor *loss = gw_bce_with_logits(s, x, target, .reduction = GW_NO_REDUCTION);
    assert_true(gw_equal(s, loss, gw_full(s, GW_F32, INFINITY, 4)));
    assert_int_equal(gw_scope_close(s).status, GW_OK);
}

GW_TESTS(tensor_op_loss, infinite_logits_have_infinite_losses,
         losses_of_halves_overflow_only_if_the_result_does, they_are_their_definitions,
         large_logits_do_not_overflow, targets_broadcast_and_dtypes_are_promoted,
         it_refuses_meaningless_arguments, l1_has_no_slope_at_zero_loss,
         the_mean_of_no_losses_is_nan);
