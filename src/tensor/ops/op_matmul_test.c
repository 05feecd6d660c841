#include <stdlib.h>

#include "tensor/kernels/blas.h"
#include "testing/op_expect.h"

// Element (i, j) of matrix number |batch| of a times b, both with at least 2 dimensions, by
// definition.
static double product_at(const gw_tensor *a, const gw_tensor *b, int64_t a_batch, int64_t b_batch,
                         int64_t i, int64_t j) {
    int64_t m = a->sizes[a->dims - 2], k = a->sizes[a->dims - 1], n = b->sizes[b->dims - 1];
    double sum = 0;
    for (int64_t p = 0; p < k; p++)
        sum += element(a, (a_batch * m + i) * k + p) * element(b, (b_batch * k + p) * n + j);
    return sum;
}

// For equal batches, or one matrix on either side.
static void check_product(gw_scope *s, gw_tensor *a, gw_tensor *b, double tolerance) {
    gw_tensor *c = gw_matmul(s, a, b);
    assert_string_equal(gw_scope_error(s)->text, "");
    int64_t m = a->sizes[a->dims - 2], n = b->sizes[b->dims - 1];
    int64_t count = m > 0 && n > 0 ? c->numel / (m * n) : 0;
    for (int64_t q = 0; q < count; q++)
        for (int64_t i = 0; i < m; i++)
            for (int64_t j = 0; j < n; j++)
                expect_near(element(c, (q * m + i) * n + j),
                            product_at(a, b, a->dims > 2 ? q : 0, b->dims > 2 ? q : 0, i, j),
                            tolerance);
}

static double tolerance_of(gw_dtype d) {
    return d == GW_F64 ? 1e-12 : d == GW_F32 ? 1e-5 : d == GW_F16 ? 2e-3 : d == GW_BF16 ? 2e-2 : 0;
}

static gw_tensor *numbers(gw_scope *s, gw_dtype d, gw_shape shape) {
    gw_tensor *x = gw_mul(s, gw_rand_with(s, GW_F32, shape), 9.0);
    return gw_to_dtype(s, gw_sub(s, x, dtype_is_float(d) ? 4.0 : 0.0), d);
}

static void check_dtype(gw_scope *s, gw_dtype d) {
    double t = tolerance_of(d);
    gw_tensor *a = numbers(s, d, GW_SHAPE(7, 19)), *b = numbers(s, d, GW_SHAPE(19, 37));
    gw_tensor *batch = numbers(s, d, GW_SHAPE(3, 5, 7, 19));
    check_product(s, a, b, t);
    check_product(s, gw_transpose(s, numbers(s, d, GW_SHAPE(19, 7)), 0, 1), b, t);
    check_product(s, a, gw_transpose(s, numbers(s, d, GW_SHAPE(37, 19)), 0, 1), t);
    check_product(s, gw_slice(s, numbers(s, d, GW_SHAPE(14, 19)), 0, 0, 14, 2), b, t);
    check_product(s, gw_slice(s, numbers(s, d, GW_SHAPE(7, 38)), 1, 0, 38, 2), b, t);
    check_product(s, gw_expand(s, numbers(s, d, GW_SHAPE(1, 19)), 7, 19), b, t);
    check_product(s, gw_expand(s, numbers(s, d, GW_SHAPE(7, 1)), 7, 19), b, t);
    check_product(s, batch, b, t);
    check_product(s, batch, numbers(s, d, GW_SHAPE(3, 5, 19, 4)), t);
    check_product(s, gw_transpose(s, batch, 0, 1), numbers(s, d, GW_SHAPE(5, 3, 19, 4)), t);
    check_product(s, gw_transpose(s, batch, 1, 2), b, t);
    check_product(s, a, numbers(s, d, GW_SHAPE(6, 19, 4)), t);
    check_product(s, gw_transpose(s, batch, -1, -2), numbers(s, d, GW_SHAPE(3, 5, 7, 2)), t);
}

static void check_all(void) {
    static const gw_dtype dtypes[] = { GW_F32, GW_F64, GW_F16, GW_BF16, GW_I64, GW_I32, GW_I16 };
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++) {
        gw_scope *s = gw_scope_open(NULL);
        testing_note("%s", gw_dtype_name(dtypes[i]));
        check_dtype(s, dtypes[i]);
        gw_scope_close_up(s);
    }
}

