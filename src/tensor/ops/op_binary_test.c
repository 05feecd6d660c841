#include "base/mem.h"
#include "tensor/dtype.h"
#include "tensor/ops/op.h"
#include "testing/samples.h"
#include "testing/op_expect.h"
#include "testing/testing.h"
#include <gradwire/ops.h>

#include <math.h>

static void assert_text(gw_scope *s, gw_tensor *x, const char *text) {
    assert_string_equal(gw_scope_error(s)->text, "");
    assert_string_equal(gw_to_text(s, x), text);
}

static void assert_fails(gw_scope *s, const char *text) {
    assert_int_equal(gw_scope_error(s)->status, GW_INVALID);
    assert_string_equal(gw_scope_error(s)->text, text);
    gw_scope_clear(s);
}

// ---- Broadcasting, against loops over indices ---------------------------------------------------
static double at(const gw_tensor *x, const int64_t *index, int dims) {
    int64_t offset = 0;
    for (int i = 0; i < x->dims; i++) {
        int64_t k = index[dims - x->dims + i];
        offset += (x->sizes[i] == 1 ? 0 : k) * x->strides[i];
    }
    return dtype_read((gw_dtype)x->dtype,
                      tensor_bytes(x) + offset * (int64_t)gw_dtype_size((gw_dtype)x->dtype));
}

static void check_sum(const gw_tensor *a, const gw_tensor *b, const gw_tensor *y) {
    int64_t index[GW_DIMS_MAX] = { 0 };
    double tolerance = y->dtype == GW_F16 ? 0.02 : 1e-5;
    for (int64_t n = 0; n < y->numel; n++) {
        double expected = at(a, index, y->dims) + at(b, index, y->dims);
        assert_true(fabs(at(y, index, y->dims) - expected) <= tolerance);
        for (int i = y->dims - 1; i >= 0 && ++index[i] == y->sizes[i]; i--) index[i] = 0;
    }
}

static uint32_t random_below(uint32_t *state, uint32_t n) {
    *state = *state * 1664525 + 1013904223;
    return (*state >> 10) % n;
}

// A tensor that broadcasts to |sizes|, in an odd layout.
static gw_tensor *odd_tensor(gw_scope *s, op_sampler *p, uint32_t *r, int dims,
                             const int64_t *sizes) {
    int skip = random_below(r, 4) ? 0 : (int)random_below(r, (uint32_t)dims + 1);
    int64_t own[GW_DIMS_MAX];
    for (int i = skip; i < dims; i++) own[i - skip] = random_below(r, 4) ? sizes[i] : 1;
    dims -= skip;
    gw_dtype dtype = random_below(r, 3) ? GW_F32 : random_below(r, 2) ? GW_F16 : GW_I16;
    if (dims && random_below(r, 3) == 0) own[dims - 1] = own[dims - 1] * 2;  // every second one
    gw_tensor *x = sample_shaped(p, dtype, -9, 9, (gw_shape){ dims, own });
    if (dims && own[dims - 1] > 1 && own[dims - 1] != sizes[skip + dims - 1])
        x = gw_slice(s, x, -1, 1, INT64_MAX, 2);
    if (dims > 1 && random_below(r, 2)) {  // laid out the other way round
        int a = (int)random_below(r, (uint32_t)dims), b = (int)random_below(r, (uint32_t)dims);
        x = gw_transpose(s, gw_contiguous(s, gw_transpose(s, x, a, b)), a, b);
    }
    return x;
}

static void broadcast_once(uint64_t seed, void *context) {
    (void)context;
    gw_scope *s = gw_scope_open(NULL);
    op_sampler p = { .scope = s, .seed = seed };
    uint32_t r = (uint32_t)seed;
    int dims = (int)random_below(&r, 5);
    int64_t sizes[GW_DIMS_MAX];
    for (int i = 0; i < dims; i++) sizes[i] = random_below(&r, 30) ? 1 + random_below(&r, 6) : 0;
    if (dims && random_below(&r, 8) == 0) sizes[dims - 1] = 2500;  // more than a chunk
    gw_tensor *a = odd_tensor(s, &p, &r, dims, sizes), *b = odd_tensor(s, &p, &r, dims, sizes);
    gw_tensor *y = gw_add(s, a, b);
    assert_string_equal(gw_scope_error(s)->text, "");
    check_sum(a, b, y);
    gw_scope_close_up(s);
}

static void shapes_broadcast_in_any_layout(void **state) {
    (void)state;
    testing_for_seeds(2000, broadcast_once, NULL);
}

// Packed copies in f32, not results in f16.
static int fail_packing(size_t size) {
    return size == 301 * 253 * sizeof(float);
}

