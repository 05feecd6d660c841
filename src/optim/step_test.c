#include "testing/testing.h"

#include "base/mem.h"
#include "optim/optimizer.h"
#include <gradwire/ops.h>

#include <string.h>

static gw_tensor *leaf(gw_scope *s, float a, float b) {
    return gw_requires_grad(s, gw_from(s, ((float[]){ a, b }), 2));
}

static gw_list *list_of(gw_scope *s, gw_tensor *a, gw_tensor *b) {
    gw_list *list = gw_list_open(s);
    gw_list_add(s, list, a);
    if (b) gw_list_add(s, list, b);
    return list;
}

static void assert_values(const gw_tensor *x, float a, float b) {
    const float *values = gw_data(x);
    assert_float_equal(values[0], a, 1e-6);
    assert_float_equal(values[1], b, 1e-6);
}

static void parameters_without_gradient_stay(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *a = leaf(s, 1, 2), *b = leaf(s, 3, 4);
    gw_optimizer *opt = gw_sgd(s, list_of(s, a, b), .lr = 0.1, .weight_decay = 0.5);
    gw_backward(s, gw_sum(s, a));
    gw_optimizer_step(s, opt);
    assert_values(a, 0.85f, 1.8f);
    assert_values(b, 3, 4);
    assert_int_equal(gw_optimizer_steps(opt), 1);
    assert_int_equal(gw_scope_close(s).status, GW_OK);
}

static void a_step_uses_the_gradients_of_its_scope_only(void **state) {
    (void)state;
    gw_scope *root = gw_scope_open(NULL);
    gw_tensor *a = leaf(root, 1, 2);
    gw_optimizer *opt = gw_sgd(root, list_of(root, a, NULL), .lr = 0.1);
    gw_backward(root, gw_sum(root, a));
    gw_scope *s = gw_scope_open(root);
    gw_optimizer_step(s, opt);
    assert_int_equal(gw_scope_error(s)->status, GW_WRONG_STATE);
    gw_error e = gw_scope_close(s);
    assert_non_null(strstr(e.text, "another scope has gradients of these parameters"));
    assert_values(a, 1, 2);
    assert_int_equal(gw_scope_close(root).status, GW_OK);
}

static void values_saved_for_backward_stay_as_they_were(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *a = leaf(s, 1, 2);
    gw_optimizer *opt = gw_sgd(s, list_of(s, a, NULL), .lr = 0.1);
    gw_tensor *later = gw_sum(s, gw_mul(s, a, a));
    gw_backward(s, gw_sum(s, a));
    gw_optimizer_step(s, opt);
    gw_scope *t = gw_scope_open(s);
    gw_backward(t, later);
    assert_values(gw_grad(t, a), 2, 4);
    gw_scope_close_up(t);
    assert_int_equal(gw_scope_close(s).status, GW_OK);
}

static void views_see_the_new_values(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *whole = gw_from(s, ((float[]){ 1, 2, 3, 4 }), 4);
    gw_tensor *a = gw_requires_grad(s, gw_slice(s, whole, 0, 2, 4, 1));
    gw_tensor *b = gw_requires_grad(s, gw_slice(s, whole, 0, 0, 2, 1));
    gw_optimizer *opt = gw_sgd(s, list_of(s, a, b), .lr = 1);
    gw_backward(s, gw_sum(s, gw_add(s, a, gw_mul(s, b, 0.5))));
    gw_optimizer_step(s, opt);
    assert_values(a, 2, 3);
    assert_values(b, 0.5f, 1.5f);
    assert_values(whole, 0.5f, 1.5f);
    assert_int_equal(gw_scope_close(s).status, GW_OK);
}

static void lent_memory_gets_the_new_values(void **state) {
    (void)state;
    float mine[2] = { 1, 2 };
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *a = gw_requires_grad(s, gw_from_blob(s, GW_F32, mine, GW_SHAPE(2), NULL, NULL));
    gw_optimizer *opt = gw_sgd(s, list_of(s, a, NULL), .lr = 1);
    gw_backward(s, gw_sum(s, a));
    gw_optimizer_step(s, opt);
    assert_float_equal(mine[0], 0, 0);
    assert_float_equal(mine[1], 1, 0);
    assert_int_equal(gw_scope_close(s).status, GW_OK);
}