static void it_multiplies_every_dtype_and_layout(void **state) {
    (void)state;
    check_all();
}

static void it_does_so_without_a_library(void **state) {
    (void)state;
    setenv("GW_BLAS", "plain", 1);
    check_all();
    assert_string_equal(blas_description(), "plain");
}

static void vectors_are_rows_on_the_left_and_columns_on_the_right(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *v = gw_from(s, ((float[]){ 1, 2, 3 }), 3);
    gw_tensor *m = gw_reshape(s, gw_arange(s, GW_F32, 0, 6, 1), 2, 3);
    gw_tensor *batch = gw_reshape(s, gw_arange(s, GW_F32, 0, 12, 1), 2, 2, 3);
    expect_text(s, gw_matmul(s, v, v), GW_F32, "tensor(14.)");
    expect_text(s, gw_matmul(s, m, v), GW_F32, "tensor([ 8., 26.])");
    expect_text(s, gw_matmul(s, v, gw_transpose(s, m, 0, 1)), GW_F32, "tensor([ 8., 26.])");
    expect_text(s, gw_matmul(s, batch, v), GW_F32, "tensor([[ 8., 26.],\n        [44., 62.]])");
    expect_text(s, gw_matmul(s, v, gw_transpose(s, batch, 1, 2)), GW_F32,
                "tensor([[ 8., 26.],\n        [44., 62.]])");
    gw_scope_close_up(s);
}

static void batches_broadcast(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *a = gw_randn(s, GW_F64, 4, 1, 2, 3), *b = gw_randn(s, GW_F64, 5, 3, 2);
    gw_tensor *c = gw_matmul(s, a, b);
    expect_shape(s, c, "4x5x2x2");
    for (int64_t i = 0; i < 4; i++)
        for (int64_t j = 0; j < 5; j++)
            for (int64_t e = 0; e < 4; e++)
                expect_near(element(c, (i * 5 + j) * 4 + e), product_at(a, b, i, j, e / 2, e % 2),
                            1e-12);
    gw_scope_close_up(s);
}

static void nothing_times_something_is_zero_or_nothing(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    expect_text(s, gw_matmul(s, gw_zeros(s, GW_F32, 2, 0), gw_zeros(s, GW_F32, 0, 2)), GW_F32,
                "tensor([[0., 0.],\n        [0., 0.]])");
    expect_shape(s, gw_matmul(s, gw_zeros(s, GW_F32, 0, 3), gw_zeros(s, GW_F32, 3, 2)), "0x2");
    expect_shape(s, gw_matmul(s, gw_zeros(s, GW_F32, 0, 2, 3), gw_zeros(s, GW_F32, 3, 2)), "0x2x2");
    expect_text(s, gw_matmul(s, gw_zeros(s, GW_F32, 0), gw_zeros(s, GW_F32, 0)), GW_F32,
                "tensor(0.)");
    expect_text(
        s,
        gw_linear(s, gw_zeros(s, GW_F32, 2, 0), gw_zeros(s, GW_F32, 2, 0), gw_ones(s, GW_F32, 2)),
        GW_F32, "tensor([[1., 1.],\n        [1., 1.]])");
    expect_shape(s, gw_linear(s, gw_zeros(s, GW_F32, 2, 3), gw_zeros(s, GW_F32, 0, 3), NULL),
                 "2x0");
    gw_scope_close_up(s);
}

