#include <stdlib.h>

#include "testing/op_expect.h"

static int64_t count_zeros(const gw_tensor *x) {
    int64_t zeros = 0;
    for (int64_t i = 0; i < x->numel; i++) zeros += element(x, i) == 0;
    return zeros;
}

static void it_zeroes_a_share_and_scales_the_rest(void **state) {
    (void)state;
    static const gw_dtype dtypes[] = { GW_F32, GW_F64, GW_F16 };
    for (int d = 0; d < 3; d++) {
        gw_scope *s = gw_scope_open(NULL);
        gw_tensor *x = gw_ones(s, dtypes[d], 100, 101), *y = gw_dropout(s, x, .p = 0.2);
        assert_true(gw_ok(s));
        for (int64_t i = 0; i < y->numel; i++)
            if (element(y, i) != 0) expect_near(element(y, i), 1.25, 1e-3);
        // Four standard deviations of 10100 draws are 161.
        assert_true(llabs(count_zeros(y) - 2020) < 161);
        gw_scope_close_up(s);
    }
}

static void the_seed_decides(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *x = gw_ones(s, GW_F32, 1000);
    gw_seed(s, 5);
    gw_tensor *first = gw_dropout(s, x, .p = 0.5), *second = gw_dropout(s, x, .p = 0.5);
    gw_seed(s, 5);
    gw_tensor *again = gw_dropout(s, gw_reshape(s, x, 10, 100), .p = 0.5);
    assert_true(same_bits(first, again));
    assert_false(same_bits(first, second));
    gw_scope_close_up(s);
}

static void it_is_the_identity_outside_training(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *x = gw_randn(s, GW_F32, 3, 4);
    uint64_t drawn = s->random->counter;
    assert_ptr_equal(gw_data(gw_dropout(s, x, .p = 0.5, .training = false)), gw_data(x));
    assert_ptr_equal(gw_data(gw_dropout(s, gw_transpose(s, x, 0, 1), .p = 0)), gw_data(x));
    assert_true(s->random->counter == drawn);
    assert_int_equal(count_zeros(gw_dropout(s, x, .p = 1)), 12);
    gw_scope_close_up(s);
}

static void the_gradient_goes_to_the_kept_elements(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *x = gw_requires_grad(s, gw_ones(s, GW_F32, 200));
    gw_tensor *y = gw_dropout(s, x, .p = 0.25);
    gw_backward(s, gw_sum(s, y));
    assert_true(same_bits(gw_grad(s, x), y));
    gw_scope_close_up(s);
}

static void it_refuses_other_shares_and_integers(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *x = gw_zeros(s, GW_F32, 2);
    gw_dropout(s, x, .p = 1.5);
    expect_fails(s, "gw.dropout: p is 1.5, but must be between 0 and 1");
    gw_dropout(s, x, .p = -0.1, .training = false);
    expect_fails(s, "gw.dropout: p is -0.1, but must be between 0 and 1");
    gw_dropout(s, x, .p = NAN);
    assert_false(gw_ok(s));
    gw_scope_clear(s);
    gw_dropout(s, gw_zeros(s, GW_I64, 2), .p = 0.5);
    expect_fails(s,
                 "gw.dropout: i64 is not a float dtype, but must be one; gw_to_dtype converts it");
    gw_scope_close_up(s);
}

GW_TESTS(tensor_op_dropout, it_zeroes_a_share_and_scales_the_rest, the_seed_decides,
         it_is_the_identity_outside_training, the_gradient_goes_to_the_kept_elements,
         it_refuses_other_shares_and_integers);