// Large enough for rows that lie apart to be packed first, unless there is no memory for it.
static void a_transposed_matrix_adds_like_its_copy(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *x = gw_rand(s, GW_F16, 301, 253), *y = gw_rand(s, GW_F32, 1, 253, 301);
    gw_tensor *t = gw_transpose(s, x, 0, 1), *copy = gw_contiguous(s, t);
    gw_tensor *expected = gw_add(s, copy, y);
    assert_true(gw_equal(s, gw_add(s, t, y), expected));
    gw_tensor *column = gw_slice(s, x, 1, 3, 4, 1);
    assert_true(gw_equal(s, gw_mul(s, t, gw_transpose(s, column, 0, 1)),
                         gw_mul(s, copy, gw_contiguous(s, gw_transpose(s, column, 0, 1)))));
    mem_fail_hook = fail_packing;
    gw_tensor *slowly = gw_add(s, gw_transpose(s, x, 0, 1), gw_full(s, GW_F16, 0.5));
    mem_fail_hook = NULL;
    assert_true(gw_equal(s, slowly, gw_add(s, copy, gw_full(s, GW_F16, 0.5))));
    gw_scope_close_up(s);
}

static void shapes_that_do_not_fit_are_named(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_add(s, gw_ones(s, GW_F32, 1, 3), gw_ones(s, GW_F32, 5, 4));
    assert_fails(s, "gw.add: 1x3 and 5x4 do not broadcast: counted from the last dimension, sizes "
                    "must be equal or 1");
    gw_where(s, gw_ones(s, GW_BOOL8, 2), gw_ones(s, GW_F32, 3), 0.0);
    assert_fails(s, "gw.where: 2 and 3 do not broadcast: counted from the last dimension, sizes "
                    "must be equal or 1");
    gw_add(s, 1, 2);
    assert_fails(s, "gw.add: one of the two operands must be a tensor");
    gw_scope_close_up(s);
}

// ---- Rules of dtypes ----------------------------------------------------------------------------
static void integers_wrap_around(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *i8 = gw_from(s, ((int8_t[]){ 127, -128, 100 }), 3);
    assert_text(s, gw_add(s, i8, 1), "tensor([-128, -127,  101], dtype=i8)");
    assert_text(s, gw_mul(s, i8, i8), "tensor([ 1,  0, 16], dtype=i8)");
    gw_tensor *i64 = gw_full(s, GW_I64, INT64_MAX, 1);
    assert_text(s, gw_add(s, i64, 1), "tensor([-9223372036854775808])");
    assert_text(s, gw_sub(s, gw_from(s, ((uint8_t[]){ 3 }), 1), 5), "tensor([254], dtype=u8)");
    assert_text(s, gw_mul(s, gw_full(s, GW_I16, 300, 1), 300), "tensor([24464], dtype=i16)");
    gw_scope_close_up(s);
}

static void bools_follow_pytorch(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *a = gw_from(s, ((bool[]){ true, true, false }), 3);
    gw_tensor *b = gw_from(s, ((bool[]){ true, false, false }), 3);
    assert_text(s, gw_add(s, a, b), "tensor([ True,  True, False])");
    assert_text(s, gw_mul(s, a, b), "tensor([ True, False, False])");
    assert_text(s, gw_maximum(s, a, b), "tensor([ True,  True, False])");
    assert_text(s, gw_add(s, a, 1), "tensor([2, 2, 1])");
    assert_text(s, gw_div(s, a, 2), "tensor([0.5000, 0.5000, 0.0000])");
    gw_sub(s, a, b);
    assert_fails(s, "gw.sub: bools cannot be subtracted; gw_ne shows where two differ");
    gw_pow(s, a, b);
    assert_fails(s, "gw.pow: bool is not supported: the operands must be numbers");
    gw_scope_close_up(s);
}

static void division_is_true(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    assert_text(s, gw_div(s, gw_from(s, ((int64_t[]){ 7, -7, 0 }), 3), 0),
                "tensor([inf, -inf, nan])");
    assert_text(s, gw_div(s, gw_full(s, GW_I32, 7, 1), 2), "tensor([3.5000])");
    gw_scope_close_up(s);
}