static void mismatched_arguments_are_errors(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *x = gw_zeros(s, GW_F32, 6, 5), *y = gw_zeros(s, GW_F32, 4, 8);
    gw_matmul(s, x, y);
    expect_fails(s, "gw.matmul: 6x5 times 4x8: the 5 columns of a must be the 4 rows of b");
    gw_matmul(s, gw_zeros(s, GW_F32), x);
    expect_fails(s, "gw.matmul: scalar times 6x5: both must have at least one dimension");
    gw_matmul(s, x, gw_zeros(s, GW_F32, 6));
    expect_fails(s, "gw.matmul: 6x5 times 6: the 5 columns of a must be the 6 rows of b");
    gw_matmul(s, gw_zeros(s, GW_F32, 2, 3, 4), gw_zeros(s, GW_F32, 3, 4, 5));
    expect_fails(
        s, "gw.matmul: 2x3x4 times 3x4x5: the dimensions before the matrices must be equal or 1");
    gw_matmul(s, x, gw_zeros(s, GW_F64, 5, 2));
    expect_fails(
        s, "gw.matmul: f32 times f64: both must have the same dtype; gw_to_dtype converts one");
    gw_linear(s, x, y, NULL);
    expect_fails(s, "gw.linear: x is 6x5 and weight 4x8, but x must be ... F and the weight O F");
    gw_linear(s, x, gw_zeros(s, GW_F32, 2, 5), gw_zeros(s, GW_F32, 3));
    expect_fails(s, "gw.linear: bias is 3 of f32 and weight 2x5 of f32, but bias must be O, of the "
                    "same dtype, for a weight O F");
    gw_matmul(s, gw_zeros(s, GW_BOOL8, 2, 2), gw_zeros(s, GW_BOOL8, 2, 2));
    assert_string_equal(gw_scope_error(s)->text,
                        "gw.matmul: matrices of bool cannot be multiplied");
    assert_int_equal(gw_scope_error(s)->status, GW_UNSUPPORTED);
    gw_scope_clear(s);
    gw_scope_close_up(s);
}

static void small_integers_wrap_around(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *x = gw_full(s, GW_I8, 100, 2, 2);
    expect_text(s, gw_matmul(s, x, x), GW_I8, "tensor([[32, 32],\n        [32, 32]], dtype=i8)");
    gw_scope_close_up(s);
}

// x: N F or more dimensions, by definition.
static void check_linear(gw_scope *s, gw_tensor *x, gw_tensor *weight, gw_tensor *bias) {
    gw_tensor *y = gw_linear(s, x, weight, bias);
    assert_string_equal(gw_scope_error(s)->text, "");
    int64_t f = weight->sizes[1], o = weight->sizes[0];
    assert_int_equal(y->dims, x->dims);
    for (int64_t i = 0; i < y->numel; i++) {
        double sum = bias ? element(bias, i % o) : 0;
        for (int64_t p = 0; p < f; p++)
            sum += element(x, i / o * f + p) * element(weight, i % o * f + p);
        expect_near(element(y, i), sum, 1e-5);
    }
}

static void linear_is_x_times_weight_transposed_plus_bias(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *weight = gw_randn(s, GW_F32, 6, 5), *bias = gw_randn(s, GW_F32, 6);
    gw_tensor *x = gw_randn(s, GW_F32, 2, 3, 5);
    check_linear(s, x, weight, bias);
    check_linear(s, x, weight, NULL);
    check_linear(s, gw_transpose(s, x, 0, 1), weight, bias);
    check_linear(s, gw_randn(s, GW_F32, 5), weight, bias);
    check_linear(s, gw_transpose(s, gw_randn(s, GW_F32, 5, 4), 0, 1), weight, bias);
    check_linear(s, gw_expand(s, gw_randn(s, GW_F32, 1, 5), 4, 5), weight, bias);
    check_linear(s, x, gw_transpose(s, gw_randn(s, GW_F32, 5, 6), 0, 1), bias);
    check_linear(s, x, weight, gw_expand(s, gw_randn(s, GW_F32, 1), 6));
    check_linear(s, x, weight, gw_slice(s, gw_randn(s, GW_F32, 12), 0, 0, 12, 2));
    gw_scope_close_up(s);
}

static void the_same_operands_give_the_same_bits(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *a = gw_randn(s, GW_F32, 65, 130), *b = gw_randn(s, GW_F32, 130, 70);
    gw_tensor *first = gw_matmul(s, a, b);
    for (int i = 0; i < 5; i++)
        assert_true(same_bits(first, gw_matmul(s, gw_clone(s, a), gw_clone(s, b))));
    gw_scope_close_up(s);
}

GW_TESTS(tensor_op_matmul, it_multiplies_every_dtype_and_layout, it_does_so_without_a_library,
         vectors_are_rows_on_the_left_and_columns_on_the_right, batches_broadcast,
         nothing_times_something_is_zero_or_nothing, mismatched_arguments_are_errors,
         small_integers_wrap_around, linear_is_x_times_weight_transposed_plus_bias,
         the_same_operands_give_the_same_bits);
