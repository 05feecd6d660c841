#include "tensor/ops/op.h"
#include "testing/testing.h"
#include <gradwire/ops.h>

static void assert_text(gw_scope *s, gw_tensor *x, const char *text) {
    assert_string_equal(gw_scope_error(s)->text, "");
    assert_string_equal(gw_to_text(s, x), text);
}

static void a_tensor_that_was_not_broadcast_is_returned(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *d = gw_ones(s, GW_F32, 2, 3);
    assert_ptr_equal(unbroadcast(s, d, gw_zeros(s, GW_F32, 2, 3)), d);
    gw_scope_close_up(s);
}

static void it_sums_over_broadcast_dimensions(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *d = gw_reshape(s, gw_arange(s, GW_F32, 0, 12, 1), 2, 3, 2);
    assert_text(s, unbroadcast(s, d, gw_zeros(s, GW_F32, 2)), "tensor([30., 36.])");
    assert_text(s, unbroadcast(s, d, gw_zeros(s, GW_F32, 3, 1)),
                "tensor([[14.],\n        [22.],\n        [30.]])");
    assert_text(s, unbroadcast(s, d, gw_zeros(s, GW_F32)), "tensor(66.)");
    gw_tensor *t = gw_transpose(s, d, 0, 2);
    assert_text(s, unbroadcast(s, t, gw_zeros(s, GW_F32, 2)), "tensor([15., 51.])");
    assert_text(
        s, unbroadcast(s, gw_expand(s, gw_full(s, GW_F32, 2.0), 3000, 2), gw_zeros(s, GW_F32, 2)),
        "tensor([6000., 6000.])");
    gw_scope_close_up(s);
}

static void an_empty_gradient_sums_to_zero(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    assert_text(s, unbroadcast(s, gw_zeros(s, GW_F32, 0, 2), gw_zeros(s, GW_F32, 2)),
                "tensor([0., 0.])");
    gw_scope_close_up(s);
}

static void it_returns_the_original_dtype(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *d = gw_full(s, GW_F64, 0.5, 3);
    assert_text(s, unbroadcast(s, d, gw_zeros(s, GW_F16)), "tensor(1.5000, dtype=f16)");
    assert_text(s, unbroadcast(s, d, gw_zeros(s, GW_F32, 3)), "tensor([0.5000, 0.5000, 0.5000])");
    gw_scope_close_up(s);
}

GW_TESTS(tensor_unbroadcast, a_tensor_that_was_not_broadcast_is_returned,
         it_sums_over_broadcast_dimensions, an_empty_gradient_sums_to_zero,
         it_returns_the_original_dtype);
