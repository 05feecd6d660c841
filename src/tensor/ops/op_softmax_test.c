#include "testing/op_expect.h"

// By definition, in double.
static void check_row(const gw_tensor *x, const gw_tensor *y, const gw_tensor *log_y, int64_t first,
                      int64_t n, int64_t inner, double tolerance) {
    double largest = -INFINITY, sum = 0;
    for (int64_t k = 0; k < n; k++) largest = fmax(largest, element(x, first + k * inner));
    for (int64_t k = 0; k < n; k++) sum += exp(element(x, first + k * inner) - largest);
    for (int64_t k = 0; k < n; k++) {
        int64_t i = first + k * inner;
        expect_near(element(y, i), exp(element(x, i) - largest) / sum, tolerance);
        expect_near(element(log_y, i), element(x, i) - largest - log(sum), tolerance);
    }
}

static void check(gw_scope *s, gw_tensor *x, int dim, double tolerance) {
    int64_t n = x->sizes[dim], inner = 1;
    for (int i = dim + 1; i < x->dims; i++) inner *= x->sizes[i];
    gw_tensor *y = gw_softmax(s, x, dim), *log_y = gw_log_softmax(s, x, dim - x->dims);
    assert_string_equal(gw_scope_error(s)->text, "");
    for (int64_t r = 0; r < x->numel / n; r++)
        check_row(x, y, log_y, r / inner * n * inner + r % inner, n, inner, tolerance);
}

static void it_is_the_definition_for_every_dimension_and_layout(void **state) {
    (void)state;
    static const gw_dtype dtypes[] = { GW_F32, GW_F64, GW_F16, GW_BF16 };
    static const double tolerances[] = { 1e-6, 1e-14, 2e-3, 2e-2 };
    for (int d = 0; d < 4; d++) {
        gw_scope *s = gw_scope_open(NULL);
        gw_tensor *x = gw_mul(s, gw_randn(s, GW_F64, 3, 37, 5), 4.0);
        x = gw_to_dtype(s, x, dtypes[d]);
        for (int dim = 0; dim < 3; dim++) {
            check(s, x, dim, tolerances[d]);
            check(s, gw_transpose(s, x, 0, 2), dim, tolerances[d]);
            check(s, gw_slice(s, x, 1, 1, 30, 3), dim, tolerances[d]);
        }
        check(s, gw_to_dtype(s, gw_randn(s, GW_F64, 1, 1100), dtypes[d]), 1, tolerances[d]);
        gw_scope_close_up(s);
    }
}

static void large_numbers_do_not_overflow(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *x = gw_from(s, ((float[]){ 1e30f, 1e30f, -1e30f }), 3);
    expect_text(s, gw_softmax(s, x, 0), GW_F32, "tensor([0.5000, 0.5000, 0.0000])");
    gw_tensor *near = gw_from(s, ((float[]){ 10000, 10001 }), 2);
    expect_values(s, gw_log_softmax(s, near, 0), (double[]){ -1.3132616875, -0.3132616875 }, 1e-7);
    gw_scope_close_up(s);
}

static void infinities_and_nan_are_as_in_pytorch(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    float rows[] = { -INFINITY, 0, 0, INFINITY, 0, 0, NAN, 0, 0, -INFINITY, -INFINITY, -INFINITY };
    gw_tensor *x = gw_from(s, rows, 4, 3);
    expect_text(s, gw_softmax(s, x, 1), GW_F32,
                "tensor([[0.0000, 0.5000, 0.5000],\n        [   nan,    nan,    nan],\n"
                "        [   nan,    nan,    nan],\n        [   nan,    nan,    nan]])");
    gw_scope_close_up(s);
}

static void a_scalar_is_a_row_of_one(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *x = gw_full(s, GW_F32, 7.0);
    expect_text(s, gw_softmax(s, x, 0), GW_F32, "tensor(1.)");
    expect_text(s, gw_log_softmax(s, x, -1), GW_F32, "tensor(0.)");
    expect_shape(s, gw_softmax(s, gw_zeros(s, GW_F32, 2, 0), 1), "2x0");
    gw_scope_close_up(s);
}

static void it_refuses_integers_and_missing_dimensions(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_softmax(s, gw_zeros(s, GW_I64, 2), 0);
    expect_fails(s,
                 "gw.softmax: i64 is not a float dtype, but must be one; gw_to_dtype converts it");
    gw_log_softmax(s, gw_zeros(s, GW_F32, 2, 3), 2);
    expect_fails(s, "gw.log_softmax: dimension 2 was given for 2x3, but it must be -2 to 1");
    gw_scope_close_up(s);
}

GW_TESTS(tensor_op_softmax, it_is_the_definition_for_every_dimension_and_layout,
         large_numbers_do_not_overflow, infinities_and_nan_are_as_in_pytorch,
         a_scalar_is_a_row_of_one, it_refuses_integers_and_missing_dimensions);
