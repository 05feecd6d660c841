#include "testing/testing.h"

#include "nn/module.h"
#include "tensor/tensor.h"

#include <string.h>

static void assert_refused(gw_scope *s, const char *words) {
    const gw_error *e = gw_scope_error(s);
    if (!e || e->status != GW_INVALID || !strstr(e->text, words))
        fail_msg("\"%s\" does not contain \"%s\"", e ? e->text : "ok", words);
    gw_scope_clear(s);
}

static void they_have_names(void **state) {
    (void)state;
    assert_ptr_equal(typed_call_find("gru"), &typed_gru);
    assert_ptr_equal(typed_call_find("transformer_encoder_layer"), &typed_encoder_layer);
    assert_null(typed_call_find("linear"));
    assert_null(typed_call_find(""));
}

static void each_is_for_its_module(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_module *gru = gw_nn_gru(s, 2, 3), *linear = gw_nn_linear(s, 2, 3);
    gw_tensor *x = gw_ones(s, GW_F32, 4, 2);
    gw_lstm_result r = gw_nn_lstm_call(s, gru, x);
    assert_true(tensor_is_poison(r.output));
    assert_true(tensor_is_poison(r.c));
    assert_refused(s, "gw_nn_lstm_call: the module is \"gru\"");
    gw_nn_embedding_bag_call(s, linear, x);
    assert_refused(s, "gw_nn_embedding_bag_call: the module is \"linear\"");
    gw_nn_rnn_call(s, NULL, x);
    assert_refused(s, "gw_nn_rnn_call: no module");
    assert_int_equal(gw_scope_close(s).status, GW_OK);
}

static void missing_values_are_errors(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_module *gru = gw_nn_gru(s, 2, 3), *attention = gw_nn_multihead_attention(s, 2, 1);
    gw_tensor *x = gw_ones(s, GW_F32, 4, 2);
    gw_nn_gru_call(s, gru, NULL, .h0 = x);
    assert_refused(s, "gw_nn_gru_call: the first input is NULL");
    gw_nn_multihead_attention_call(s, attention, x, NULL, x);
    assert_refused(s, "gw_nn_multihead_attention_call: the key is missing");
    gw_nn_multihead_attention_call(s, attention, x, x, NULL);
    assert_refused(s, "gw_nn_multihead_attention_call: the value is missing");
    assert_int_equal(gw_scope_close(s).status, GW_OK);
}

// As operators have it.
static void poison_is_refused(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *x = gw_ones(s, GW_F32, 4, 2);
    gw_rnn_result r = gw_nn_gru_call(s, gw_nn_gru(s, 2, 3), x, .h0 = &tensor_poison);
    assert_true(tensor_is_poison(r.output));
    assert_true(tensor_is_poison(r.h));
    assert_refused(
        s, "gw_nn_gru_call: the tensor was made in a scope that has failed: it was never made");
    assert_int_equal(gw_scope_close(s).status, GW_OK);
}

// ---- Modules of one's own -----------------------------------------------------------------------
// x and a factor, which may be left out; gives the product, or with a name both in a map.
static gw_value forward_scaled(gw_scope *s, gw_module *m, const gw_args *a) {
    (void)m;
    gw_tensor *x = gw_arg_tensor(s, a, 0);
    gw_tensor *y = gw_mul(s, x, gw_arg_count(a) > 1 ? gw_arg_float(s, a, 1) : 2);
    if (gw_arg_count(a) < 3) return gw_value_of(y);
    gw_map *both = gw_map_open(s);
    gw_map_put(s, both, "x", x);
    gw_map_put(s, both, gw_arg_string(s, a, 2), y);
    return gw_value_of(both);
}

static gw_value forward_odd(gw_scope *s, gw_module *m, const gw_args *a) {
    (void)m;
    gw_list *list = gw_list_open(s);
    return gw_arg_count(a) == 1   ? gw_none()
           : gw_arg_bool(s, a, 1) ? gw_value_of(list)
                                  : gw_value_of(3);
}

static void they_take_and_give_any_values(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_module *m = gw_module_open(s, "scaled", forward_scaled, NULL);
    gw_tensor *x = gw_ones(s, GW_F32, 2);
    assert_true(gw_item(s, gw_sum(s, gw_tensor_of(s, gw_module_call_value(s, m, x, 3)))) == 6);
    gw_map *both = gw_map_of(s, gw_module_call_value(s, m, x, 0.5, "half"));
    assert_true(gw_item(s, gw_sum(s, gw_tensor_of(s, gw_map_get(s, both, "half")))) == 1);
    assert_int_equal(gw_scope_close(s).status, GW_OK);
}

