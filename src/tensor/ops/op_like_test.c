#include "testing/op_expect.h"

static void they_have_the_shape_and_dtype_of_another(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *x = gw_transpose(s, gw_ones(s, GW_F16, 2, 3), 0, 1);
    gw_tensor *drawn = gw_rand_like(s, x);
    gw_tensor *made[] = { gw_zeros_like(s, x), gw_ones_like(s, x),     gw_empty_like(s, x), drawn,
                          gw_randn_like(s, x), gw_full_like(s, x, 2.5) };
    for (int i = 0; i < 6; i++) {
        expect_shape(s, made[i], "3x2");
        assert_int_equal(gw_dtype_of(made[i]), GW_F16);
        assert_true(gw_is_contiguous(made[i]));
    }
    expect_values(s, made[1], (const double[]){ 1, 1, 1, 1, 1, 1 }, 0);
    expect_values(s, made[5], (const double[]){ 2.5, 2.5, 2.5, 2.5, 2.5, 2.5 }, 0);
    gw_scope_close_up(s);
}

static void they_need_no_gradient(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *x = gw_requires_grad(s, gw_ones(s, GW_F32, 2));
    assert_false(gw_needs_grad(gw_zeros_like(s, x)) || gw_needs_grad(gw_randn_like(s, x)));
    gw_scope_close_up(s);
}

static void only_floats_are_drawn(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_rand_like(s, gw_ones(s, GW_I64, 2));
    expect_fails(s, "gw.rand: the dtype must be a float, but is i64; gw_to_dtype converts it");
    assert_true(tensor_is_poison(gw_zeros_like(s, &tensor_poison)));
    expect_fails(
        s, "gw.zeros_like: the tensor was made in a scope that has failed: it was never made");
    gw_scope_close_up(s);
}

GW_TESTS(tensor_op_like, they_have_the_shape_and_dtype_of_another, they_need_no_gradient,
         only_floats_are_drawn);
