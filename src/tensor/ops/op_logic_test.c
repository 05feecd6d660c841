#include "testing/op_expect.h"

static void nan_is_true(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *x = gw_from(s, ((double[]){ NAN, 0, -0.0, 0.5 }), 4);
    expect_text(s, gw_logical_not(s, x), GW_BOOL8, "tensor([False,  True,  True, False])");
    expect_text(s, gw_logical_and(s, x, 2), GW_BOOL8, "tensor([ True, False, False,  True])");
    gw_scope_close_up(s);
}

static void every_integer_is_finite(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *x = gw_from(s, ((int64_t[]){ INT64_MIN, 0 }), 2);
    expect_text(s, gw_isfinite(s, x), GW_BOOL8, "tensor([True, True])");
    expect_text(s, gw_isnan(s, x), GW_BOOL8, "tensor([False, False])");
    expect_text(s, gw_isinf(s, x), GW_BOOL8, "tensor([False, False])");
    gw_scope_close_up(s);
}

static void bits_are_those_of_the_promoted_dtype(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *x = gw_from(s, ((uint8_t[]){ 255, 6 }), 2);
    expect_text(s, gw_bitwise_and(s, x, gw_from(s, ((int8_t[]){ -1, 3 }), 2)), GW_I16,
                "tensor([255,   2], dtype=i16)");
    expect_text(s, gw_bitwise_not(s, x), GW_U8, "tensor([  0, 249], dtype=u8)");
    expect_text(s, gw_bitwise_not(s, gw_from(s, ((bool[]){ true, false }), 2)), GW_BOOL8,
                "tensor([False,  True])");
    gw_scope_close_up(s);
}

static void floats_have_no_bits(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_bitwise_or(s, gw_ones(s, GW_I64, 2), gw_ones(s, GW_F16, 2));
    expect_fails(
        s,
        "gw.bitwise_or: the dtype must be an integer or bool, but is f16; gw_to_dtype converts it");
    gw_bitwise_xor(s, gw_ones(s, GW_I64, 2), 0.5);
    expect_fails(s, "gw.bitwise_xor: the dtype must be an integer or bool, but is f32; gw_to_dtype "
                    "converts it");
    gw_bitwise_not(s, gw_ones(s, GW_F32, 2));
    expect_fails(s, "gw.bitwise_not: the dtype must be an integer or bool, but is f32; gw_to_dtype "
                    "converts it");
    gw_scope_close_up(s);
}

GW_TESTS(tensor_op_logic, nan_is_true, every_integer_is_finite,
         bits_are_those_of_the_promoted_dtype, floats_have_no_bits);
