// Backward through casts by the scope: gradients in f32, and casts of leaves that are kept.
#include "testing/testing.h"

#include "autograd/node.h"
#include "base/mem.h"
#include <gradwire/amp.h>
#include <gradwire/autograd.h>
#include <gradwire/ops.h>

#include <pthread.h>

static gw_tensor *leaf(gw_scope *s) {
    return gw_requires_grad(s, gw_randn(s, GW_F32, 4, 4));
}

// The node of the cast that |y|, a product, has as its second factor.
static const node *cast_of(const gw_tensor *y) {
    return y->node->edges[1].to.node;
}

// Also where the operator by itself would have been another: nothing is cast on the way back.
static void gradients_are_of_the_leaf_s_type_and_those_of_casts_by_hand(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL), *by_hand = gw_scope_open(s), *cast = gw_scope_open(s);
    gw_tensor *w = leaf(s), *x = gw_randn(s, GW_F32, 4, 4), *target = gw_randn(s, GW_F32, 4, 4);
    gw_tensor *low = gw_to_dtype(by_hand, w, GW_BF16);
    gw_tensor *y = gw_matmul(by_hand, gw_to_dtype(by_hand, x, GW_BF16), low);
    gw_tensor *z = gw_matmul(by_hand, gw_tanh(by_hand, y), low);
    gw_backward(by_hand, gw_mse(by_hand, gw_to_dtype(by_hand, z, GW_F32), target));
    gw_autocast(cast, GW_BF16);
    z = gw_matmul(cast, gw_tanh(cast, gw_matmul(cast, x, w)), w);
    assert_int_equal(gw_dtype_of(z), GW_BF16);
    gw_backward(cast, gw_mse(cast, z, target));
    assert_int_equal(gw_dtype_of(gw_grad(cast, w)), GW_F32);
    assert_true(gw_equal(s, gw_grad(cast, w), gw_grad(by_hand, w)));
    assert_int_equal(gw_scope_close(s).status, GW_OK);
}

static void the_cast_of_a_leaf_is_kept_until_it_is_written(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *w = leaf(s), *x = gw_ones(s, GW_F32, 4, 4);
    gw_autocast(s, GW_BF16);
    gw_scope *one = gw_scope_open(s), *two = gw_scope_open(s);
    gw_tensor *y = gw_matmul(one, x, w);
    assert_ptr_equal(cast_of(y), cast_of(gw_matmul(two, x, w)));
    gw_scope *other = gw_scope_open(s);
    gw_no_grad(other);
    gw_fill_(other, w, 2);
    gw_tensor *after = gw_matmul(two, x, w);
    assert_ptr_not_equal(cast_of(y), cast_of(after));
    assert_float_equal(gw_item(s, gw_select(s, gw_select(s, after, 0, 0), 0, 0)), 8, 0);
    assert_int_equal(gw_scope_close(s).status, GW_OK);
}

static void a_kept_cast_serves_several_passes(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *w = leaf(s), *x = gw_ones(s, GW_F32, 4, 4);
    gw_autocast(s, GW_BF16);
    for (int i = 0; i < 3; i++) gw_backward(s, gw_sum(s, gw_matmul(s, x, w)));
    assert_float_equal(gw_item(s, gw_sum(s, gw_grad(s, w))), 3 * 4 * 16, 0);
    assert_int_equal(gw_scope_close(s).status, GW_OK);
}

// A cast without a history is of no use where one is needed, and vice versa.
static void a_forward_without_gradients_does_not_cut_them_off(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *w = leaf(s), *x = gw_ones(s, GW_F32, 4, 4);
    gw_autocast(s, GW_BF16);
    gw_scope *no_grad = gw_scope_open(s);
    gw_no_grad(no_grad);
    for (int i = 0; i < 2; i++) {
        assert_false(gw_needs_grad(gw_matmul(no_grad, x, w)));
        assert_true(gw_needs_grad(gw_matmul(s, x, w)));
    }
    gw_backward(s, gw_sum(s, gw_matmul(s, x, w)));
    assert_float_equal(gw_item(s, gw_sum(s, gw_grad(s, w))), 4 * 16, 0);
    assert_int_equal(gw_scope_close(s).status, GW_OK);
}

static void leaves_of_steps_do_not_pile_up(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *x = gw_ones(s, GW_F32, 4, 4);
    gw_autocast(s, GW_BF16);
    size_t live = 0;
    for (int i = 0; i < 2000; i++) {
        if (i == 1000) live = mem_live_count();
        gw_scope *step = gw_scope_open(s);
        gw_backward(step, gw_sum(step, gw_matmul(step, x, leaf(step))));
        gw_scope_close_up(step);
    }
    assert_true(mem_live_count() <= live + 64 * 20);
    assert_int_equal(gw_scope_close(s).status, GW_OK);
}

static void *use_leaves(void *scope) {
    gw_scope *s = scope;
    gw_tensor *x = gw_ones(s, GW_F32, 4, 4);
    for (int i = 0; i < 200; i++) {
        gw_scope *step = gw_scope_open(s);
        gw_tensor *w = leaf(step);
        gw_backward(step, gw_sum(step, gw_matmul(step, gw_matmul(step, x, w), w)));
        gw_scope_close_up(step);
    }
    return NULL;
}

static void scopes_of_several_threads_may_be_inside(void **state) {
    (void)state;
    pthread_t threads[2];
    gw_scope *s = gw_scope_open(NULL), *of_thread[2];
    gw_autocast(s, GW_BF16);
    for (int i = 0; i < 2; i++) {
        of_thread[i] = gw_scope_open(s);
        gw_seed(of_thread[i], (uint64_t)i);
    }
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, use_leaves, of_thread[i]), 0);
    for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
    assert_int_equal(gw_scope_close(s).status, GW_OK);
}

GW_TESTS(autograd_autocast, gradients_are_of_the_leaf_s_type_and_those_of_casts_by_hand,
         the_cast_of_a_leaf_is_kept_until_it_is_written, a_kept_cast_serves_several_passes,
         a_forward_without_gradients_does_not_cut_them_off, leaves_of_steps_do_not_pile_up,
         scopes_of_several_threads_may_be_inside);
