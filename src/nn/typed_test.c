#include "testing/testing.h"

#include "nn/module.h"
#include "tensor/tensor.h"

#include <string.h>

static void assert_refused(gw_scope *s, const char *words) {
    const gw_error *e = gw_scope_error(s);
    if (!e || e->status != GW_INVALID || !strstr(e->text, words))
        fail_msg("\"%s\" does not say \"%s\"", e ? e->text : "ok", words);
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
    gw_lstm_result r = gw_nn_lstm_call(s, gru, x, NULL, NULL);
    assert_ptr_equal(r.output, &tensor_poison);
    assert_ptr_equal(r.c, &tensor_poison);
    assert_refused(s, "gw_nn_lstm_call: the module is \"gru\"");
    gw_nn_embedding_bag_call(s, linear, x, NULL, NULL);
    assert_refused(s, "gw_nn_embedding_bag_call: the module is \"linear\"");
    gw_nn_rnn_call(s, NULL, x, NULL);
    assert_refused(s, "gw_nn_rnn_call: no module");
    assert_int_equal(gw_scope_close(s).status, GW_OK);
}

static void what_is_not_given_is_said(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_module *gru = gw_nn_gru(s, 2, 3), *attention = gw_nn_multihead_attention(s, 2, 1);
    gw_tensor *x = gw_ones(s, GW_F32, 4, 2);
    gw_nn_gru_call(s, gru, NULL, x);
    assert_refused(s, "gw_nn_gru_call: the first input is NULL");
    gw_nn_multihead_attention_call(s, attention, x, NULL, x);
    assert_refused(s, "gw_nn_multihead_attention_call: no key");
    gw_nn_multihead_attention_call(s, attention, x, x, NULL);
    assert_refused(s, "gw_nn_multihead_attention_call: no value");
    assert_int_equal(gw_scope_close(s).status, GW_OK);
}

// As operators have it.
static void poison_gives_poison(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *x = gw_ones(s, GW_F32, 4, 2);
    gw_rnn_result r = gw_nn_gru_call(s, gw_nn_gru(s, 2, 3), x, &tensor_poison);
    assert_ptr_equal(r.output, &tensor_poison);
    assert_ptr_equal(r.h, &tensor_poison);
    assert_int_equal(gw_scope_close(s).status, GW_OK);
}

static void use_them(void *context) {
    (void)context;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *x = gw_ones(s, GW_F32, 4, 2);
    gw_lstm_result r = gw_nn_lstm_call(s, gw_nn_lstm(s, 2, 3), x, NULL, NULL);
    if (gw_ok(s)) assert_int_equal(gw_numel(r.c), 3);
    gw_error e = gw_scope_close(s);
    (void)e;
}

static void they_survive_any_failing_allocation(void **state) {
    (void)state;
    testing_alloc_failure_loop(use_them, NULL);
}

GW_TESTS(nn_typed, they_have_names, each_is_for_its_module, what_is_not_given_is_said,
         poison_gives_poison, they_survive_any_failing_allocation);
