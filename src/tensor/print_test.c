// The output of PyTorch is compared in src/autograd/recordings_test.c; here are the cases that it does not
// cover.
#include "testing/testing.h"
#include <gradwire/autograd.h>
#include <gradwire/ops.h>

#include <math.h>
#include <string.h>

static void assert_text(gw_scope *s, const gw_tensor *x, const char *text) {
    assert_string_equal(gw_to_text(s, x), text);
}

static void all_numbers_share_a_form(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    assert_text(s, gw_from(s, ((float[]){ 1, 2.5f, -3, 4 }), 2, 2),
                "tensor([[ 1.0000,  2.5000],\n        [-3.0000,  4.0000]])");
    assert_text(s, gw_from(s, ((float[]){ 1e-5f, 2.5f, -3000 }), 3),
                "tensor([ 1.0000e-05,  2.5000e+00, -3.0000e+03])");
    assert_text(s, gw_from(s, ((float[]){ NAN, INFINITY, -INFINITY, 0 }), 4),
                "tensor([nan, inf, -inf, 0.])");
    assert_text(s, gw_full(s, GW_F32, 1e9), "tensor(1.0000e+09)");
    assert_text(s, gw_full(s, GW_I64, INT64_MIN, 1), "tensor([-9223372036854775808])");
    gw_scope_close_up(s);
}

static void dtype_shape_and_gradient_are_printed_if_not_evident(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    assert_text(s, gw_zeros(s, GW_F32, 0), "tensor([])");
    assert_text(s, gw_zeros(s, GW_F32, 0, 3), "tensor([], size=(0, 3))");
    assert_text(s, gw_zeros(s, GW_I64, 2, 0), "tensor([], size=(2, 0), dtype=i64)");
    assert_text(s, gw_zeros(s, GW_F64, 2), "tensor([0., 0.], dtype=f64)");
    assert_text(s, gw_requires_grad(s, gw_ones(s, GW_F16, 1)),
                "tensor([1.], dtype=f16, requires_grad=True)");
    gw_scope_close_up(s);
}

static void large_tensors_show_their_edges(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    assert_text(s, gw_arange(s, GW_I64, 0, 1001, 1),
                "tensor([   0,    1,    2,  ...,  998,  999, 1000])");
    assert_text(
        s, gw_expand(s, gw_zeros(s, GW_BOOL8), 1000, 2),
        "tensor([[False, False],\n        [False, False],\n        [False, False],\n        ...,\n"
        "        [False, False],\n        [False, False],\n        [False, False]])");
    assert_null(strstr(gw_to_text(s, gw_zeros(s, GW_F32, 1000)), "..."));
    gw_scope_close_up(s);
}

static void a_view_shows_its_own_elements(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *x = gw_reshape(s, gw_arange(s, GW_I32, 0, 6, 1), 2, 3);
    assert_text(s, gw_slice(s, gw_transpose(s, x, 0, 1), 0, 1, 3, 1),
                "tensor([[1, 4],\n        [2, 5]], dtype=i32)");
    gw_scope_close_up(s);
}

static void a_failed_scope_gets_no_text(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *x = gw_ones(s, GW_F32, 1);
    gw_fail(s, GW_CANCELLED, "stop");
    assert_text(s, x, "");
    gw_scope_clear(s);
    gw_scope_close_up(s);
}

GW_TESTS(tensor_print, all_numbers_share_a_form,
         dtype_shape_and_gradient_are_printed_if_not_evident, large_tensors_show_their_edges,
         a_view_shows_its_own_elements, a_failed_scope_gets_no_text);
