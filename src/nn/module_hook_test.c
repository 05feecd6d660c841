#include "testing/testing.h"

#include <gradwire/autograd.h>
#include <gradwire/nn.h>

#include <string.h>

static gw_tensor *double_input(gw_scope *s, gw_module *m, gw_tensor *x, void *context) {
    (void)m;
    ++*(int *)context;
    return gw_mul(s, x, 2);
}

static gw_tensor *add_input(gw_scope *s, gw_module *m, gw_tensor *x, gw_tensor *y, void *context) {
    (void)m;
    ++*(int *)context;
    return gw_add(s, x, y);
}

static gw_tensor *count_call(gw_scope *s, gw_module *m, gw_tensor *x, gw_tensor *y, void *context) {
    (void)m, (void)x;
    *(double *)context = gw_item(s, gw_sum(s, y));
    return NULL;
}

static void they_stand_around_the_forward(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_module *m = gw_nn_relu(s);
    int before = 0, after = 0;
    double seen = 0;
    gw_module_register_forward_hook(s, m, add_input, &after);
    gw_module_register_forward_pre_hook(s, m, double_input, &before);
    gw_module_register_forward_hook(s, m, count_call, &seen);
    // relu(2 * 3) + 2 * 3
    assert_float_equal(gw_item(s, gw_module_call(s, m, gw_full(s, GW_F32, 3.0))), 12, 0);
    assert_float_equal(seen, 12, 0);
    assert_int_equal(before, 1);
    assert_int_equal(after, 1);
    assert_int_equal(gw_scope_close(s).status, GW_OK);
}

static void they_run_for_parts_too(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_module *part = gw_nn_relu(s), *m = gw_nn_sequential(s, part, gw_nn_tanh(s));
    int count = 0;
    gw_module_register_forward_pre_hook(s, part, double_input, &count);
    gw_module_call(s, m, gw_ones(s, GW_F32));
    assert_int_equal(count, 1);
    assert_int_equal(gw_scope_close(s).status, GW_OK);
}

// Calls of several tensors: the first input, the first output.
static void they_stand_around_typed_calls(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_module *lstm = gw_nn_lstm(s, 1, 2), *bag = gw_nn_embedding_bag(s, 3, 2),
              *encoder = gw_nn_transformer_encoder_layer(s, 2, 1, .feedforward = 2);
    gw_module *all[] = { lstm, bag, encoder, gw_module_child(s, encoder, "self_attn") };
    int before[4] = { 0 }, after = 0;
    double seen = 0;
    for (int i = 0; i < 4; i++)
        gw_module_register_forward_pre_hook(s, all[i], double_input, &before[i]);
    gw_module_register_forward_hook(s, lstm, count_call, &seen);
    gw_module_register_forward_hook(s, encoder, add_input, &after);
    gw_tensor *x = gw_ones(s, GW_F32, 1, 1), *twice = gw_full(s, GW_F32, 2.0, 1, 1);
    gw_lstm_result a = gw_nn_lstm_call(s, lstm, x);
    assert_int_equal(before[0], 1);
    assert_float_equal(gw_item(s, gw_sum(s, a.output)), seen, 0);
    gw_module *same = gw_nn_lstm(s, 1, 2);
    gw_module_load_state_dict(s, same, gw_module_state_dict(s, lstm));
    gw_lstm_result b = gw_nn_lstm_call(s, same, twice);
    assert_float_equal(gw_item(s, gw_sum(s, a.c)), gw_item(s, gw_sum(s, b.c)), 0);
    gw_nn_embedding_bag_call(s, bag, gw_zeros(s, GW_I64, 1, 2));
    gw_nn_transformer_encoder_layer_call(s, encoder, gw_ones(s, GW_F32, 3, 1, 2));
    gw_module_call(s, encoder, gw_ones(s, GW_F32, 3, 1, 2));
    assert_int_equal(before[1], 1);
    assert_int_equal(before[2], 2);
    assert_int_equal(before[3], 2);
    assert_int_equal(after, 2);
    assert_int_equal(gw_scope_close(s).status, GW_OK);
}

