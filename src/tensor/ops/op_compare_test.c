#include "testing/op_expect.h"

static void equal_wants_the_same_shape_and_values(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *x = gw_randn(s, GW_F32, 3, 4);
    assert_true(gw_equal(s, x, gw_clone(s, x)));
    assert_true(gw_equal(s, gw_transpose(s, x, 0, 1), gw_clone(s, gw_transpose(s, x, 0, 1))));
    assert_false(gw_equal(s, x, gw_reshape(s, x, 4, 3)));
    assert_false(gw_equal(
        s, x, gw_add(s, x, gw_reshape(s, gw_one_hot(s, gw_full(s, GW_I64, 11), 12), 3, 4))));
    assert_true(gw_equal(s, gw_zeros(s, GW_F32, 0), gw_zeros(s, GW_F32, 0)));
    gw_tensor *nan = gw_full(s, GW_F64, NAN, 1);
    assert_false(gw_equal(s, nan, nan));
    assert_true(gw_equal(s, gw_zeros(s, GW_F16, 1), gw_neg(s, gw_zeros(s, GW_F16, 1))));
    // Numbers that are equal as doubles.
    gw_tensor *large = gw_full(s, GW_I64, INT64_C(1) << 60, 1);
    assert_false(gw_equal(s, large, gw_add(s, large, 1)));
    assert_true(gw_equal(s, gw_eq(s, x, x), gw_ones(s, GW_BOOL8, 3, 4)));
    assert_true(gw_ok(s));
    gw_equal(s, x, gw_zeros(s, GW_F64, 3, 4));
    expect_fails(s, "gw.equal: f32 and f64: both must have the same dtype");
    gw_scope_close_up(s);
}

static void close_is_relative_to_the_second_and_absolute(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *x = gw_from(s, ((double[]){ 1000, 1e-9 }), 2);
    assert_true(gw_allclose(s, gw_from(s, ((double[]){ 1000.009, 0 }), 2), x));
    assert_false(gw_allclose(s, gw_from(s, ((double[]){ 1000.011, 0 }), 2), x));
    assert_true(
        gw_allclose(s, gw_from(s, ((double[]){ 1050, 0 }), 2), x, .rtol = 0.1, .atol = 1e-8));
    assert_true(
        gw_allclose(s, gw_from(s, ((double[]){ 1000.5, 0.5 }), 2), x, .rtol = 0, .atol = 1));
    double odd[] = { INFINITY, -INFINITY };
    gw_tensor *y = gw_from(s, odd, 2);
    assert_true(gw_allclose(s, y, y));
    assert_false(gw_allclose(s, y, gw_neg(s, y), .rtol = 0.5, .atol = 0));
    assert_false(
        gw_allclose(s, gw_full(s, GW_F64, NAN), gw_full(s, GW_F64, NAN), .rtol = 1, .atol = 1));
    assert_false(
        gw_allclose(s, gw_full(s, GW_F64, 1), gw_full(s, GW_F64, INFINITY), .rtol = 1, .atol = 1));
    assert_true(gw_allclose(s, gw_ones(s, GW_F32, 2, 3), gw_ones(s, GW_F32, 3)));
    assert_true(gw_ok(s));
    gw_allclose(s, x, gw_ones(s, GW_F64, 3));
    expect_fails(s, "gw.allclose: 2 and 3 do not broadcast: counted from the last dimension, sizes "
                    "must be equal or 1");
    gw_allclose(s, x, x, .rtol = -1, .atol = 0);
    expect_fails(s, "gw.allclose: the tolerances are -1 and 0, but both must be at least 0");
    gw_allclose(s, x, gw_ones(s, GW_F32, 2));
    expect_fails(s, "gw.allclose: f64 and f32: both must have the same dtype");
    gw_scope_close_up(s);
}

static void nothing_is_true_in_a_failed_scope(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *x = gw_ones(s, GW_F32, 2);
    gw_fail(s, GW_CANCELLED, "stop");
    assert_false(gw_equal(s, x, x));
    assert_false(gw_allclose(s, x, x));
    assert_string_equal(gw_scope_error(s)->text, "stop");
    gw_scope_clear(s);
    gw_scope_close_up(s);
}

GW_TESTS(tensor_op_compare, equal_wants_the_same_shape_and_values,
         close_is_relative_to_the_second_and_absolute, nothing_is_true_in_a_failed_scope);
