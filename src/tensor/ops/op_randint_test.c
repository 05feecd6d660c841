#include "testing/op_expect.h"

static void it_draws_every_integer_as_often(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *x = gw_randint(s, GW_I8, -2, 3, 50000);
    for (int i = -2; i < 3; i++)
        expect_near(gw_item(s, gw_sum(s, gw_eq(s, x, i))) / 50000, 0.2, 0.01);
    gw_scope_close_up(s);
}

static void a_range_may_be_the_whole_dtype(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *x = gw_randint(s, GW_I64, INT64_MIN, INT64_MAX, 1000);
    expect_near(gw_item(s, gw_mean(s, gw_to_dtype(s, gw_gt(s, x, 0), GW_F32))), 0.5, 0.1);
    expect_near(gw_item(s, gw_mean(s, gw_to_dtype(s, gw_bitwise_and(s, x, 1), GW_F32))), 0.5, 0.1);
    gw_scope_close_up(s);
}

static void the_seed_decides(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_seed(s, 4);
    gw_tensor *x = gw_randint(s, GW_I64, 0, 1000, 2, 500), *order = gw_randperm(s, 100);
    assert_false(same_bits(order, gw_randperm(s, 100)));
    gw_seed(s, 4);
    assert_true(same_bits(x, gw_randint(s, GW_I64, 0, 1000, 2, 500)));
    assert_true(same_bits(order, gw_randperm(s, 100)));
    gw_scope_close_up(s);
}

static void an_order_has_every_number_once(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *order = gw_randperm(s, 1000);
    gw_tensor *seen =
        gw_scatter_add(s, gw_zeros(s, GW_I64, 1000), 0, order, gw_ones(s, GW_I64, 1000));
    assert_true(gw_equal(s, seen, gw_ones(s, GW_I64, 1000)));
    gw_scope_close_up(s);
}

// Each of the six orders of three is drawn equally often.
static void every_order_is_as_likely(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    int seen[27] = { 0 }, orders = 0;
    for (int i = 0; i < 6000; i++) {
        gw_scope *t = gw_scope_open(s);
        const int64_t *x = gw_data(gw_randperm(t, 3));
        seen[9 * x[0] + 3 * x[1] + x[2]]++;
        gw_scope_close_up(t);
    }
    for (int i = 0; i < 27; i++) {
        if (seen[i]) expect_near(seen[i], 1000, 0.15);
        orders += seen[i] > 0;
    }
    assert_int_equal(orders, 6);
    gw_scope_close_up(s);
}

static void it_refuses_bounds_outside_the_dtype(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_randint(s, GW_U8, 0, 257, 2);
    expect_fails(s, "gw.randint: u8 must hold every integer from 0 to below 257, but does not");
    gw_randint(s, GW_F16, 0, 2050, 2);
    expect_fails(s, "gw.randint: f16 must hold every integer from 0 to below 2050, but does not");
    gw_randint(s, GW_I64, 3, 3, 2);
    expect_fails(s, "gw.randint: there is no integer from 3 to below 3: high must be above low");
    gw_randperm(s, -1);
    expect_fails(s, "gw.randperm: n is -1, but must be 0 or more");
    gw_scope_close_up(s);
}

GW_TESTS(tensor_op_randint, it_draws_every_integer_as_often, a_range_may_be_the_whole_dtype,
         the_seed_decides, an_order_has_every_number_once, every_order_is_as_likely,
         it_refuses_bounds_outside_the_dtype);
