#include "testing/op_expect.h"

static void it_takes_the_mean_of_each_window(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *x = gw_view(s, gw_arange(s, GW_F32, 1, 10, 1), 1, 3, 3);
    gw_pool_options options = GW_OPTIONS(gw_pool_options, .kernel = { 2, 2 }, .stride = { 1, 1 });
    expect_text(s, gw_avg_pool2d_with(s, x, options), GW_F32,
                "tensor([[[3., 4.],\n         [6., 7.]]])");
    options = GW_OPTIONS(gw_pool_options, .kernel = { 2, 2 }, .padding = { 1, 1 });
    expect_values(s, gw_avg_pool2d_with(s, x, options), (double[]){ 0.25, 1.25, 2.75, 7 }, 1e-6);
    options.count_include_pad = false;
    expect_values(s, gw_avg_pool2d_with(s, x, options), (double[]){ 1, 2.5, 5.5, 7 }, 1e-6);
    options.divisor_override = 2;
    expect_values(s, gw_avg_pool2d_with(s, x, options), (double[]){ 0.5, 2.5, 5.5, 14 }, 1e-6);
    gw_scope_close_up(s);
}

static void to_size_1_it_is_the_mean(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *x = gw_randn(s, GW_F64, 2, 3, 40, 50);
    gw_tensor *y = gw_adaptive_avg_pool2d(s, x, 1, 1);
    expect_shape(s, y, "2x3x1x1");
    gw_tensor *mean = gw_mean(s, gw_reshape(s, x, 2, 3, 2000), .dim = 2);
    assert_true(gw_allclose(s, gw_reshape(s, y, 2, 3), mean, .rtol = 1e-12, .atol = 1e-12));
    expect_shape(s, gw_adaptive_avg_pool1d(s, gw_reshape(s, x, 6, 40, 50), 7), "6x40x7");
    gw_scope_close_up(s);
}

static void it_refuses_invalid_arguments(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *x = gw_zeros(s, GW_F32, 2, 3, 3);
    gw_avg_pool2d(s, x, .kernel = { 2, 2 }, .dilation = { 2, 2 });
    expect_fails(s, "gw.avg_pool2d: .dilation cannot be used with average pools");
    gw_avg_pool2d(s, x, .kernel = { 2, 5 });
    expect_fails(s,
                 "gw.avg_pool2d: a window of 2x5 must fit into 3x3 with padding 0x0, but does not");
    gw_value args[] = { gw_value_of(x), value_of_ints(GW_SHAPE(2)),
                        gw_none(),      gw_none(),
                        gw_none(),      gw_none(),
                        gw_value_of(0) };
    op_run(s, op_find("avg_pool2d"), args, 7, NULL);
    expect_fails(s, "gw.avg_pool2d: divisor_override is 0, but must not be 0");
    gw_adaptive_avg_pool2d(s, x, 1, 0);
    expect_fails(s, "gw.adaptive_avg_pool2d: size is 0, but must be 1 to 2147483647");
    gw_adaptive_avg_pool1d(s, gw_zeros(s, GW_F32, 3), 1);
    expect_fails(s, "gw.adaptive_avg_pool1d: input 3 has 1 dimensions, but must have 2 or 3");
    gw_scope_close_up(s);
}

GW_TESTS(tensor_op_avg_pool, it_takes_the_mean_of_each_window, to_size_1_it_is_the_mean,
         it_refuses_invalid_arguments);
