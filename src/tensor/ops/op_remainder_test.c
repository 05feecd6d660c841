#include "testing/op_expect.h"

static void the_sign_is_that_of_the_divisor(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *x = gw_from(s, ((int64_t[]){ -7, 7, INT64_MIN }), 3);
    expect_text(s, gw_remainder(s, x, 3), GW_I64, "tensor([2, 1, 1])");
    expect_text(s, gw_remainder(s, x, -3), GW_I64, "tensor([-1, -2, -2])");
    expect_text(s, gw_remainder(s, x, -1), GW_I64, "tensor([0, 0, 0])");
    expect_text(s, gw_remainder(s, x, 2.5), GW_F32, "tensor([0.5000, 2.0000, 2.0000])");
    gw_scope_close_up(s);
}

static void integers_are_not_divided_by_0(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *x = gw_from(s, ((int32_t[]){ 4, 5 }), 2);
    gw_remainder(s, x, 0);
    expect_fails(s, "gw.remainder: an element of b is 0, but an integer cannot be divided by 0");
    gw_remainder(s, x, gw_from(s, ((int32_t[]){ 1, 0 }), 2));
    expect_fails(s, "gw.remainder: an element of b is 0, but an integer cannot be divided by 0");
    gw_remainder(s, gw_from(s, ((uint8_t[]){ 4, 5 }), 2), 256);  // which is 0 as u8
    expect_fails(s, "gw.remainder: an element of b is 0, but an integer cannot be divided by 0");
    gw_tensor *y = gw_remainder(s, gw_ones(s, GW_F32, 1), 0);
    assert_true(isnan(gw_item(s, y)));
    gw_remainder(s, gw_ones(s, GW_BOOL8, 2), gw_ones(s, GW_BOOL8, 2));
    expect_fails(s, "gw.remainder: bool is not supported: the operands must be numbers");
    gw_scope_close_up(s);
}

GW_TESTS(tensor_op_remainder, the_sign_is_that_of_the_divisor, integers_are_not_divided_by_0);
