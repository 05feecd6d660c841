#include "testing/testing.h"

#include <gradwire/autograd.h>
#include <gradwire/nn.h>

static void its_parts_have_pytorchs_names(void **state) {
    (void)state;
    static const char *const names[] = {
        "self_attn.in_proj_weight",
        "self_attn.in_proj_bias",
        "self_attn.out_proj.weight",
        "self_attn.out_proj.bias",
        "linear1.weight",
        "linear1.bias",
        "linear2.weight",
        "linear2.bias",
        "norm1.weight",
        "norm1.bias",
        "norm2.weight",
        "norm2.bias",
    };
    gw_scope *s = gw_scope_open(NULL);
    gw_module *m = gw_nn_transformer_encoder_layer(s, 8, 2);
    assert_int_equal(gw_module_parameter_count(m), 12);
    for (int i = 0; i < 12; i++) assert_string_equal(gw_module_parameter_name(s, m, i), names[i]);
    assert_int_equal(gw_size(gw_module_parameter_get(s, m, "linear1.weight"), 0), 2048);
    assert_non_null(gw_module_child(s, m, "dropout"));
    assert_non_null(gw_module_child(s, m, "dropout1"));
    assert_non_null(gw_module_child(s, m, "dropout2"));
    assert_int_equal(gw_scope_close(s).status, GW_OK);
}

static void it_drops_by_default_in_training_only(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_module *m = gw_nn_transformer_encoder_layer(s, 8, 2, .feedforward = 16, .gelu = true);
    gw_tensor *x = gw_randn(s, GW_F32, 5, 3, 8);
    assert_false(gw_equal(s, gw_module_call(s, m, x), gw_module_call(s, m, x)));
    gw_module_eval(s, m);
    assert_true(gw_equal(s, gw_module_call(s, m, x), gw_module_call(s, m, x)));
    assert_int_equal(gw_scope_close(s).status, GW_OK);
}

// A word's output does not depend on those that a causal mask hides from it.
static void masks_hide_later_positions(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_module *m = gw_nn_transformer_encoder_layer(s, 8, 2, .feedforward = 16, .dropout = 0,
                                                   .batch_first = true, .norm_first = true);
    gw_tensor *row = gw_arange(s, GW_I64, 0, 4, 1);
    gw_tensor *later = gw_lt(s, gw_unsqueeze(s, row, 1), row);
    gw_attention_options options = GW_OPTIONS(gw_attention_options, .attn_mask = later);
    gw_tensor *x = gw_randn(s, GW_F32, 2, 4, 8), *first = gw_slice(s, x, 1, 0, 2, 1);
    gw_tensor *rest[] = { first, gw_randn(s, GW_F32, 2, 2, 8) };
    gw_tensor *a = gw_nn_transformer_encoder_layer_call_with(s, m, x, options);
    gw_tensor *b = gw_nn_transformer_encoder_layer_call_with(s, m, gw_cat(s, rest, 2, 1), options);
    assert_true(gw_allclose(s, gw_slice(s, a, 1, 0, 2, 1), gw_slice(s, b, 1, 0, 2, 1), .rtol = 1e-5,
                            .atol = 1e-6));
    assert_false(gw_allclose(s, a, b, .rtol = 1e-2, .atol = 1e-2));
    gw_backward(s, gw_sum(s, a));
    assert_int_equal(gw_grads_count(s), 12);
    assert_int_equal(gw_scope_close(s).status, GW_OK);
}

static void wrong_calls_are_refused(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_nn_transformer_encoder_layer_call(s, gw_nn_tanh(s), gw_zeros(s, GW_F32, 2, 4));
    gw_error e = gw_scope_close(s);
    assert_string_equal(e.text, "gw_nn_transformer_encoder_layer_call: the module is \"tanh\"");
    s = gw_scope_open(NULL);
    gw_nn_transformer_encoder_layer(s, 5, 2);
    e = gw_scope_close(s);
    assert_string_equal(
        e.text, "gw_nn_multihead_attention: 5 features cannot be divided equally among 2 heads");
}

static void encode_once(void *context) {
    (void)context;
    gw_scope *s = gw_scope_open(NULL);
    gw_module *m = gw_nn_transformer_encoder_layer(s, 4, 2, .feedforward = 3);
    gw_backward(s, gw_sum(s, gw_module_call(s, m, gw_randn(s, GW_F32, 3, 2, 4))));
    gw_error error = gw_scope_close(s);
    assert_true(error.status == GW_OK || error.status == GW_NO_MEMORY);
}

static void it_survives_without_memory(void **state) {
    (void)state;
    testing_alloc_failure_loop(encode_once, NULL);
}

GW_TESTS(nn_transformer, its_parts_have_pytorchs_names, it_drops_by_default_in_training_only,
         masks_hide_later_positions, wrong_calls_are_refused, it_survives_without_memory);
