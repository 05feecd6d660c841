#include "tensor/ops/op.h"
#include "testing/op_expect.h"
#include "testing/testing.h"
#include <gradwire/ops.h>

#include <math.h>

static void assert_text(gw_scope *s, gw_tensor *x, const char *text) {
    assert_string_equal(gw_scope_error(s)->text, "");
    assert_string_equal(gw_to_text(s, x), text);
}

static void assert_fails(gw_scope *s, const char *text) {
    assert_int_equal(gw_scope_error(s)->status, GW_INVALID);
    assert_string_equal(gw_scope_error(s)->text, text);
    gw_scope_clear(s);
}

static void integers_become_f32_if_the_result_is_not_an_integer(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *x = gw_from(s, ((int64_t[]){ 0, 1 }), 2);
    assert_text(s, gw_exp(s, x), "tensor([1.0000, 2.7183])");
    assert_text(s, gw_sigmoid(s, gw_from(s, ((bool[]){ false, true }), 2)),
                "tensor([0.5000, 0.7311])");
    assert_text(s, gw_neg(s, x), "tensor([ 0, -1])");
    assert_text(s, gw_abs(s, gw_from(s, ((int8_t[]){ -128, -5 }), 2)),
                "tensor([-128,    5], dtype=i8)");
    assert_text(s, gw_relu(s, gw_from(s, ((int16_t[]){ -3, 5 }), 2)), "tensor([0, 5], dtype=i16)");
    gw_scope_close_up(s);
}

static void some_have_no_integers(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_gelu(s, gw_ones(s, GW_I64, 1));
    assert_fails(s, "gw.gelu: the dtype must be a float, but is i64; gw_to_dtype converts it");
    gw_neg(s, gw_ones(s, GW_BOOL8, 1));
    assert_fails(s, "gw.neg: bool is not supported: the operands must be numbers");
    gw_clamp(s, gw_ones(s, GW_BOOL8, 1), 0, 1);
    assert_fails(s, "gw.clamp: bool is not supported: the operands must be numbers");
    gw_scope_close_up(s);
}

static void the_upper_bound_of_clamp_wins(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *x = gw_from(s, ((float[]){ -5, 0.5f, 5, NAN }), 4);
    assert_text(s, gw_clamp(s, x, -1, 1), "tensor([-1.0000,  0.5000,  1.0000,     nan])");
    assert_text(s, gw_clamp(s, gw_slice(s, x, 0, 0, 3, 1), 2, 1), "tensor([1., 1., 1.])");
    gw_tensor *i = gw_from(s, ((uint8_t[]){ 0, 100, 255 }), 3);
    assert_text(s, gw_clamp(s, i, -5, 200), "tensor([  0, 100, 200], dtype=u8)");
    assert_text(s, gw_clamp(s, i, 50, INFINITY), "tensor([ 50, 100, 255], dtype=u8)");
    assert_text(s, gw_clamp(s, i, 0, 0.5), "tensor([0.0000, 0.5000, 0.5000])");
    gw_tensor *l = gw_from(s, ((int64_t[]){ INT64_MIN, INT64_MAX }), 2);
    assert_true(gw_equal(s, gw_clamp(s, l, -INFINITY, INFINITY), l));
    gw_scope_close_up(s);
}

static void nan_goes_through(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *x = gw_full(s, GW_F32, NAN, 20);
    gw_tensor *ys[] = { gw_exp(s, x),  gw_log(s, x),     gw_sqrt(s, x), gw_rsqrt(s, x),
                        gw_tanh(s, x), gw_sigmoid(s, x), gw_relu(s, x), gw_leaky_relu(s, x, 0.1),
                        gw_gelu(s, x), gw_silu(s, x),    gw_abs(s, x),  gw_neg(s, x) };
    for (size_t i = 0; i < sizeof ys / sizeof *ys; i++)
        for (int k = 0; k < 20; k++) assert_true(isnan(((const float *)gw_data(ys[i]))[k]));
    gw_scope_close_up(s);
}

static void nan_is_not_clamped_away(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *x = gw_requires_grad(s, gw_from(s, ((float[]){ NAN, -3, 0.5, 3 }), 4));
    expect_values(s, gw_clamp(s, x, -1, 1), (double[]){ NAN, -1, 0.5, 1 }, 0);
    const double none[] = { NAN, NAN, NAN, NAN };
    expect_values(s, gw_clamp(s, x, NAN, 1), none, 0);
    expect_values(s, gw_clamp(s, x, -1, NAN), none, 0);
    expect_values(s, gw_clamp(s, gw_arange(s, GW_I64, 0, 4, 1), 0, NAN), none, 0);
    gw_backward(s, gw_sum(s, gw_clamp(s, x, -1, NAN)));
    expect_values(s, gw_grad(s, x), (double[]){ 0, 0, 0, 0 }, 0);
    gw_scope_close_up(s);
}

static void relu_lets_the_gradient_of_nan_through(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *x = gw_requires_grad(s, gw_from(s, ((float[]){ NAN, -1, 0, 2 }), 4));
    gw_backward(s, gw_sum(s, gw_relu(s, x)));
    expect_values(s, gw_grad(s, x), (double[]){ 1, 0, 0, 1 }, 0);
    gw_scope_close_up(s);
}

GW_TESTS(tensor_op_unary, relu_lets_the_gradient_of_nan_through, nan_is_not_clamped_away,
         integers_become_f32_if_the_result_is_not_an_integer, some_have_no_integers,
         the_upper_bound_of_clamp_wins, nan_goes_through);