static void powers_of_integers_stay_integers(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *x = gw_from(s, ((int64_t[]){ -2, -1, 0, 1, 2 }), 5);
    assert_text(s, gw_pow(s, x, 5), "tensor([-32,  -1,   0,   1,  32])");
    assert_text(s, gw_pow(s, x, 0), "tensor([1, 1, 1, 1, 1])");
    assert_text(s, gw_pow(s, x, gw_full(s, GW_I64, -3, 5)), "tensor([ 0, -1,  0,  1,  0])");
    assert_text(s, gw_pow(s, 2, gw_arange(s, GW_I64, 0, 5, 1)), "tensor([ 1,  2,  4,  8, 16])");
    gw_pow(s, x, -1);
    assert_fails(s, "gw.pow: integers cannot be raised to the negative power -1: the power must be "
                    "0 or more, or x a float");
    assert_text(s, gw_pow(s, gw_from(s, ((float[]){ 0, -8, 4 }), 3), -0.5),
                "tensor([   inf,    nan, 0.5000])");
    gw_scope_close_up(s);
}

static void comparisons_see_large_integers_and_nan(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *x = gw_full(s, GW_I64, (INT64_C(1) << 53) + 1, 1);
    assert_text(s, gw_eq(s, x, INT64_C(1) << 53), "tensor([False])");
    assert_text(s, gw_lt(s, gw_full(s, GW_I32, 5, 1), INT64_C(1) << 40), "tensor([True])");
    gw_tensor *n = gw_from(s, ((float[]){ NAN, 1 }), 2);
    assert_text(s, gw_eq(s, n, n), "tensor([False,  True])");
    assert_text(s, gw_ne(s, n, n), "tensor([ True, False])");
    assert_text(s, gw_ge(s, n, 0), "tensor([False,  True])");
    assert_text(s, gw_maximum(s, n, 0), "tensor([nan, 1.])");
    assert_text(s, gw_minimum(s, gw_zeros(s, GW_F32, 2), n), "tensor([nan, 0.])");
    gw_scope_close_up(s);
}

static void where_requires_a_bool(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_where(s, gw_ones(s, GW_F32, 2), 1, 2);
    assert_fails(s, "gw.where: the condition must be bool, not f32");
    gw_tensor *c = gw_from(s, ((bool[]){ true, false }), 2);
    assert_text(s, gw_where(s, c, 1, 2.5), "tensor([1.0000, 2.5000])");
    assert_text(s, gw_where(s, c, gw_full(s, GW_I8, 3), -1), "tensor([ 3, -1], dtype=i8)");
    gw_scope_close_up(s);
}

static void both_get_the_gradient_where_one_is_nan(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    for (int k = 0; k < 2; k++) {
        gw_scope *t = gw_scope_open(s);
        gw_tensor *a = gw_requires_grad(t, gw_from(t, ((float[]){ NAN, 1, 3, 2, 1 }), 5));
        gw_tensor *b = gw_requires_grad(t, gw_from(t, ((float[]){ 1, NAN, 1, 2, 3 }), 5));
        gw_tensor *y = k ? gw_minimum(t, a, b) : gw_maximum(t, a, b);
        expect_values(t, y, (double[]){ NAN, NAN, k ? 1 : 3, 2, k ? 1 : 3 }, 0);
        gw_backward(t, gw_sum(t, y));
        expect_values(t, gw_grad(t, k ? b : a), (double[]){ 1, 1, 1, 0.5, 0 }, 0);
        expect_values(t, gw_grad(t, k ? a : b), (double[]){ 1, 1, 0, 0.5, 1 }, 0);
        gw_scope_close_up(t);
    }
    gw_scope_close_up(s);
}

// d (a / b) is -(a / b) / b, whose parts do not fit into a half where the product with the gradient
// does.
static void gradients_of_halves_do_not_overflow_on_the_way(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *a = gw_requires_grad(s, gw_full(s, GW_F16, 100.0, 1));
    gw_tensor *b = gw_requires_grad(s, gw_full(s, GW_F16, 0.001, 1));
    gw_backward(s, gw_div(s, a, b), .gradient = gw_full(s, GW_F16, 1e-4, 1));
    expect_values(s, gw_grad(s, b), (double[]){ -1e4 }, 2e-3);
    gw_tensor *c = gw_requires_grad(s, gw_full(s, GW_F16, 200.0, 1));
    gw_backward(s, gw_pow(s, c, 4), .gradient = gw_full(s, GW_F16, 1e-4, 1));
    expect_values(s, gw_grad(s, c), (double[]){ 3200 }, 2e-3);
    gw_scope_close_up(s);
}

GW_TESTS(tensor_op_binary, gradients_of_halves_do_not_overflow_on_the_way,
         both_get_the_gradient_where_one_is_nan, shapes_broadcast_in_any_layout,
         a_transposed_matrix_adds_like_its_copy, shapes_that_do_not_fit_are_named,
         integers_wrap_around, bools_follow_pytorch, division_is_true,
         powers_of_integers_stay_integers, comparisons_see_large_integers_and_nan,
         where_requires_a_bool);
