#include "testing/op_expect.h"

static void running_sums_run_along_any_dimension(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *x = gw_from(s, ((float[]){ 1, 2, 3, 4, 5, 6 }), 2, 3);
    expect_text(s, gw_cumsum(s, x, 1), GW_F32,
                "tensor([[ 1.,  3.,  6.],\n        [ 4.,  9., 15.]])");
    expect_text(s, gw_cumsum(s, x, 0), GW_F32, "tensor([[1., 2., 3.],\n        [5., 7., 9.]])");
    expect_text(s, gw_cumsum(s, gw_transpose(s, x, 0, 1), 1), GW_F32,
                "tensor([[1., 5.],\n        [2., 7.],\n        [3., 9.]])");
    expect_text(s, gw_cumsum(s, gw_ones(s, GW_BOOL8, 3), 0), GW_I64, "tensor([1, 2, 3])");
    expect_shape(s, gw_cumsum(s, gw_zeros(s, GW_F32, 2, 0), 1), "2x0");
    gw_cumsum(s, x, 2);
    expect_fails(s, "gw.cumsum: dimension 2 was given for 2x3, but it must be -2 to 1");
    gw_tensor *tenths = gw_cumsum(s, gw_full(s, GW_F32, 0.1, 100000), 0);
    expect_near(element(tenths, 99999), (double)0.1f * 100000, 1e-7);
    gw_scope_close_up(s);
}

GW_TESTS(tensor_op_cumsum, running_sums_run_along_any_dimension);
