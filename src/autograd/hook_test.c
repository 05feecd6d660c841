#include "autograd/hook.h"

#include "testing/testing.h"
#include <gradwire.h>

#include <string.h>

static gw_tensor *count(gw_scope *s, gw_tensor *grad, void *context) {
    (void)s;
    (void)grad;
    ++*(int *)context;
    return NULL;
}

static gw_tensor *twice(gw_scope *s, gw_tensor *grad, void *context) {
    (void)context;
    return gw_mul(s, grad, 2);
}

static gw_tensor *shorten(gw_scope *s, gw_tensor *grad, void *context) {
    (void)context;
    return gw_select(s, grad, 0, 0);
}

static double grad_of(gw_scope *s, gw_tensor *x) {
    return gw_item(s, gw_sum(s, gw_grad(s, x)));
}

// Once for the whole gradient, whatever parts it has.
static void it_is_called_once_with_the_sum(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *x = gw_requires_grad(s, gw_ones(s, GW_F32, 2));
    gw_tensor *y = gw_mul(s, x, 3);
    int of_leaf = 0, of_result = 0;
    gw_register_hook(s, x, count, &of_leaf);
    gw_register_hook(s, y, count, &of_result);
    gw_backward(s, gw_sum(s, gw_add(s, gw_mul(s, y, y), gw_add(s, y, x))));
    assert_int_equal(of_leaf, 1);
    assert_int_equal(of_result, 1);
    assert_true(grad_of(s, x) == 2 * (2 * 3 * 3 + 3 + 1));
    assert_int_equal(gw_scope_close(s).status, GW_OK);
}

static void what_it_returns_takes_the_place(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *x = gw_requires_grad(s, gw_ones(s, GW_F32, 2));
    gw_tensor *y = gw_mul(s, x, 3);
    gw_register_hook(s, x, twice, NULL);
    int second = gw_register_hook(s, x, twice, NULL);
    gw_register_hook(s, y, twice, NULL);
    gw_backward(s, gw_sum(s, y), .retain_graph = true);
    assert_true(grad_of(s, x) == 2 * 3 * 8);
    gw_remove_hook(s, x, second);
    gw_scope *t = gw_scope_open(s);
    gw_backward(t, gw_sum(t, y));
    assert_true(grad_of(t, x) == 2 * 3 * 4);
    gw_scope_close_up(t);
    gw_remove_hook(s, x, second);
    assert_int_equal(gw_scope_close(s).status, GW_NOT_FOUND);
}

static void one_of_another_shape_fails_the_pass(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *x = gw_requires_grad(s, gw_ones(s, GW_F32, 2));
    gw_register_hook(s, x, shorten, NULL);
    gw_backward(s, gw_sum(s, x));
    gw_error error = gw_scope_close(s);
    assert_int_equal(error.status, GW_INVALID);
    assert_string_equal(error.text,
                        "backward: hook: a hook gave a gradient of another shape or dtype");

    s = gw_scope_open(NULL);
    gw_register_hook(s, gw_ones(s, GW_F32, 2), twice, NULL);
    assert_int_equal(gw_scope_close(s).status, GW_INVALID);

    s = gw_scope_open(NULL);
    gw_register_hook(s, gw_requires_grad(s, gw_ones(s, GW_F32, 2)), NULL, NULL);
    assert_non_null(strstr(gw_scope_close(s).text, "without a function"));
}

// ---- Passes inside a hook -----------------------------------------------------------------------
// Gradient checkpointing by hand, as gradwire/autograd.h writes it.
typedef struct segment {
    gw_scope *step;
    gw_tensor *w, *x;
} segment;

static gw_tensor *f(gw_scope *s, const segment *c) {
    return gw_tanh(s, gw_mul(s, c->w, c->x));
}

static gw_tensor *recompute(gw_scope *s, gw_tensor *dy, void *context) {
    segment *c = context;
    gw_scope *t = gw_scope_open(s);
    gw_enable_grad(t);
    gw_backward(c->step, f(t, c), .gradient = dy);
    gw_scope_close_up(t);
    return NULL;
}

static void an_inner_pass_leaves_its_gradients_in_the_scope_it_is_given(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL), *plain = gw_scope_open(s), *t = gw_scope_open(s);
    gw_tensor *w = gw_requires_grad(s, gw_from(s, ((float[]){ 1, 2 }), 2));
    gw_tensor *v = gw_requires_grad(s, gw_from(s, ((float[]){ 3, 0.5f }), 2));
    segment c = { s, w, gw_mul(s, v, 2.0) };
    gw_no_grad(t);
    gw_tensor *y = gw_requires_grad(s, f(t, &c));
    gw_register_hook(s, y, recompute, &c);
    gw_backward(s, gw_sum(s, gw_mul(s, y, y)));
    gw_tensor *whole = f(plain, &(segment){ plain, w, gw_mul(plain, v, 2.0) });
    gw_backward(plain, gw_sum(plain, gw_mul(plain, whole, whole)));
    assert_true(gw_equal(s, gw_grad(s, w), gw_grad(plain, w)));
    assert_true(gw_equal(s, gw_grad(s, v), gw_grad(plain, v)));
    assert_int_equal(gw_scope_close(s).status, GW_OK);
}

GW_TESTS(autograd_hook, it_is_called_once_with_the_sum, what_it_returns_takes_the_place,
         one_of_another_shape_fails_the_pass,
         an_inner_pass_leaves_its_gradients_in_the_scope_it_is_given);