static void with_one_tensor_they_are_modules_like_any_other(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_module *m =
        gw_nn_sequential(s, gw_module_open(s, "scaled", forward_scaled, NULL), gw_nn_relu(s));
    gw_tensor *x = gw_ones(s, GW_F32, 2);
    assert_true(gw_item(s, gw_sum(s, gw_module_call(s, m, x))) == 4);
    assert_true(gw_item(s, gw_sum(s, gw_tensor_of(s, gw_module_call_value(s, m, x)))) == 4);
    assert_int_equal(gw_scope_close(s).status, GW_OK);
}

static void mismatched_values_are_errors(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_module *m = gw_module_open(s, "scaled", forward_scaled, NULL);
    gw_module *odd = gw_module_open(s, "odd", forward_odd, NULL), *relu = gw_nn_relu(s);
    gw_tensor *x = gw_ones(s, GW_F32, 2);
    gw_module_call_value(s, m, x, "three");
    assert_refused(s, "scaled: argument 1 is string, not float");
    gw_module_call_value(s, m);
    assert_refused(s, "scaled: argument 0 is missing: the call has 0 arguments");
    gw_module_call_value(s, relu, x, x);
    assert_refused(s, "relu takes one tensor, not 2 values");
    gw_module_call_value(s, relu, 2);
    assert_refused(s, "relu takes one tensor, not int");
    gw_module_call_value(s, odd, x);
    assert_refused(s, "odd: its forward returned no output");
    gw_module_call(s, odd, x);
    assert_refused(s, "odd: its forward returned no output");
    gw_module_call_value(s, NULL, x);
    assert_refused(s, "gw_module_call_value: no module");
    gw_module_call_value(s, gw_nn_gru(s, 2, 3), x, x, x, x);
    assert_refused(s, "gw_module_call_value: \"gru\" takes at most 3 values, not 4");
    assert_int_equal(gw_scope_close(s).status, GW_OK);
}

static gw_tensor *add_one(gw_scope *s, gw_module *m, gw_tensor *x, void *context) {
    (void)m, (void)context;
    return gw_add(s, x, 1);
}
static gw_tensor *add_two(gw_scope *s, gw_module *m, gw_tensor *x, gw_tensor *y, void *context) {
    (void)m, (void)x, (void)context;
    return gw_add(s, y, 2);
}

static void hooks_get_the_first_of_each(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_module *m = gw_module_open(s, "scaled", forward_scaled, NULL);
    gw_module *odd = gw_module_open(s, "odd", forward_odd, NULL);
    gw_module_register_forward_pre_hook(s, m, add_one, NULL);
    gw_module_register_forward_hook(s, m, add_two, NULL);
    gw_module_register_forward_hook(s, odd, add_two, NULL);
    gw_tensor *x = gw_full(s, GW_F32, 4);
    assert_true(gw_item(s, gw_tensor_of(s, gw_module_call_value(s, m, x, 3))) == 17);
    gw_module_call_value(s, m, x, 3, "named");
    assert_refused(s, "scaled has hooks, but its first output is not a tensor");
    gw_module_call_value(s, m, 3);
    assert_refused(s, "scaled has hooks, but its first input is not a tensor");
    gw_module_call_value(s, odd, x, true);
    assert_refused(s, "odd has hooks, but its first output is not a tensor");
    assert_int_equal(gw_scope_close(s).status, GW_OK);
}

static void use_them(void *context) {
    (void)context;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *x = gw_ones(s, GW_F32, 4, 2);
    gw_lstm_result r = gw_nn_lstm_call(s, gw_nn_lstm(s, 2, 3), x);
    if (gw_ok(s)) assert_int_equal(gw_numel(r.c), 3);
    gw_module *m = gw_module_open(s, "scaled", forward_scaled, NULL);
    gw_module_register_forward_hook(s, m, add_two, NULL);
    gw_module_call_value(s, m, x, 3);
    gw_error e = gw_scope_close(s);
    (void)e;
}

static void they_survive_any_failing_allocation(void **state) {
    (void)state;
    testing_alloc_failure_loop(use_them, NULL);
}

GW_TESTS(nn_module_call, they_have_names, each_is_for_its_module, missing_values_are_errors,
         poison_is_refused, they_take_and_give_any_values,
         with_one_tensor_they_are_modules_like_any_other, mismatched_values_are_errors,
         hooks_get_the_first_of_each, they_survive_any_failing_allocation);
