#include "testing/op_expect.h"

static void halves_go_to_the_even_neighbour(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *x = gw_from(s, ((float[]){ -1.5f, -0.5f, 0.5f, 1.5f, 2.5f }), 5);
    expect_values(s, gw_round(s, x), (const double[]){ -2, 0, 0, 2, 2 }, 0);
    expect_values(s, gw_trunc(s, x), (const double[]){ -1, 0, 0, 1, 2 }, 0);
    gw_scope_close_up(s);
}

static void integers_are_whole_already(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *x = gw_from(s, ((int64_t[]){ INT64_MAX, -3 }), 2), *y = gw_floor(s, x);
    assert_true(same_bits(x, y));
    gw_ceil(s, gw_ones(s, GW_BOOL8, 1));
    expect_fails(s, "gw.ceil: bool is not supported: the operands must be numbers");
    gw_scope_close_up(s);
}

static void angles_may_be_large(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *x = gw_from(s, ((float[]){ 1e6f, -1e20f, 0 }), 3);
    expect_values(s, gw_sin(s, x), (const double[]){ sin(1e6), sin(-1e20f), 0 }, 1e-6);
    expect_values(s, gw_cos(s, x), (const double[]){ cos(1e6), cos(-1e20f), 1 }, 1e-6);
    gw_scope_close_up(s);
}

GW_TESTS(tensor_op_round, halves_go_to_the_even_neighbour, integers_are_whole_already,
         angles_may_be_large);
