#include "testing/op_expect.h"

// One number of the result, by the definition. x: N C H W, w: O C/groups K K'.
typedef struct naive {
    const gw_tensor *x, *w, *b;
    int64_t stride[2], padding[2], dilation[2], groups;
} naive;

static double element4(const gw_tensor *x, int64_t a, int64_t b, int64_t c, int64_t d) {
    return element(x, ((a * x->sizes[1] + b) * x->sizes[2] + c) * x->sizes[3] + d);
}

static double naive_at(const naive *v, int64_t n, int64_t o, int64_t i, int64_t j) {
    double sum = v->b ? element(v->b, o) : 0;
    int64_t c_group = v->w->sizes[1], first = o / (v->w->sizes[0] / v->groups) * c_group;
    for (int64_t c = 0; c < c_group; c++)
        for (int64_t k = 0; k < v->w->sizes[2]; k++)
            for (int64_t l = 0; l < v->w->sizes[3]; l++) {
                int64_t y = i * v->stride[0] - v->padding[0] + k * v->dilation[0];
                int64_t x = j * v->stride[1] - v->padding[1] + l * v->dilation[1];
                if (y >= 0 && x >= 0 && y < v->x->sizes[2] && x < v->x->sizes[3])
                    sum += element4(v->x, n, first + c, y, x) * element4(v->w, o, c, k, l);
            }
    return sum;
}

static void check(gw_scope *s, const naive *v, double tolerance) {
    gw_conv_options options = GW_OPTIONS(gw_conv_options, .groups = v->groups);
    for (int i = 0; i < 2; i++) {
        options.stride[i] = v->stride[i];
        options.padding[i] = v->padding[i];
        options.dilation[i] = v->dilation[i];
    }
    gw_tensor *y =
        gw_conv2d_with(s, (gw_tensor *)v->x, (gw_tensor *)v->w, (gw_tensor *)v->b, options);
    assert_string_equal(gw_scope_error(s)->text, "");
    int64_t at = 0;
    for (int64_t n = 0; n < y->sizes[0]; n++)
        for (int64_t o = 0; o < y->sizes[1]; o++)
            for (int64_t i = 0; i < y->sizes[2]; i++)
                for (int64_t j = 0; j < y->sizes[3]; j++)
                    expect_near(element(y, at++), naive_at(v, n, o, i, j), tolerance);
    assert_int_equal(at, y->numel);
}

static void it_is_the_definition(void **state) {
    (void)state;
    static const gw_dtype dtypes[] = { GW_F32, GW_F64, GW_F16 };
    static const double tolerances[] = { 2e-5, 1e-12, 4e-2 };
    for (int d = 0; d < 3; d++) {
        gw_scope *s = gw_scope_open(NULL);
        gw_tensor *x = gw_to_dtype(s, gw_randn(s, GW_F64, 2, 4, 9, 11), dtypes[d]);
        gw_tensor *w = gw_to_dtype(s, gw_randn(s, GW_F64, 6, 2, 3, 2), dtypes[d]);
        gw_tensor *full = gw_to_dtype(s, gw_randn(s, GW_F64, 6, 4, 1, 1), dtypes[d]);
        gw_tensor *b = gw_to_dtype(s, gw_randn(s, GW_F64, 6), dtypes[d]);
        double t = tolerances[d];
        check(s, &(naive){ x, w, b, { 1, 1 }, { 0, 0 }, { 1, 1 }, 2 }, t);
        check(s, &(naive){ x, w, NULL, { 2, 3 }, { 2, 1 }, { 1, 3 }, 2 }, t);
        check(s, &(naive){ x, w, b, { 4, 1 }, { 5, 0 }, { 2, 1 }, 2 }, t);
        check(s, &(naive){ x, full, b, { 1, 1 }, { 0, 0 }, { 1, 1 }, 1 }, t);
        check(s, &(naive){ x, full, b, { 3, 2 }, { 1, 1 }, { 1, 1 }, 1 }, t);
        gw_scope_close_up(s);
    }
}

// Columns of the whole image would be larger than a strip, so that strips have seams.
static void large_images_are_taken_in_strips(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *x = gw_randn(s, GW_F64, 1, 8, 70, 90), *w = gw_randn(s, GW_F64, 2, 8, 3, 3);
    check(s, &(naive){ x, w, NULL, { 1, 1 }, { 1, 1 }, { 1, 1 }, 1 }, 1e-11);

    // The gradients of a sum of products are linear: <conv(x, w), d> = <x, dx> = <w, dw>.
    gw_requires_grad(s, x);
    gw_requires_grad(s, w);
    gw_tensor *y = gw_conv2d(s, x, w, NULL, .padding = { 1, 1 });
    gw_tensor *d = gw_randn(s, GW_F64, 1, 2, 70, 90), *product = gw_sum(s, gw_mul(s, y, d));
    gw_backward(s, product);
    double expected = gw_item(s, product);
    expect_near(gw_item(s, gw_sum(s, gw_mul(s, x, gw_grad(s, x)))), expected, 1e-9);
    expect_near(gw_item(s, gw_sum(s, gw_mul(s, w, gw_grad(s, w)))), expected, 1e-9);
    gw_scope_close_up(s);
}

