#include "testing/op_expect.h"

// Values are compared with naive loops in op_reduce_test.c.

static void extremes_do_not_overlook_nan(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    for (int64_t n = 1; n < 70; n += 3) {
        for (int64_t at = 0; at < n; at += 5) {
            gw_tensor *x = gw_randn(s, n % 2 ? GW_F32 : GW_F64, n);
            dtype_write((gw_dtype)x->dtype,
                        (uint8_t *)gw_data_for_write(s, x) + at * (int64_t)(n % 2 ? 4 : 8), NAN);
            gw_tensor *column = gw_expand(s, gw_reshape(s, x, n, 1), n, 3);
            assert_true(isnan(gw_item(s, gw_max(s, x))) && isnan(gw_item(s, gw_min(s, x))));
            assert_true(isnan(element(gw_max(s, column, .dim = 0), 1)));
            assert_int_equal(gw_item_int(s, gw_argmax(s, x)), at);
            assert_int_equal(gw_item_int(s, gw_argmin(s, x)), at);
            assert_int_equal((int64_t)element(gw_argmin(s, column, .dim = 0), 2), at);
        }
    }
    assert_true(gw_ok(s));
    gw_scope_close_up(s);
}

static void extremes_keep_the_dtype_and_the_first_of_equals(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *x = gw_from(s, ((int16_t[]){ 3, 9, 9, -4, 3, -4 }), 2, 3);
    expect_text(s, gw_max(s, x), GW_I16, "tensor(9, dtype=i16)");
    expect_text(s, gw_min(s, x, .dim = 1), GW_I16, "tensor([ 3, -4], dtype=i16)");
    expect_text(s, gw_argmax(s, x), GW_I64, "tensor(1)");
    expect_text(s, gw_argmin(s, x), GW_I64, "tensor(3)");
    expect_text(s, gw_argmax(s, x, .dim = 0), GW_I64, "tensor([0, 0, 0])");
    expect_text(s, gw_argmax(s, x, .dim = 1, .keepdim = true), GW_I64,
                "tensor([[1],\n        [1]])");
    bool truth[] = { false, true, false };
    expect_text(s, gw_max(s, gw_from(s, truth, 3)), GW_BOOL8, "tensor(True)");
    // Numbers that are equal as doubles.
    int64_t large[] = { (INT64_C(1) << 60), (INT64_C(1) << 60) + 1 };
    assert_int_equal(gw_item_int(s, gw_argmax(s, gw_from(s, large, 2))), 1);
    gw_scope_close_up(s);
}

static void an_extreme_of_nothing_is_an_error(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *x = gw_zeros(s, GW_F32, 0, 3);
    gw_max(s, x);
    expect_fails(
        s, "gw.max: 0x3 has no elements along the reduced dimensions: there must be at least one");
    gw_argmin(s, x, .dim = 0);
    expect_fails(
        s,
        "gw.argmin: 0x3 has no elements along the reduced dimensions: there must be at least one");
    expect_shape(s, gw_max(s, x, .dim = 1), "0");
    gw_scope_close_up(s);
}

// x has its largest number twice: of everything, both share the gradient; along a dimension the
// first has it.
static void equals_share_the_gradient_of_everything(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *x = gw_requires_grad(s, gw_from(s, ((float[]){ 1, 5, 5 }), 3));
    gw_scope *a = gw_scope_open(s), *b = gw_scope_open(s);
    gw_backward(a, gw_max(a, x));
    expect_text(a, gw_grad(a, x), GW_F32, "tensor([0.0000, 0.5000, 0.5000])");
    gw_backward(b, gw_max(b, x, .dim = 0));
    expect_text(b, gw_grad(b, x), GW_F32, "tensor([0., 1., 0.])");
    gw_scope_close_up(b);
    gw_scope_close_up(a);
    gw_scope_close_up(s);
}

static void numbers_that_are_none_share_the_gradient(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    for (int k = 0; k < 4; k++) {
        gw_scope *t = gw_scope_open(s);
        gw_tensor *x = gw_requires_grad(t, gw_from(t, ((double[]){ NAN, 1, NAN, 2 }), 4));
        gw_backward(t, k == 0   ? gw_max(t, x)
                       : k == 1 ? gw_min(t, x)
                       : k == 2 ? gw_amax(t, x)
                                : gw_amin(t, x));
        expect_values(t, gw_grad(t, x), (double[]){ 0.5, 0, 0.5, 0 }, 0);
        gw_scope_close_up(t);
    }
    gw_tensor *x = gw_requires_grad(s, gw_from(s, ((double[]){ NAN, 1, 3, 3 }), 2, 2));
    gw_backward(s, gw_sum(s, gw_amax(s, x, .dims = GW_SHAPE(1))));
    expect_values(s, gw_grad(s, x), (double[]){ 1, 0, 0.5, 0.5 }, 0);
    gw_scope_close_up(s);
}

GW_TESTS(tensor_op_extreme, numbers_that_are_none_share_the_gradient, extremes_do_not_overlook_nan,
         extremes_keep_the_dtype_and_the_first_of_equals, an_extreme_of_nothing_is_an_error,
         equals_share_the_gradient_of_everything);