static void the_rate_can_change_between_steps(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *a = leaf(s, 1, 2);
    gw_optimizer *opt = gw_sgd(s, list_of(s, a, NULL), .lr = 0.1);
    gw_backward(s, gw_sum(s, a));
    gw_optimizer_set_lr(s, opt, 0);
    gw_optimizer_step(s, opt);
    assert_values(a, 1, 2);
    gw_optimizer_set_lr(s, opt, 0.5);
    gw_optimizer_step(s, opt);
    assert_values(a, 0.5f, 1.5f);
    gw_optimizer_set_lr(s, opt, -3);
    assert_int_equal(gw_scope_close(s).status, GW_INVALID);
}

static void a_discarded_step_changes_nothing(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *a = leaf(s, 1, 2);
    gw_optimizer *opt = gw_adam(s, list_of(s, a, NULL), .lr = 0.1);
    gw_backward(s, gw_sum(s, a));
    assert_true(optimizer_prepare(s, opt));
    optimizer_abort(opt);
    assert_values(a, 1, 2);
    assert_int_equal(gw_optimizer_steps(opt), 0);
    gw_optimizer_step(s, opt);
    assert_values(a, 0.9f, 1.9f);  // the first step still, in state, too
    assert_int_equal(gw_scope_close(s).status, GW_OK);
}

static void a_staged_step_waits_for_its_commit(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *a = leaf(s, 1, 2), *b = leaf(s, 3, 4);
    gw_optimizer *opt = gw_adam(s, list_of(s, a, b), .lr = 0.1);
    for (int step = 0; step < 3; step++) {
        gw_scope *t = gw_scope_open(s);
        gw_backward(t, gw_sum(t, gw_add(t, a, b)));
        assert_true(optimizer_prepare(t, opt));
        assert_values(a, 1 - 0.1f * (float)step, 2 - 0.1f * (float)step);
        gw_scope_close_up(t);  // a prepared step does not need the gradients
        optimizer_commit(opt);
    }
    assert_values(b, 2.7f, 3.7f);
    assert_int_equal(gw_optimizer_steps(opt), 3);
    assert_int_equal(gw_scope_close(s).status, GW_OK);
}

// Parameters that are whole tensors, or parts of one; seen directly, or through a view.
static void save_between_stage_and_commit(bool are_parts, bool through_view) {
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *flat = gw_from(s, ((float[]){ 1, 2, 3, 4 }), 4);
    gw_tensor *a = leaf(s, 1, 2), *b = leaf(s, 3, 4);
    if (are_parts) {
        a = gw_requires_grad(s, gw_slice(s, flat, 0, 0, 2, 1));
        b = gw_requires_grad(s, gw_slice(s, flat, 0, 2, 4, 1));
    }
    gw_optimizer *opt = gw_sgd(s, list_of(s, a, b), .lr = 1);
    gw_scope *t = gw_scope_open(s), *u = gw_scope_open(s);
    gw_backward(t, gw_sum(t, gw_add(t, a, b)));
    assert_true(optimizer_prepare(t, opt));
    gw_tensor *seen_a = through_view ? gw_reshape(u, a, 1, 2) : a;
    gw_tensor *seen_b = through_view ? gw_reshape(u, b, 1, 2) : b;
    gw_tensor *product = gw_sum(u, gw_mul(u, seen_a, seen_b));
    optimizer_commit(opt);
    assert_values(a, 0, 1);
    assert_values(b, 2, 3);
    gw_backward(u, product);
    assert_values(gw_grad(u, a), 3, 4);
    assert_values(gw_grad(u, b), 1, 2);
    gw_scope_close_up(u);
    gw_scope_close_up(t);
    assert_int_equal(gw_scope_close(s).status, GW_OK);
}

static void state_saved_before_the_commit_does_not_change(void **state) {
    (void)state;
    for (int i = 0; i < 4; i++) save_between_stage_and_commit(i & 1, i & 2);
}

