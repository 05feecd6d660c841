#include "testing/op_expect.h"

static void the_result_has_the_dtype_of_the_input(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *mask = gw_from(s, ((bool[]){ true, false, true }), 3);
    gw_tensor *x = gw_from(s, ((int16_t[]){ 1, 2, 3 }), 3);
    expect_text(s, gw_masked_fill(s, x, mask, gw_full(s, GW_I64, 9)), GW_I16,
                "tensor([9, 2, 9], dtype=i16)");
    gw_tensor *half = gw_to_dtype(s, x, GW_F16);
    expect_text(s, gw_masked_fill(s, half, mask, -INFINITY), GW_F16,
                "tensor([-inf, 2., -inf], dtype=f16)");
    gw_scope_close_up(s);
}

static void a_mask_and_one_number_are_required(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *x = gw_ones(s, GW_F32, 2, 3);
    gw_masked_fill(s, x, x, 0);
    expect_fails(s, "gw.masked_fill: the mask must be bool, not f32");
    gw_masked_fill(s, x, gw_ones(s, GW_BOOL8, 3), gw_ones(s, GW_F32, 3));
    expect_fails(s, "gw.masked_fill: the value must be a number or a scalar, not 3");
    gw_masked_fill(s, x, gw_ones(s, GW_BOOL8, 2), 0);
    expect_fails(s, "gw.masked_fill: 2x3 and 2 do not broadcast: counted from the last dimension, "
                    "sizes must be equal or 1");
    gw_scope_close_up(s);
}

GW_TESTS(tensor_op_masked_fill, the_result_has_the_dtype_of_the_input,
         a_mask_and_one_number_are_required);