static void gradients_flow_through_them(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_module *m = gw_nn_relu(s);
    int count = 0;
    gw_module_register_forward_pre_hook(s, m, double_input, &count);
    gw_module_register_forward_hook(s, m, add_input, &count);
    gw_tensor *x = gw_requires_grad(s, gw_full(s, GW_F32, 3.0));
    gw_backward(s, gw_module_call(s, m, x));
    assert_float_equal(gw_item(s, gw_grad(s, x)), 4, 0);
    assert_int_equal(gw_scope_close(s).status, GW_OK);
}

// ---- Removing -----------------------------------------------------------------------------------
typedef struct once {
    int hook, count;
} once;

static gw_tensor *run_once(gw_scope *s, gw_module *m, gw_tensor *x, void *context) {
    (void)x;
    once *o = context;
    o->count++;
    gw_module_remove_hook(s, m, o->hook);
    return NULL;
}

static void one_may_remove_itself(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_module *m = gw_nn_relu(s);
    once o = { 0 };
    int others = 0;
    o.hook = gw_module_register_forward_pre_hook(s, m, run_once, &o);
    gw_module_register_forward_pre_hook(s, m, double_input, &others);
    for (int i = 0; i < 3; i++) gw_module_call(s, m, gw_ones(s, GW_F32));
    assert_int_equal(o.count, 1);
    assert_int_equal(others, 3);
    assert_int_equal(gw_scope_close(s).status, GW_OK);
}

static void a_removed_one_is_gone(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_module *m = gw_nn_relu(s);
    int count = 0;
    int hook = gw_module_register_forward_hook(s, m, add_input, &count);
    gw_module_remove_hook(s, m, hook);
    gw_module_call(s, m, gw_ones(s, GW_F32));
    assert_int_equal(count, 0);
    gw_module_remove_hook(s, m, hook);
    gw_error e = gw_scope_close(s);
    assert_int_equal(e.status, GW_NOT_FOUND);
    assert_non_null(strstr(e.text, "relu has no hook 1"));
}

// ---- Failing ------------------------------------------------------------------------------------
static gw_tensor *fail_before(gw_scope *s, gw_module *m, gw_tensor *x, void *context) {
    (void)m, (void)context;
    gw_fail(s, GW_REMOTE, "not today");
    return x;
}

static void a_hook_that_fails_ends_the_call(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_module *m = gw_nn_relu(s);
    int count = 0;
    gw_module_register_forward_pre_hook(s, m, fail_before, NULL);
    gw_module_register_forward_pre_hook(s, m, double_input, &count);
    gw_module_register_forward_hook(s, m, add_input, &count);
    gw_module_call(s, m, gw_ones(s, GW_F32));
    assert_int_equal(count, 0);
    assert_non_null(strstr(gw_scope_close(s).text, "not today"));
}

static void a_hook_is_a_function(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    assert_int_equal(gw_module_register_forward_hook(s, gw_nn_relu(s), NULL, NULL), 0);
    gw_module *poison = gw_nn_relu(s);
    assert_int_equal(gw_module_register_forward_hook(s, poison, add_input, NULL), 0);
    gw_error e = gw_scope_close(s);
    assert_int_equal(e.status, GW_INVALID);
    assert_non_null(strstr(e.text, "the hook is NULL"));
}

static void use_hooks(void *context) {
    (void)context;
    gw_scope *s = gw_scope_open(NULL);
    gw_module *m = gw_nn_relu(s);
    int count = 0;
    for (int i = 0; i < 5; i++) gw_module_register_forward_pre_hook(s, m, double_input, &count);
    gw_module_register_forward_hook(s, m, add_input, &count);
    gw_module_call(s, m, gw_ones(s, GW_F32, 2));
    gw_error e = gw_scope_close(s);
    (void)e;
}

static void they_survive_any_failing_allocation(void **state) {
    (void)state;
    testing_alloc_failure_loop(use_hooks, NULL);
}

GW_TESTS(nn_hook, they_stand_around_the_forward, they_run_for_parts_too,
         they_stand_around_typed_calls, gradients_flow_through_them, one_may_remove_itself,
         a_removed_one_is_gone, a_hook_that_fails_ends_the_call, a_hook_is_a_function,
         they_survive_any_failing_allocation);
