#include "tensor/kernels/gradients.h"

#include "testing/testing.h"
#include <gradwire/ops.h>

static void it_adds_in_place(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    const gw_dtype dtypes[] = { GW_F32, GW_F64 };
    for (int i = 0; i < 2; i++) {
        gw_tensor *table = gw_zeros(s, dtypes[i], 2, 3), *row = gw_select(s, table, 0, 1);
        assert_true(tensor_add_into(row, gw_arange(s, dtypes[i], 1, 4, 1)));
        assert_true(gw_item(s, gw_select(s, row, 0, 2)) == 3);
        assert_true(gw_item(s, gw_sum(s, table)) == 6);
    }
    gw_scope_close_up(s);
}

static void it_adds_only_equal_layouts(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *x = gw_zeros(s, GW_F32, 2, 3);
    assert_false(tensor_add_into(x, gw_ones(s, GW_F64, 2, 3)));
    assert_false(tensor_add_into(x, gw_ones(s, GW_F32, 3)));
    assert_false(tensor_add_into(x, gw_transpose(s, gw_ones(s, GW_F32, 3, 2), 0, 1)));
    gw_tensor *half = gw_zeros(s, GW_F16, 2);
    assert_false(tensor_add_into(half, half));
    assert_true(gw_item(s, gw_sum(s, x)) == 0);
    gw_scope_close_up(s);
}

static void squares_are_summed_in_double(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *x = gw_full(s, GW_F32, 4097.0, 19);  // its square has no f32
    double squares = 0;
    assert_true(tensor_squares(x, &squares));
    assert_true(squares == 19 * 4097.0 * 4097.0);
    assert_true(tensor_squares(gw_zeros(s, GW_F64, 0), &squares));
    assert_true(squares == 0);
    gw_scope_close_up(s);
}

static void it_scales_into_another_or_itself(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *x = gw_arange(s, GW_F64, 0, 5, 1), *y = gw_zeros(s, GW_F64, 5);
    assert_true(tensor_scale_into(y, x, 0.5));
    assert_true(tensor_scale_into(x, x, 0.5));
    assert_true(gw_equal(s, x, y));
    assert_true(gw_item(s, gw_sum(s, x)) == 5);
    gw_scope_close_up(s);
}

GW_TESTS(tensor_gradients, it_adds_in_place, it_adds_only_equal_layouts,
         squares_are_summed_in_double, it_scales_into_another_or_itself);
