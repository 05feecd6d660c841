#include "testing/op_expect.h"

// By definition, one after the other in double. |dim| -1: everything.
typedef struct naive {
    double sum, mean, var, max, min;
    int64_t argmax, argmin;
} naive;

static naive naive_of(const gw_tensor *x, int64_t first, int64_t n, int64_t step) {
    naive r = { .max = -INFINITY, .min = INFINITY };
    for (int64_t i = 0; i < n; i++) r.sum += element(x, first + i * step);
    r.mean = r.sum / (double)n;
    for (int64_t i = 0; i < n; i++) {
        double v = element(x, first + i * step);
        r.var += (v - r.mean) * (v - r.mean) / (double)(n - 1);
        if (v > r.max) r.max = v, r.argmax = i;
        if (v < r.min) r.min = v, r.argmin = i;
    }
    return r;
}

static void compare(gw_scope *s, gw_tensor *x, int dim, bool keep, double tolerance) {
    int64_t inner = 1, n = x->sizes[dim];
    for (int i = dim + 1; i < x->dims; i++) inner *= x->sizes[i];
    gw_tensor *sum = gw_sum(s, x, .dim = dim, .keepdim = keep),
              *mean = gw_mean(s, x, .dim = dim, .keepdim = keep);
    gw_tensor *var = gw_var(s, x, .dim = dim, .keepdim = keep),
              *std = gw_std(s, x, .dim = dim, .keepdim = keep);
    gw_tensor *max = gw_max(s, x, .dim = dim, .keepdim = keep),
              *min = gw_min(s, x, .dim = dim, .keepdim = keep);
    gw_tensor *argmax = gw_argmax(s, x, .dim = dim, .keepdim = keep);
    gw_tensor *argmin = gw_argmin(s, x, .dim = dim, .keepdim = keep);
    assert_string_equal(gw_scope_error(s)->text, "");
    assert_int_equal(sum->dims, x->dims - !keep);
    if (keep) assert_int_equal(argmin->sizes[dim], 1);
    for (int64_t i = 0; i < sum->numel; i++) {
        naive e = naive_of(x, i / inner * inner * n + i % inner, n, inner);
        expect_near(element(sum, i), e.sum, tolerance);
        expect_near(element(mean, i), e.mean, tolerance);
        expect_near(element(var, i), e.var, tolerance);
        expect_near(element(std, i), sqrt(e.var), tolerance);
        assert_true(element(max, i) == e.max && element(min, i) == e.min);
        assert_true(element(argmax, i) == (double)e.argmax);
        assert_true(element(argmin, i) == (double)e.argmin);
    }
}

static void compare_all(gw_scope *s, gw_tensor *x, double tolerance) {
    naive e = naive_of(x, 0, x->numel, 1);
    expect_near(gw_item(s, gw_sum(s, x)), e.sum, tolerance);
    expect_near(gw_item(s, gw_mean(s, x)), e.mean, tolerance);
    expect_near(gw_item(s, gw_var(s, x)), e.var, tolerance);
    expect_near(gw_item(s, gw_std(s, x)), sqrt(e.var), tolerance);
    expect_near(gw_item(s, gw_max(s, x)), e.max, 0);
    expect_near(gw_item(s, gw_min(s, x)), e.min, 0);
    assert_int_equal(gw_item_int(s, gw_argmax(s, x)), e.argmax);
    assert_int_equal(gw_item_int(s, gw_argmin(s, x)), e.argmin);
    for (int dim = 0; dim < x->dims; dim++) {
        testing_note("%s of %s along %d", shape_text(x).text, gw_dtype_name(x->dtype), dim);
        compare(s, x, dim, false, tolerance);
        compare(s, x, dim, true, tolerance);
    }
}

static void it_reduces_every_float_shape_and_layout(void **state) {
    (void)state;
    static const gw_dtype dtypes[] = { GW_F32, GW_F64, GW_F16, GW_BF16 };
    static const double tolerances[] = { 2e-6, 1e-13, 2e-3, 2e-2 };
    static const int64_t shapes[][3] = {
        { 2, 3, 4 }, { 3, 2, 100 }, { 1, 1030, 3 }, { 2, 37, 65 }, { 1, 2, 2500 }, { 70, 2, 1 },
    };
    for (size_t d = 0; d < 4; d++) {
        for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
            gw_scope *s = gw_scope_open(NULL);
            gw_tensor *x =
                gw_to_dtype(s, gw_randn_with(s, GW_F64, (gw_shape){ 3, shapes[i] }), dtypes[d]);
            compare_all(s, x, tolerances[d]);
            compare_all(s, gw_transpose(s, x, 0, 2), tolerances[d]);
            gw_scope_close_up(s);
        }
    }
}

static void it_sums_integers_as_i64(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    expect_text(s, gw_sum(s, gw_full(s, GW_U8, 255, 1000)), GW_I64, "tensor(255000)");
    expect_text(s, gw_sum(s, gw_ones(s, GW_BOOL8, 7)), GW_I64, "tensor(7)");
    gw_tensor *x = gw_from(s, ((int8_t[]){ 1, 2, -3, 4, 5, 6 }), 2, 3);
    expect_text(s, gw_sum(s, x, .dim = 0), GW_I64, "tensor([5, 7, 3])");
    expect_text(s, gw_sum(s, x, .dim = 1, .keepdim = true), GW_I64,
                "tensor([[ 0],\n        [15]])");
    expect_text(s, gw_sum(s, gw_full(s, GW_I64, INT64_MAX, 2)), GW_I64, "tensor(-2)");
    gw_tensor *many = gw_full(s, GW_I8, -3, 2, 3001);
    expect_text(s, gw_sum(s, many, .dim = 1), GW_I64, "tensor([-9003, -9003])");
    expect_text(s, gw_sum(s, gw_transpose(s, many, 0, 1)), GW_I64, "tensor(-18006)");
    gw_scope_close_up(s);
}

