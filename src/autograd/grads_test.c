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

static void a_missing_gradient_is_an_error(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *x = leaf(s);
    assert_null(gw_grad_find(s, x));
    assert_true(gw_ok(s));
    assert_true(tensor_is_poison(gw_grad(s, x)));
    gw_error e = gw_scope_close(s);
    assert_int_equal(e.status, GW_NOT_FOUND);
    assert_non_null(strstr(e.text, "no backward pass in this scope has reached this tensor"));
}

static void a_number_out_of_range_is_an_error(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    add(s, leaf(s), 1);
    assert_true(tensor_is_poison(gw_grads_get(s, 1).grad));
    gw_error e = gw_scope_close(s);
    assert_int_equal(e.status, GW_INVALID);
    assert_non_null(strstr(e.text, "gradient 1 is out of range for 1 gradients"));
}

static void a_replaced_gradient_keeps_its_position(void **state) {
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

static void a_gradient_that_is_set_is_as_if_a_pass_had_left_it(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *x = leaf(s), *given = gw_full(s, GW_F32, 3, 1);
    gw_set_grad(s, x, given);
    gw_zero_(s, given);  // it is a copy
    assert_float_equal(gw_item(s, gw_grad(s, x)), 3, 0);
    gw_backward(s, gw_mul(s, x, 2));
    assert_float_equal(gw_item(s, gw_grad(s, x)), 5, 0);
    gw_set_grad(s, x, gw_full(s, GW_F32, 7, 1));
    assert_float_equal(gw_item(s, gw_grad(s, x)), 7, 0);
    assert_int_equal(gw_grads_count(s), 1);
    assert_int_equal(gw_scope_close(s).status, GW_OK);
}

static void a_gradient_that_is_set_may_be_sparse_or_strided(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *x = gw_requires_grad(s, gw_zeros(s, GW_F32, 3, 2));
    gw_set_grad(s, x, gw_transpose(s, gw_ones(s, GW_F32, 2, 3), 0, 1));
    assert_true(gw_is_contiguous(gw_grad(s, x)));
    gw_tensor *indices = gw_from(s, ((int64_t[]){ 2, 0, 2 }), 3);
    gw_set_grad(s, x, gw_rows(s, indices, gw_ones(s, GW_F32, 3, 2), 3));
    assert_int_equal(gw_layout_of(gw_grad(s, x)), GW_ROWS);
    assert_int_equal(gw_size(gw_rows_indices(s, gw_grad(s, x)), 0), 2);  // coalesced
    assert_int_equal(gw_scope_close(s).status, GW_OK);
}

static void a_gradient_that_is_set_fits(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *x = leaf(s);
    gw_set_grad(s, x, gw_zeros(s, GW_F32, 2));
    assert_string_equal(gw_scope_error(s)->text,
                        "set_grad: the gradient has f32 2, but the tensor has f32 1");
    gw_scope_clear(s);
    gw_set_grad(s, x, gw_zeros(s, GW_F64, 1));
    assert_string_equal(gw_scope_error(s)->text,
                        "set_grad: the gradient has f64 1, but the tensor has f32 1");
    gw_scope_clear(s);
    assert_null(gw_grad_find(s, x));
    assert_int_equal(gw_scope_close(s).status, GW_OK);
}

static void a_forgotten_gradient_can_be_added_again(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *x[MANY];
    for (int i = 0; i < MANY; i++) assert_true(add(s, x[i] = leaf(s), i));
    for (int i = 0; i < MANY; i += 2) grads_forget(s, x[i]);
    grads_forget(s, x[0]);
    assert_int_equal(gw_grads_count(s), MANY / 2);
    for (int i = 0; i < MANY; i++) assert_int_equal(gw_grad_find(s, x[i]) != NULL, i % 2);
    assert_true(add(s, x[4], 7));
    assert_float_equal(gw_item(s, gw_grad(s, x[4])), 7, 0);
    assert_float_equal(gw_item(s, gw_grad(s, x[MANY - 1])), MANY - 1, 0);
    for (int i = 0; i < MANY; i++) grads_forget(s, x[i]);
    assert_int_equal(gw_grads_count(s), 0);
    assert_int_equal(gw_scope_close(s).status, GW_OK);
}

GW_TESTS(autograd_grads, a_forgotten_gradient_can_be_added_again, gradients_are_found_by_leaf,
         a_scope_holds_leaves_of_its_gradients, a_missing_gradient_is_an_error,
         a_number_out_of_range_is_an_error, a_replaced_gradient_keeps_its_position,
         a_gradient_that_is_set_is_as_if_a_pass_had_left_it,
         a_gradient_that_is_set_may_be_sparse_or_strided, a_gradient_that_is_set_fits);