static void one_dimension_is_a_plane_of_height_1(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *x = gw_randn(s, GW_F32, 2, 3, 20), *w = gw_randn(s, GW_F32, 5, 3, 4);
    gw_tensor *b = gw_randn(s, GW_F32, 5);
    gw_tensor *y =
        gw_conv1d(s, x, w, b, .stride = { 2, 2 }, .padding = { 3, 3 }, .dilation = { 2, 2 });
    gw_tensor *z = gw_conv2d(s, gw_unsqueeze(s, x, 2), gw_unsqueeze(s, w, 2), b, .stride = { 1, 2 },
                             .padding = { 0, 3 }, .dilation = { 1, 2 });
    expect_shape(s, y, "2x5x10");
    assert_true(gw_equal(s, y, gw_squeeze(s, z, 2)));
    gw_scope_close_up(s);
}

static void nothing_in_gives_nothing_out(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *x = gw_requires_grad(s, gw_zeros(s, GW_F32, 0, 3, 5, 5));
    gw_tensor *w = gw_requires_grad(s, gw_ones(s, GW_F32, 4, 3, 3, 3));
    gw_tensor *b = gw_requires_grad(s, gw_ones(s, GW_F32, 4));
    gw_tensor *y = gw_conv2d(s, x, w, b, .padding = { 1, 1 });
    expect_shape(s, y, "0x4x5x5");
    gw_backward(s, gw_sum(s, y));
    assert_true(gw_equal(s, gw_grad(s, w), gw_zeros(s, GW_F32, 4, 3, 3, 3)));
    assert_true(gw_equal(s, gw_grad(s, b), gw_zeros(s, GW_F32, 4)));
    expect_shape(s, gw_grad(s, x), "0x3x5x5");
    gw_scope_close_up(s);
}

static void it_refuses_invalid_arguments(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_conv_options plain = GW_OPTIONS(gw_conv_options);
    gw_tensor *x = gw_zeros(s, GW_F32, 2, 3, 5, 5), *w = gw_zeros(s, GW_F32, 6, 3, 3, 3);
    gw_conv2d_with(s, x, gw_zeros(s, GW_F32, 6, 4, 3, 3), NULL, plain);
    expect_fails(s, "gw.conv2d: input has 3 channels, but the weight is for 4: they must be equal");
    gw_conv2d(s, x, gw_zeros(s, GW_F32, 6, 1, 3, 3), NULL, .groups = 2);
    expect_fails(s, "gw.conv2d: input has 3 channels, but the weight has 1 for each of 2 groups: "
                    "the input must have the product of the two");
    gw_conv2d(s, x, w, NULL, .groups = 4);
    expect_fails(s, "gw.conv2d: 6 outputs cannot be divided into 4 groups: the number of groups "
                    "must divide them");
    gw_conv2d(s, x, w, NULL, .groups = -1);
    expect_fails(s, "gw.conv2d: 6 outputs cannot be divided into -1 groups: the number of groups "
                    "must divide them");
    gw_conv1d_with(s, x, w, NULL, plain);
    expect_fails(s, "gw.conv1d: weight 6x3x3x3 has 4 dimensions, but must have 3");
    gw_conv2d_with(s, gw_zeros(s, GW_F32, 3, 3), w, NULL, plain);
    expect_fails(s, "gw.conv2d: input 3x3 has 2 dimensions, but must have 3 or 4");
    gw_conv2d_with(s, x, gw_zeros(s, GW_F64, 6, 3, 3, 3), NULL, plain);
    expect_fails(s, "gw.conv2d: input is f32 and weight f64, but both must be f32, or both f64");
    gw_conv2d_with(s, gw_zeros(s, GW_I64, 3, 5, 5), gw_zeros(s, GW_I64, 6, 3, 3, 3), NULL, plain);
    expect_fails(s, "gw.conv2d: input is i64 and weight i64, but both must be f32, or both f64");
    gw_conv2d_with(s, x, w, gw_zeros(s, GW_F32, 5), plain);
    expect_fails(s, "gw.conv2d: bias is 5 of f32 for 6 outputs of f32: it must have one number of "
                    "that dtype for each output");
    gw_conv2d(s, x, w, NULL, .dilation = { 3, 1 });
    expect_fails(s, "gw.conv2d: a window of 7x3 must fit into 5x5 with padding 0x0, but does not");
    gw_conv1d(s, gw_zeros(s, GW_F32, 3, 2), gw_zeros(s, GW_F32, 1, 3, 5), NULL,
              .padding = { 1, 1 });
    expect_fails(s, "gw.conv1d: a window of 5 must fit into 2 with padding 1, but does not");
    gw_conv2d(s, x, w, NULL, .stride = { -1, -1 });
    expect_fails(s, "gw.conv2d: stride is -1, but must be 1 to 2147483647");
    gw_conv2d(s, x, w, NULL, .padding = { INT64_MAX, INT64_MAX });
    expect_fails(s, "gw.conv2d: padding is 9223372036854775807, but must be 0 to 2147483647");
    gw_conv2d_with(s, x, gw_zeros(s, GW_F32, 6, 3, 0, 3), NULL, plain);
    expect_fails(s, "gw.conv2d: weight 6x3x0x3 has an empty kernel: its sizes must be 1 or more");
    gw_value args[] = { gw_value_of(x), gw_value_of(w), gw_none(),
                        value_of_ints(GW_SHAPE(1, 2, 3)) };
    op_run(s, op_find("conv2d"), args, 4, NULL);
    expect_fails(s, "gw.conv2d: 3 numbers were given for stride, but there must be 1 or 2");
    gw_scope_close_up(s);
}

GW_TESTS(tensor_op_conv, it_is_the_definition, large_images_are_taken_in_strips,
         one_dimension_is_a_plane_of_height_1, nothing_in_gives_nothing_out,
         it_refuses_invalid_arguments);