static void means_and_spreads_need_floats(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *x = gw_ones(s, GW_I64, 2);
    gw_mean(s, x);
    expect_fails(s, "gw.mean: i64 is not a float dtype, but must be one; gw_to_dtype converts it");
    gw_var(s, x);
    expect_fails(s, "gw.var: i64 is not a float dtype, but must be one; gw_to_dtype converts it");
    gw_std(s, gw_ones(s, GW_BOOL8, 2), .dim = 0);
    expect_fails(s, "gw.std: bool is not a float dtype, but must be one; gw_to_dtype converts it");
    gw_scope_close_up(s);
}

static void sums_of_halves_do_not_stick(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    // In f16 itself 2048 + 1 is 2048.
    expect_text(s, gw_sum(s, gw_ones(s, GW_F16, 4096)), GW_F16, "tensor(4096., dtype=f16)");
    expect_near(gw_item(s, gw_mean(s, gw_full(s, GW_F16, 60000.0, 100))), 60000, 1e-3);
    gw_scope_close_up(s);
}

static void long_sums_stay_exact_to_a_few_roundings(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *x = gw_full(s, GW_F32, 0.1, 1 << 20);
    double sum = (double)0.1f * (1 << 20);
    expect_near(gw_item(s, gw_sum(s, x)), sum, 1e-6);
    expect_near(gw_item(s, gw_sum(s, gw_sum(s, gw_view(s, x, -1, 2), .dim = 0))), sum, 1e-6);
    // The mean is far from 0, the numbers close to each other.
    gw_tensor *far = gw_add(s, gw_mul(s, gw_rand(s, GW_F32, 1000), 0.01), 100.0);
    naive e = naive_of(far, 0, 1000, 1);
    expect_near(gw_item(s, gw_var(s, far)) / e.var, 1, 1e-6);
    gw_scope_close_up(s);
}

static void the_sum_of_nothing_is_zero_and_its_mean_nan(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *x = gw_zeros(s, GW_F32, 0, 3);
    expect_text(s, gw_sum(s, x), GW_F32, "tensor(0.)");
    expect_text(s, gw_sum(s, x, .dim = 0), GW_F32, "tensor([0., 0., 0.])");
    expect_shape(s, gw_sum(s, x, .dim = 1), "0");
    expect_text(s, gw_mean(s, x), GW_F32, "tensor(nan)");
    expect_text(s, gw_var(s, gw_ones(s, GW_F32, 1)), GW_F32, "tensor(nan)");
    expect_text(s, gw_std(s, x, .dim = 0), GW_F32, "tensor([nan, nan, nan])");
    gw_scope_close_up(s);
}

static void scalars_have_one_dimension_to_reduce(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *x = gw_full(s, GW_F32, 2.5);
    expect_text(s, gw_sum(s, x, .dim = 0), GW_F32, "tensor(2.5000)");
    expect_text(s, gw_max(s, x, .dim = -1, .keepdim = true), GW_F32, "tensor(2.5000)");
    expect_text(s, gw_argmax(s, x, .dim = 0), GW_I64, "tensor(0)");
    expect_text(s, gw_cumsum(s, x, 0), GW_F32, "tensor(2.5000)");
    gw_sum(s, x, .dim = 1);
    expect_fails(s, "gw.sum: dimension 1 was given for scalar, but it must be -1 to 0");
    gw_sum(s, gw_zeros(s, GW_F32, 2, 3), .dim = -3);
    expect_fails(s, "gw.sum: dimension -3 was given for 2x3, but it must be -2 to 1");
    gw_scope_close_up(s);
}

static void sums_are_the_same_bits_each_time(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *x = gw_randn(s, GW_F32, 77, 1333);
    // Also from another address, and along columns as along rows.
    gw_tensor *moved = gw_slice(
        s, gw_cat(s, (gw_tensor *[]){ gw_ones(s, GW_F32, 1, 1333), x }, 2, 0), 0, 1, 78, 1);
    assert_true(same_bits(gw_sum(s, x), gw_sum(s, moved)));
    assert_true(same_bits(gw_sum(s, x, .dim = 0), gw_sum(s, moved, .dim = 0)));
    assert_true(same_bits(gw_var(s, x, .dim = 1), gw_var(s, moved, .dim = 1)));
    assert_true(gw_ok(s));
    gw_scope_close_up(s);
}

GW_TESTS(tensor_op_reduce, it_reduces_every_float_shape_and_layout, it_sums_integers_as_i64,
         means_and_spreads_need_floats, sums_of_halves_do_not_stick,
         long_sums_stay_exact_to_a_few_roundings, the_sum_of_nothing_is_zero_and_its_mean_nan,
         scalars_have_one_dimension_to_reduce, sums_are_the_same_bits_each_time);
