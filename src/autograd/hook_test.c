#include "autograd/hook.h"

#include "testing/testing.h"
#include <gradwire.h>

#include <stdio.h>
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

static void the_hooks_result_replaces_the_gradient(void **state) {
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
                        "backward: hook: a hook returned a gradient of another shape or dtype");

    s = gw_scope_open(NULL);
    gw_register_hook(s, gw_ones(s, GW_F32, 2), twice, NULL);
    assert_int_equal(gw_scope_close(s).status, GW_INVALID);

    s = gw_scope_open(NULL);
    gw_register_hook(s, gw_requires_grad(s, gw_ones(s, GW_F32, 2)), NULL, NULL);
    assert_non_null(strstr(gw_scope_close(s).text, "the function is NULL"));
}

// ---- Hooks that add and remove hooks ------------------------------------------------------------
// |calls| has a character for each hook that is called.
typedef struct editor {
    gw_tensor *x;
    char *calls;
    char name;
    int *removes;               // this one, if not NULL
    const struct editor *adds;  // this one, once, if not NULL
    int added;
} editor;

static gw_tensor *edit(gw_scope *s, gw_tensor *grad, void *context) {
    (void)grad;
    editor *e = context;
    strncat(e->calls, &e->name, 1);
    if (e->removes) gw_remove_hook(s, e->x, *e->removes);
    if (e->adds && !e->added) e->added = gw_register_hook(s, e->x, edit, (void *)e->adds);
    e->removes = NULL;
    return NULL;
}

enum { EDITORS = 3 };

// Hooks a, b and c of |x|, of which b removes |removed|, or adds d if there is none to remove.
static void edit_in_a_pass(gw_scope *s, gw_tensor *x, int removed, const char *calls) {
    char first[8] = "", second[8] = "";
    int numbers[EDITORS];
    editor d = { .x = x, .calls = first, .name = 'd' }, all[EDITORS];
    for (int i = 0; i < EDITORS; i++)
        all[i] = (editor){ .x = x, .calls = first, .name = (char)('a' + i) };
    if (removed < EDITORS)
        all[1].removes = &numbers[removed];
    else
        all[1].adds = &d;
    for (int i = 0; i < EDITORS; i++) numbers[i] = gw_register_hook(s, x, edit, &all[i]);
    gw_tensor *loss = gw_sum(s, gw_mul(s, x, 2));
    gw_backward(s, loss, .retain_graph = true);
    d.calls = all[0].calls = all[1].calls = all[2].calls = second;
    gw_backward(s, loss, .retain_graph = true);
    char both[24];
    snprintf(both, sizeof both, "%s %s", first, second);
    assert_string_equal(both, calls);
    for (int i = 0; i < EDITORS; i++)
        if (i != removed) gw_remove_hook(s, x, numbers[i]);
    if (all[1].added) gw_remove_hook(s, x, all[1].added);
    assert_int_equal(scope_error(s)->status, GW_OK);
}

static void hooks_may_remove_and_add_hooks(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *leaf = gw_requires_grad(s, gw_ones(s, GW_F32, 2)), *result = gw_mul(s, leaf, 3);
    for (int i = 0; i < 2; i++) {
        gw_tensor *x = i ? result : leaf;
        edit_in_a_pass(s, x, 0, "abc bc");
        edit_in_a_pass(s, x, 1, "abc ac");
        edit_in_a_pass(s, x, 2, "ab ab");
        edit_in_a_pass(s, x, EDITORS, "abc abcd");
    }
    assert_int_equal(gw_scope_close(s).status, GW_OK);
}

static gw_tensor *remove_all(gw_scope *s, gw_tensor *grad, void *context) {
    (void)grad;
    editor *e = context;
    strncat(e->calls, &e->name, 1);
    for (int i = 0; i < EDITORS; i++) gw_remove_hook(s, e->x, e->removes[i]);
    return NULL;
}

static void the_first_may_remove_all(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *x = gw_requires_grad(s, gw_ones(s, GW_F32, 2));
    char calls[8] = "";
    int numbers[EDITORS];
    editor e = { x, calls, 'a', numbers, NULL, 0 };
    for (int i = 0; i < EDITORS; i++) numbers[i] = gw_register_hook(s, x, remove_all, &e);
    gw_backward(s, gw_sum(s, x));
    assert_string_equal(calls, "a");
    assert_int_equal(gw_scope_close(s).status, GW_OK);
}

// A pass holds the nodes that it walks.
typedef struct walked {
    gw_scope *owner;
    gw_tensor *x, *y, *loss;
} walked;

static gw_tensor *drop_handles(gw_scope *s, gw_tensor *grad, void *context) {
    (void)s, (void)grad;
    walked *w = context;
    gw_drop(w->owner, w->x);
    gw_drop(w->owner, w->y);
    gw_drop(w->owner, w->loss);
    return NULL;
}

static void a_hook_may_release_nodes_of_the_running_pass(void **state) {
    (void)state;
    for (int i = 0; i < 2; i++) {
        gw_scope *outer = gw_scope_open(NULL), *s = gw_scope_open(outer);
        walked w = { .owner = s, .x = gw_requires_grad(s, gw_ones(s, GW_F32, 2)) };
        w.y = gw_mul(s, w.x, 3);
        w.loss = gw_sum(s, w.y);
        gw_register_hook(s, i ? w.y : w.x, drop_handles, &w);
        gw_register_hook(s, i ? w.y : w.x, twice, NULL);
        gw_backward(outer, w.loss);
        assert_true(gw_item(outer, gw_sum(outer, gw_grads_get(outer, 0).grad)) == 2 * 3 * 2);
        assert_int_equal(gw_scope_close(s).status, GW_OK);
        assert_int_equal(gw_scope_close(outer).status, GW_OK);
    }
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

GW_TESTS(autograd_hook, it_is_called_once_with_the_sum, the_hooks_result_replaces_the_gradient,
         one_of_another_shape_fails_the_pass, hooks_may_remove_and_add_hooks,
         the_first_may_remove_all, a_hook_may_release_nodes_of_the_running_pass,
         an_inner_pass_leaves_its_gradients_in_the_scope_it_is_given);
