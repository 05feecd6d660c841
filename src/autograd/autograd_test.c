#include "testing/testing.h"

#include "tensor/tensor.h"
#include <gradwire/autograd.h>
#include <gradwire/ops.h>

#include <string.h>

static void assert_fails(gw_scope *s, gw_status status, const char *words) {
    gw_error e = gw_scope_close(s);
    assert_int_equal(e.status, status);
    if (!strstr(e.text, words)) fail_msg("\"%s\" does not contain \"%s\"", e.text, words);
}

// ---- Leaves -------------------------------------------------------------------------------------
static void a_leaf_is_the_tensor_itself(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *x = gw_ones(s, GW_F16, 2);
    assert_false(gw_needs_grad(x));
    assert_ptr_equal(gw_requires_grad(s, x), x);
    assert_ptr_equal(gw_requires_grad(s, x), x);
    assert_true(gw_needs_grad(x));
    assert_int_equal(gw_scope_close(s).status, GW_OK);
}

static void only_floats_can_be_leaves(void **state) {
    (void)state;
    static const gw_dtype dtypes[] = { GW_I64, GW_U8, GW_BOOL8 };
    for (int i = 0; i < 3; i++) {
        gw_scope *s = gw_scope_open(NULL);
        gw_tensor *x = gw_ones(s, dtypes[i], 2);
        assert_true(tensor_is_poison(gw_requires_grad(s, x)));
        assert_false(gw_needs_grad(x));
        assert_fails(s, GW_INVALID, gw_dtype_name(dtypes[i]));
    }
}

static void results_are_no_leaves(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_requires_grad(s, gw_exp(s, gw_requires_grad(s, gw_ones(s, GW_F32))));
    assert_fails(s, GW_INVALID, "requires_grad: the tensor is not a leaf");
}

static void nothing_is_no_leaf(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_requires_grad(s, NULL);
    assert_false(gw_needs_grad(NULL));
    assert_fails(s, GW_INVALID, "requires_grad: the tensor is NULL");
    s = gw_scope_open(NULL);
    gw_requires_grad(s, &tensor_poison);
    assert_false(gw_needs_grad(&tensor_poison));
    assert_fails(s, GW_INVALID, "requires_grad: the tensor was made in a scope that has failed");
}

static void a_failed_scope_marks_nothing(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *x = gw_ones(s, GW_F32);
    gw_fail(s, GW_REMOTE, "something else");
    assert_true(tensor_is_poison(gw_requires_grad(s, x)));
    assert_true(tensor_is_poison(gw_detach(s, x)));
    assert_false(gw_needs_grad(x));
    assert_fails(s, GW_REMOTE, "something else");
}

// ---- Recording ---------------------------------------------------------------------------
static void results_of_leaves_need_gradients(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *x = gw_requires_grad(s, gw_ones(s, GW_F32, 3)), *c = gw_ones(s, GW_F32, 3);
    assert_true(gw_needs_grad(gw_add(s, x, c)));
    assert_true(gw_needs_grad(gw_sum(s, gw_mul(s, c, x))));
    assert_false(gw_needs_grad(gw_mul(s, c, c)));
    assert_false(gw_needs_grad(gw_gt(s, x, 0.0)));           // no derivative
    assert_false(gw_needs_grad(gw_to_dtype(s, x, GW_I64)));  // no float
    assert_int_equal(gw_scope_close(s).status, GW_OK);
}

static void a_detached_view_has_no_past(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *x = gw_requires_grad(s, gw_from(s, ((float[]){ 3 }), 1));
    gw_tensor *y = gw_mul(s, x, x), *d = gw_detach(s, y);
    assert_ptr_equal(gw_data(d), gw_data(y));
    assert_false(gw_needs_grad(d));
    gw_backward(s, gw_mul(s, y, d));
    assert_float_equal(gw_item(s, gw_grad(s, x)), 54, 0);  // 9 as a number
    assert_int_equal(gw_scope_close(s).status, GW_OK);
}

static void writing_through_a_detached_view_changes_no_gradient(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *x = gw_requires_grad(s, gw_from(s, ((float[]){ 3 }), 1));
    gw_tensor *y = gw_exp(s, x), *z = gw_mul(s, y, y);
    ((float *)gw_data_for_write(s, gw_detach(s, y)))[0] = 0;
    assert_float_equal(((const float *)gw_data(y))[0], 0, 0);
    gw_backward(s, z);
    assert_float_equal(gw_item(s, gw_grad(s, x)), 806.8576, 1e-3);  // 2 e^6
    assert_int_equal(gw_scope_close(s).status, GW_OK);
}

static void nothing_is_recorded_without_grad(void **state) {
    (void)state;
    gw_scope *root = gw_scope_open(NULL);
    gw_tensor *x = gw_requires_grad(root, gw_ones(root, GW_F32));
    gw_scope *before = gw_scope_open(root), *off = gw_scope_open(root);
    gw_no_grad(off);
    gw_scope *inner = gw_scope_open(off), *on = gw_scope_open(off);
    gw_enable_grad(on);
    assert_false(gw_needs_grad(gw_mul(off, x, x)));
    assert_false(gw_needs_grad(gw_mul(inner, x, x)));
    assert_true(gw_needs_grad(gw_mul(on, x, x)));
    assert_true(gw_needs_grad(gw_mul(before, x, x)));
    assert_true(gw_needs_grad(gw_mul(root, x, x)));
    assert_int_equal(gw_scope_close(root).status, GW_OK);
}

GW_TESTS(autograd, a_leaf_is_the_tensor_itself, only_floats_can_be_leaves, results_are_no_leaves,
         nothing_is_no_leaf, a_failed_scope_marks_nothing, results_of_leaves_need_gradients,
         a_detached_view_has_no_past, writing_through_a_detached_view_changes_no_gradient,
         nothing_is_recorded_without_grad);
