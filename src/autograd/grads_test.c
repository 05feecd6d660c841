#include "testing/testing.h"

#include "autograd/grads.h"
#include <gradwire/ops.h>

#include <string.h>

enum { MANY = 100 };

static gw_tensor *leaf(gw_scope *s) {
    return gw_requires_grad(s, gw_zeros(s, GW_F32, 1));
}

// Adds |value| to the gradient of |x|.
static bool add(gw_scope *s, gw_tensor *x, double value) {
    gw_tensor_grad pair = { x, handle_retain(gw_full(s, GW_F32, value, 1)) };
    return grads_add(s, s, &pair, 1);
}

static void gradients_are_found_by_leaf(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *x[MANY];
    for (int i = 0; i < MANY; i++) {
        x[i] = leaf(s);
        assert_null(grads_find(s, x[i]));
        assert_true(add(s, x[i], i));
    }
    for (int i = 0; i < MANY; i++) {
        assert_float_equal(gw_item(s, gw_grad(s, x[i])), i, 0);
        assert_ptr_equal(gw_grads_get(s, i).leaf, x[i]);  // in order
        assert_ptr_equal(gw_grads_get(s, i).grad, gw_grad_find(s, x[i]));
    }
    assert_int_equal(gw_grads_count(s), MANY);
    assert_int_equal(gw_scope_close(s).status, GW_OK);
}

static void a_scope_holds_leaves_of_its_gradients(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL), *inner = gw_scope_open(s);
    assert_true(add(s, leaf(inner), 3));
    gw_scope_close_up(inner);
    assert_true(gw_needs_grad(gw_grads_get(s, 0).leaf));
    assert_int_equal(gw_scope_close(s).status, GW_OK);
}

static void a_gradient_that_is_not_there_is_said(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *x = leaf(s);
    assert_null(gw_grad_find(s, x));
    assert_true(gw_ok(s));
    assert_ptr_equal(gw_grad(s, x), &tensor_poison);
    gw_error e = gw_scope_close(s);
    assert_int_equal(e.status, GW_NOT_FOUND);
    assert_non_null(strstr(e.text, "no backward pass in this scope has reached this tensor"));
}

static void a_number_out_of_range_is_said(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    add(s, leaf(s), 1);
    assert_ptr_equal(gw_grads_get(s, 1).grad, &tensor_poison);
    gw_error e = gw_scope_close(s);
    assert_int_equal(e.status, GW_INVALID);
    assert_non_null(strstr(e.text, "gradient 1 of 1"));
}

static void a_replaced_gradient_keeps_its_place(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *x = leaf(s), *y = leaf(s);
    add(s, x, 1);
    add(s, y, 2);
    grads_replace(s, x, handle_retain(gw_full(s, GW_F32, 5.0, 1)));
    assert_float_equal(gw_item(s, gw_grads_get(s, 0).grad), 5, 0);
    assert_int_equal(gw_grads_count(s), 2);
    assert_int_equal(gw_scope_close(s).status, GW_OK);
}

GW_TESTS(autograd_grads, gradients_are_found_by_leaf, a_scope_holds_leaves_of_its_gradients,
         a_gradient_that_is_not_there_is_said, a_number_out_of_range_is_said,
         a_replaced_gradient_keeps_its_place);
