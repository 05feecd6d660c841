#include "testing/op_expect.h"

static void it_takes_the_largest_of_each_window(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *x = gw_view(s, gw_from(s, ((float[]){ 1, 5, 2, 3, 4, 0, 7, 6, 9 }), 9), 1, 3, 3);
    gw_pool_options options = GW_OPTIONS(gw_pool_options, .kernel = { 2, 2 }, .stride = { 1, 1 });
    expect_text(s, gw_max_pool2d_with(s, x, options), GW_F32,
                "tensor([[[5., 5.],\n         [7., 9.]]])");
    options = GW_OPTIONS(gw_pool_options, .kernel = { 2, 2 });
    expect_text(s, gw_max_pool2d_with(s, x, options), GW_F32, "tensor([[[5.]]])");
    options.ceil_mode = true;
    expect_text(s, gw_max_pool2d_with(s, x, options), GW_F32,
                "tensor([[[5., 2.],\n         [7., 9.]]])");
    options =
        GW_OPTIONS(gw_pool_options, .kernel = { 1, 3 }, .padding = { 0, 1 }, .stride = { 2, 2 });
    expect_text(s, gw_max_pool2d_with(s, x, options), GW_F32,
                "tensor([[[5., 5.],\n         [7., 9.]]])");
    gw_scope_close_up(s);
}

static void the_first_of_equals_gets_the_gradient(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *x = gw_requires_grad(s, gw_full(s, GW_F16, 2.0, 1, 6));
    gw_tensor *y = gw_max_pool1d(s, x, .kernel = { 3, 3 }, .stride = { 2, 2 });
    gw_backward(s, gw_sum(s, y));
    expect_text(s, gw_grad(s, x), GW_F16, "tensor([[1., 0., 1., 0., 0., 0.]], dtype=f16)");
    gw_scope_close_up(s);
}

static void nan_is_larger_than_everything(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *x =
        gw_view(s, gw_from(s, ((double[]){ 1, NAN, 2, INFINITY, -INFINITY, -INFINITY }), 6), 1, 6);
    gw_tensor *y = gw_max_pool1d(s, x, .kernel = { 2, 2 });
    expect_values(s, y, (double[]){ NAN, INFINITY, -INFINITY }, 0);
    gw_scope_close_up(s);
}

static void nan_is_kept_wherever_it_stands(void **state) {
    (void)state;
    for (int at = 0; at < 4; at++) {
        gw_scope *s = gw_scope_open(NULL);
        double numbers[] = { 1, 5, 3, 7 }, gradient[4] = { 0 };
        numbers[at] = NAN;
        gradient[at] = 1;
        gw_tensor *x = gw_requires_grad(s, gw_from(s, numbers, 1, 2, 2));
        gw_tensor *y = gw_max_pool2d(s, x, .kernel = { 2, 2 });
        expect_values(s, y, (double[]){ NAN }, 0);
        gw_backward(s, y);
        expect_values(s, gw_grad(s, x), gradient, 0);
        gw_scope_close_up(s);
    }
}

// A dilated window may step over all there is.
static void a_window_without_inputs_gives_no_gradient(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *x = gw_requires_grad(s, gw_ones(s, GW_F64, 1, 1));
    gw_tensor *y =
        gw_max_pool1d(s, x, .kernel = { 2, 2 }, .padding = { 1, 1 }, .dilation = { 2, 2 });
    expect_values(s, y, (double[]){ -INFINITY }, 0);
    gw_backward(s, gw_sum(s, y));
    expect_values(s, gw_grad(s, x), (double[]){ 0 }, 0);
    gw_scope_close_up(s);
}

static void the_last_window_may_be_larger_than_the_plane(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *x = gw_from(s, ((float[]){ 3, 5, 4 }), 1, 3);
    expect_values(s, gw_max_pool1d(s, x, .kernel = { 4 }, .ceil_mode = true), (double[]){ 5 }, 0);
    expect_values(s, gw_avg_pool1d(s, x, .kernel = { 4 }, .ceil_mode = true), (double[]){ 4 }, 0);
    gw_max_pool1d(s, x, .kernel = { 5 }, .stride = { 2 }, .ceil_mode = true);
    expect_fails(s, "gw.max_pool1d: a window of 5 must fit into 3 with padding 0, but does not");
    gw_scope_close_up(s);
}

static void it_refuses_invalid_arguments(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *x = gw_zeros(s, GW_F32, 2, 3, 3);
    gw_max_pool2d(s, x);
    expect_fails(s, "gw.max_pool2d: kernel is 0, but must be 1 to 2147483647");
    gw_max_pool2d(s, x, .kernel = { 4, 4 });
    expect_fails(s,
                 "gw.max_pool2d: a window of 4x4 must fit into 3x3 with padding 0x0, but does not");
    gw_max_pool2d(s, x, .kernel = { 3, 3 }, .padding = { 2, 2 });
    expect_fails(s, "gw.max_pool2d: padding is 2, but must be at most half of the kernel of 3");
    gw_max_pool1d(s, gw_zeros(s, GW_F32, 3), .kernel = { 2, 2 });
    expect_fails(s, "gw.max_pool1d: input 3 has 1 dimensions, but must have 2 or 3");
    gw_max_pool1d(s, gw_zeros(s, GW_F32, 3, 0), .kernel = { 2, 2 });
    expect_fails(s, "gw.max_pool1d: planes of 3x0 have no elements to pool: they must have some");
    gw_max_pool1d(s, gw_zeros(s, GW_I64, 3, 3), .kernel = { 2, 2 });
    expect_fails(
        s, "gw.max_pool1d: i64 is not a float dtype, but must be one; gw_to_dtype converts it");
    gw_scope_close_up(s);
}

GW_TESTS(tensor_op_max_pool, it_takes_the_largest_of_each_window,
         the_first_of_equals_gets_the_gradient, nan_is_larger_than_everything,
         nan_is_kept_wherever_it_stands, the_last_window_may_be_larger_than_the_plane,
         a_window_without_inputs_gives_no_gradient, it_refuses_invalid_arguments);