static void values_that_are_being_sent_stay_as_they_were(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *a = leaf(s, 1, 2);
    gw_optimizer *opt = gw_sgd(s, list_of(s, a, NULL), .lr = 1);
    gw_backward(s, gw_sum(s, a));
    block *frame = block_pin(a->storage->block);
    gw_optimizer_step(s, opt);
    assert_values(a, 0, 1);
    assert_float_equal(((const float *)(const void *)frame->bytes)[0], 1, 0);
    block_unpin(frame);
    const void *place = gw_data(a);
    gw_optimizer_step(s, opt);
    assert_values(a, -1, 0);
    assert_ptr_equal(gw_data(a), place);  // no other handle sees it: written in place
    assert_int_equal(gw_scope_close(s).status, GW_OK);
}

static int allowed_count;

static int fail_after_some(size_t size) {
    (void)size;
    return allowed_count-- <= 0;
}

static void a_step_is_all_or_nothing(void **state) {
    (void)state;
    bool done = false;
    for (int n = 0; !done; n++) {
        gw_scope *root = gw_scope_open(NULL);
        gw_tensor *a = leaf(root, 1, 2), *b = leaf(root, 3, 4);
        gw_optimizer *opt = gw_adam(root, list_of(root, a, b), .lr = 0.1);
        gw_scope *s = gw_scope_open(root);
        gw_backward(s, gw_sum(s, gw_add(s, a, b)));
        assert_true(gw_ok(s));
        allowed_count = n;
        mem_fail_hook = fail_after_some;
        gw_optimizer_step(s, opt);
        mem_fail_hook = NULL;
        done = gw_ok(s);
        assert_values(a, done ? 0.9f : 1, done ? 1.9f : 2);
        assert_values(b, done ? 2.9f : 3, done ? 3.9f : 4);
        assert_int_equal(gw_optimizer_steps(opt), done);
        if (!done) {
            assert_int_equal(gw_scope_error(s)->status, GW_NO_MEMORY);
            gw_scope_clear(s);
            gw_optimizer_step(s, opt);  // it can be tried again
            assert_values(b, 2.9f, 3.9f);
        }
        assert_int_equal(gw_scope_close(root).status, GW_OK);
    }
}

static void nothing_happens_in_a_failed_scope(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *a = leaf(s, 1, 2);
    gw_optimizer *opt = gw_sgd(s, list_of(s, a, NULL), .lr = 0.1);
    gw_backward(s, gw_sum(s, a));
    gw_fail(s, GW_REMOTE, "something else");
    gw_optimizer_step(s, opt);
    assert_values(a, 1, 2);
    assert_int_equal(gw_scope_close(s).status, GW_REMOTE);
}

static void train_a_little(void *context) {
    (void)context;
    gw_scope *root = gw_scope_open(NULL);
    gw_tensor *a = leaf(root, 1, 2);
    gw_optimizer *opt = gw_sgd(root, list_of(root, a, NULL), .momentum = 0.5);
    for (int i = 0; i < 2; i++) {
        gw_scope *s = gw_scope_open(root);
        gw_backward(s, gw_sum(s, gw_mul(s, a, a)));
        gw_clip_grad_norm(s, list_of(s, a, NULL), 0.1);
        gw_optimizer_step(s, opt);
        gw_scope_close_up(s);
    }
    gw_error e = gw_scope_close(root);
    (void)e;
}

static void it_survives_any_failing_allocation(void **state) {
    (void)state;
    testing_alloc_failure_loop(train_a_little, NULL);
}

GW_TESTS(optim_step, parameters_without_gradient_stay, a_step_uses_the_gradients_of_its_scope_only,
         values_saved_for_backward_stay_as_they_were, views_see_the_new_values,
         lent_memory_gets_the_new_values, the_rate_can_change_between_steps,
         a_discarded_step_changes_nothing, a_staged_step_waits_for_its_commit,
         state_saved_before_the_commit_does_not_change,
         values_that_are_being_sent_stay_as_they_were, a_step_is_all_or_nothing,
         nothing_happens_in_a_failed_scope, it_survives_any_failing_allocation);
