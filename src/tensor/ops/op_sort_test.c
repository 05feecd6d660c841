#include "testing/op_expect.h"

// Whether |a| stands before |b| by definition. NaN is larger than everything.
static bool is_before(double a, double b, bool descending) {
    if (isnan(a) || isnan(b)) return descending ? isnan(a) && !isnan(b) : isnan(b) && !isnan(a);
    return descending ? a > b : a < b;
}

// The position of the |k|-th element of row |row|: k others are before it.
static int64_t place_at(const gw_tensor *x, int64_t row, int64_t k, bool descending) {
    int64_t n = x->sizes[1];
    for (int64_t i = 0; i < n; i++) {
        int64_t before = 0;
        for (int64_t j = 0; j < n; j++) {
            double a = element(x, row * n + j), b = element(x, row * n + i);
            before += is_before(a, b, descending) || (j < i && !is_before(b, a, descending));
        }
        if (before == k) return i;
    }
    fail_msg("nothing in place %lld", (long long)k);
    return -1;
}

static void check(gw_scope *s, gw_tensor *x, gw_sorted y, int64_t k, bool descending) {
    assert_string_equal(gw_scope_error(s)->text, "");
    assert_int_equal(y.values->dtype, x->dtype);
    assert_int_equal(y.indices->dtype, GW_I64);
    for (int64_t r = 0; r < x->sizes[0]; r++)
        for (int64_t i = 0; i < k; i++) {
            int64_t place = place_at(x, r, i, descending);
            expect_near(element(y.indices, r * k + i), (double)place, 0);
            expect_near(element(y.values, r * k + i), element(x, r * x->sizes[1] + place), 0);
        }
}

static void they_are_their_definitions(void **state) {
    (void)state;
    for (int d = 0; d < GW_DTYPE_COUNT; d++) {
        gw_scope *s = gw_scope_open(NULL);
        gw_seed(s, (uint64_t)d);
        gw_tensor *real = gw_mul(s, gw_randn(s, GW_F32, 4, 37), 3);  // with equals among integers
        gw_tensor *x = gw_to_dtype(s, real, (gw_dtype)d);
        for (int descending = 0; descending < 2; descending++) {
            check(s, x, gw_sort(s, x, .dim = 1, .descending = descending), 37, descending);
            for (int64_t k = 0; k <= 37; k += 9)
                check(s, x, gw_topk(s, x, k, .largest = descending), k, descending);
        }
        gw_scope_close_up(s);
    }
}

static void nan_is_larger_than_everything(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *x = gw_from(s, ((float[]){ 1, NAN, -INFINITY, 0, INFINITY, -0.0f, NAN }), 1, 7);
    check(s, x, gw_sort(s, x, .dim = 1), 7, false);
    check(s, x, gw_sort(s, x, .dim = 1, .descending = true), 7, true);
    expect_text(s, gw_sort(s, x, .dim = 1).indices, GW_I64, "tensor([[2, 3, 5, 0, 4, 1, 6]])");
    expect_text(s, gw_topk(s, x, 3, .dim = 1).indices, GW_I64, "tensor([[1, 6, 4]])");
    gw_scope_close_up(s);
}

static void it_sorts_along_any_dimension(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *x = gw_randn(s, GW_F32, 5, 4), *across = gw_transpose(s, x, 0, 1);
    gw_sorted down = gw_sort(s, x, .dim = 0), right = gw_sort(s, across, .dim = 1);
    assert_true(gw_equal(s, down.values, gw_transpose(s, right.values, 0, 1)));
    assert_true(gw_equal(s, down.indices, gw_transpose(s, right.indices, 0, 1)));
    assert_true(gw_equal(s, gw_gather(s, x, 0, down.indices), down.values));
    gw_scope_close_up(s);
}

static void gradients_go_to_the_original_positions(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *x = gw_requires_grad(s, gw_from(s, ((float[]){ 3, 1, 2 }), 3));
    gw_tensor *weights = gw_from(s, ((float[]){ 10, 20, 30 }), 3);
    gw_backward(s, gw_sum(s, gw_mul(s, gw_sort(s, x, .dim = 0).values, weights)));
    expect_text(s, gw_grad(s, x), GW_F32, "tensor([30., 10., 20.])");
    gw_backward(s, gw_sum(s, gw_topk(s, x, 1, .dim = 0).values));
    expect_text(s, gw_grad(s, x), GW_F32, "tensor([31., 10., 20.])");
    assert_false(gw_needs_grad(gw_sort(s, x, .dim = 0).indices));
    gw_scope_close_up(s);
}

static void missing_dimensions_are_errors(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *x = gw_zeros(s, GW_F32, 2, 3);
    gw_sorted y = gw_topk(s, x, 4, .dim = 1);
    assert_true(tensor_is_poison(y.values) && tensor_is_poison(y.indices));
    expect_fails(s, "gw.topk: k is 4, but must be 0 to 3, the size of dimension 1 of 2x3");
    gw_sort(s, x, .dim = 2);
    expect_fails(s, "gw.sort: dimension 2 was given for 2x3, but it must be -2 to 1");
    gw_scope_close_up(s);
}

GW_TESTS(tensor_op_sort, they_are_their_definitions, nan_is_larger_than_everything,
         it_sorts_along_any_dimension, gradients_go_to_the_original_positions,
         missing_dimensions_are_errors);
