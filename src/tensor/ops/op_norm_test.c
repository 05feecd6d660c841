#include "testing/op_expect.h"

static void check(gw_scope *s, gw_tensor *x, int64_t n, gw_shape normalized, gw_tensor *weight,
                  gw_tensor *bias, double tolerance) {
    gw_tensor *y = gw_layer_norm(s, x, normalized, weight, bias, 1e-3);
    assert_string_equal(gw_scope_error(s)->text, "");
    for (int64_t r = 0; r < x->numel / n; r++) {
        double mean = 0, variance = 0;
        for (int64_t i = 0; i < n; i++) mean += element(x, r * n + i) / (double)n;
        for (int64_t i = 0; i < n; i++)
            variance += pow(element(x, r * n + i) - mean, 2) / (double)n;
        for (int64_t i = 0; i < n; i++) {
            double z = (element(x, r * n + i) - mean) / sqrt(variance + 1e-3);
            if (weight) z *= element(weight, i);
            if (bias) z += element(bias, i);
            expect_near(element(y, r * n + i), z, tolerance);
        }
    }
}

static void it_is_the_definition(void **state) {
    (void)state;
    static const gw_dtype dtypes[] = { GW_F32, GW_F64, GW_F16 };
    static const double tolerances[] = { 2e-6, 1e-12, 4e-3 };
    for (int d = 0; d < 3; d++) {
        gw_scope *s = gw_scope_open(NULL);
        gw_tensor *x = gw_to_dtype(s, gw_randn(s, GW_F64, 4, 3, 50), dtypes[d]);
        gw_tensor *w = gw_to_dtype(s, gw_rand(s, GW_F64, 50), dtypes[d]);
        gw_tensor *b = gw_to_dtype(s, gw_randn(s, GW_F64, 50), dtypes[d]);
        double t = tolerances[d];
        check(s, x, 50, GW_SHAPE(50), w, b, t);
        check(s, x, 50, GW_SHAPE(50), w, NULL, t);
        check(s, x, 50, GW_SHAPE(50), NULL, b, t);
        check(s, x, 150, GW_SHAPE(3, 50), NULL, NULL, t);
        check(s, gw_transpose(s, x, 0, 1), 200, GW_SHAPE(4, 50), NULL, NULL, t);
        check(s, gw_transpose(s, x, 0, 2), 4, GW_SHAPE(4), NULL, NULL, t);
        gw_scope_close_up(s);
    }
}

// The gradient of a sum does not depend on x, and a shift of x changes nothing.
static void a_row_of_equal_numbers_becomes_the_bias(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *x = gw_requires_grad(s, gw_full(s, GW_F32, 1e6, 2, 3));
    gw_tensor *bias = gw_from(s, ((float[]){ 1, 2, 3 }), 3);
    gw_tensor *y = gw_layer_norm(s, x, GW_SHAPE(3), NULL, bias, 1e-5);
    expect_text(s, y, GW_F32, "tensor([[1., 2., 3.],\n        [1., 2., 3.]])");
    gw_backward(s, gw_sum(s, y));
    expect_values(s, gw_grad(s, x), (double[]){ 0, 0, 0, 0, 0, 0 }, 1e-6);
    gw_scope_close_up(s);
}

static void it_refuses_invalid_arguments(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *x = gw_zeros(s, GW_F32, 2, 3), *w = gw_zeros(s, GW_F32, 2);
    gw_layer_norm(s, x, GW_SHAPE(2), NULL, NULL, 1e-5);
    expect_fails(s, "gw.layer_norm: 2x3 must end in the sizes 2");
    gw_layer_norm(s, x, GW_SHAPE(1, 2, 3), NULL, NULL, 1e-5);
    expect_fails(s, "gw.layer_norm: 2x3 must end in the sizes 1x2x3");
    gw_layer_norm(s, x, GW_SHAPE(), NULL, NULL, 1e-5);
    expect_fails(s, "gw.layer_norm: 2x3 must end in the sizes nothing");
    gw_layer_norm(s, x, GW_SHAPE(3), w, NULL, 1e-5);
    expect_fails(s, "gw.layer_norm: weight is 2 of f32, but must be 3 of f32");
    gw_layer_norm(s, x, GW_SHAPE(3), NULL, gw_zeros(s, GW_F64, 3), 1e-5);
    expect_fails(s, "gw.layer_norm: bias is 3 of f64, but must be 3 of f32");
    gw_layer_norm(s, gw_zeros(s, GW_I64, 3), GW_SHAPE(3), NULL, NULL, 1e-5);
    expect_fails(
        s, "gw.layer_norm: i64 is not a float dtype, but must be one; gw_to_dtype converts it");
    expect_shape(s, gw_layer_norm(s, gw_zeros(s, GW_F32, 2, 0), GW_SHAPE(0), NULL, NULL, 1e-5),
                 "2x0");
    gw_scope_close_up(s);
}

static void a_constant_row_is_0_in_every_dtype(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    const gw_dtype dtypes[] = { GW_F32, GW_F64, GW_F16, GW_BF16 };
    const double numbers[] = { 0.1, -333.3, 6e4 };
    for (int i = 0; i < 12; i++) {
        gw_scope *t = gw_scope_open(s);
        gw_tensor *x = gw_requires_grad(t, gw_full(t, dtypes[i % 4], numbers[i / 4], 2, 37));
        gw_tensor *y = gw_layer_norm(t, x, GW_SHAPE(37), NULL, NULL, 1e-5);
        expect_near(gw_item(t, gw_max(t, gw_abs(t, y))), 0, 1e-9);
        gw_backward(t, gw_sum(t, y));
        expect_near(gw_item(t, gw_max(t, gw_abs(t, gw_grad(t, x)))), 0, 1e-9);
        gw_scope_close_up(t);
    }
    gw_scope_close_up(s);
}

GW_TESTS(tensor_op_norm, a_constant_row_is_0_in_every_dtype, it_is_the_definition,
         a_row_of_equal_numbers_becomes_the_bias, it_refuses_invalid_arguments);
