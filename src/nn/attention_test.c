#include "testing/testing.h"

#include <gradwire/autograd.h>
#include <gradwire/nn.h>

#include <math.h>
#include <string.h>

static const gw_nn_attention_options plain = { gw_nn_attention_options_defaults },
                                     batch_first = { gw_nn_attention_options_defaults,
                                                     .batch_first = true };

static void it_starts_as_in_pytorch(void **state) {
    (void)state;
    static const char *const names[] = { "in_proj_weight", "in_proj_bias", "out_proj.weight",
                                         "out_proj.bias" };
    gw_scope *s = gw_scope_open(NULL);
    gw_module *m = gw_nn_multihead_attention_with(s, 24, 4, plain);
    assert_int_equal(gw_module_parameter_count(m), 4);
    for (int i = 0; i < 4; i++) assert_string_equal(gw_module_parameter_name(s, m, i), names[i]);
    gw_tensor *w = gw_module_parameter_at(s, m, 0);
    assert_int_equal(gw_size(w, 0), 72);
    double bound = sqrt(6.0 / (4 * 24)), high = gw_item(s, gw_max(s, gw_abs(s, w)));
    assert_true(high <= bound && high > 0.95 * bound);
    assert_true(fabs(gw_item(s, gw_std(s, w)) - bound / sqrt(3)) < 0.05 * bound);
    assert_true(gw_equal(s, gw_module_parameter_at(s, m, 1), gw_zeros(s, GW_F32, 72)));
    assert_true(gw_equal(s, gw_module_parameter_at(s, m, 3), gw_zeros(s, GW_F32, 24)));
    high = gw_item(s, gw_max(s, gw_abs(s, gw_module_parameter_at(s, m, 2))));
    assert_true(high <= 1 / sqrt(24) && high > 0.9 / sqrt(24));
    assert_int_equal(gw_scope_close(s).status, GW_OK);
}

static void it_starts_keys_and_values_of_its_own_as_in_pytorch(void **state) {
    (void)state;
    static const char *const names[] = { "in_proj_weight", "in_proj_bias",    "bias_k",
                                         "bias_v",         "out_proj.weight", "out_proj.bias" };
    gw_scope *s = gw_scope_open(NULL);
    gw_module *m = gw_nn_multihead_attention(s, 900, 3, .add_bias_kv = true);
    assert_int_equal(gw_module_parameter_count(m), 6);
    for (int i = 0; i < 6; i++) assert_string_equal(gw_module_parameter_name(s, m, i), names[i]);
    for (int i = 2; i < 4; i++) {
        gw_tensor *x = gw_module_parameter_at(s, m, i);
        assert_int_equal(gw_dims(x), 3);
        assert_int_equal(gw_size(x, 2), 900);
        assert_true(fabs(gw_item(s, gw_std(s, x)) - 1.0 / 30) < 0.1 / 30);
        assert_true(fabs(gw_item(s, gw_mean(s, x))) < 0.2 / 30);
    }
    gw_module *none = gw_nn_multihead_attention(s, 4, 1, .add_zero_attn = true);
    assert_int_equal(gw_module_parameter_count(none), 4);
    assert_int_equal(gw_scope_close(s).status, GW_OK);
}

// Without other keys, only the layer's own key is attended to.
static void its_own_key_is_used_without_a_mask(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_module *m = gw_nn_multihead_attention(s, 4, 2, .add_bias_kv = true, .add_zero_attn = true);
    gw_tensor *query = gw_randn(s, GW_F32, 3, 2, 4), *key = gw_zeros(s, GW_F32, 0, 2, 4);
    gw_attention_result r = gw_nn_multihead_attention_call(s, m, query, key, key);
    assert_int_equal(gw_size(r.weights, 2), 2);
    assert_true(gw_allclose(s, gw_sum(s, r.weights, .dim = 2), gw_ones(s, GW_F32, 2, 3)));
    gw_tensor *all = gw_ones(s, GW_BOOL8, 2, 3);
    key = gw_randn(s, GW_F32, 3, 2, 4);
    gw_attention_result hidden =
        gw_nn_multihead_attention_call(s, m, query, key, key, .key_padding_mask = all);
    assert_true(gw_allclose(s, r.output, hidden.output));
    assert_true(gw_allclose(s, r.weights, gw_slice(s, hidden.weights, 2, 3, 5, 1)));
    assert_int_equal(gw_scope_close(s).status, GW_OK);
}

// One product projects inputs that are one tensor, several products project different ones; the
// results are the same.
static void one_tensor_as_several_inputs_changes_nothing(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_module *m = gw_nn_multihead_attention_with(s, 8, 2, batch_first);
    gw_tensor *x = gw_randn(s, GW_F32, 3, 5, 8), *y = gw_clone(s, x), *z = gw_clone(s, x);
    gw_attention_options options = GW_OPTIONS(gw_attention_options);
    gw_attention_result one = gw_nn_multihead_attention_call_with(s, m, x, x, x, options);
    gw_attention_result two = gw_nn_multihead_attention_call_with(s, m, x, y, y, options);
    gw_attention_result other = gw_nn_multihead_attention_call_with(s, m, x, x, y, options);
    gw_attention_result three = gw_nn_multihead_attention_call_with(s, m, x, y, z, options);
    assert_true(gw_allclose(s, one.output, two.output, .rtol = 1e-5, .atol = 1e-6));
    assert_true(gw_allclose(s, one.output, other.output, .rtol = 1e-5, .atol = 1e-6));
    assert_true(gw_allclose(s, one.output, three.output, .rtol = 1e-5, .atol = 1e-6));
    assert_true(gw_allclose(s, one.weights, three.weights, .rtol = 1e-5, .atol = 1e-6));
    assert_true(gw_equal(s, one.output, gw_module_call(s, m, x)));
    assert_int_equal(gw_scope_close(s).status, GW_OK);
}

static void weights_add_up_to_1_and_are_0_for_masked_keys(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_module *m = gw_nn_multihead_attention_with(s, 8, 4, plain);
    gw_tensor *query = gw_randn(s, GW_F32, 5, 2, 8), *key = gw_randn(s, GW_F32, 3, 2, 8);
    gw_tensor *padding = gw_view(s, gw_from(s, ((bool[]){ 0, 0, 1, 0, 1, 1 }), 6), 2, 3);
    gw_attention_options options = GW_OPTIONS(gw_attention_options, .key_padding_mask = padding);
    gw_attention_result r = gw_nn_multihead_attention_call_with(s, m, query, key, key, options);
    assert_true(gw_allclose(s, gw_sum(s, r.weights, .dim = 2), gw_ones(s, GW_F32, 2, 5), .rtol = 0,
                            .atol = 1e-6));
    assert_true(gw_equal(s, gw_slice(s, r.weights, 2, 2, 3, 1), gw_zeros(s, GW_F32, 2, 5, 1)));
    options.need_weights = false;
    assert_null(gw_nn_multihead_attention_call_with(s, m, query, key, key, options).weights);
    assert_int_equal(gw_scope_close(s).status, GW_OK);
}

static void it_drops_weights_in_training_only(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_module *m = gw_nn_multihead_attention(s, 4, 1, .dropout = 0.5);
    gw_tensor *x = gw_randn(s, GW_F32, 40, 1, 4);
    gw_attention_options options = GW_OPTIONS(gw_attention_options);
    gw_tensor *dropped = gw_nn_multihead_attention_call_with(s, m, x, x, x, options).weights;
    double share = gw_item(s, gw_mean(s, gw_to_dtype(s, gw_eq(s, dropped, 0.0), GW_F32)));
    assert_true(share > 0.4 && share < 0.6);
    gw_module_eval(s, m);
    gw_tensor *whole = gw_nn_multihead_attention_call_with(s, m, x, x, x, options).weights;
    assert_true(gw_item(s, gw_min(s, whole)) > 0);
    assert_int_equal(gw_scope_close(s).status, GW_OK);
}

// ---- Refusals -----------------------------------------------------------------------------------
typedef struct refused {
    gw_shape query, key, value, padding, mask;  // the last two may have no sizes
    const char *text;
} refused;

static gw_tensor *zeros(gw_scope *s, gw_dtype dtype, gw_shape shape) {
    return shape.count ? gw_zeros_with(s, dtype, shape) : NULL;
}

static void wrong_inputs_are_refused(void **state) {
    (void)state;
    const gw_shape none = { 0, NULL };
    const refused all[] = {
        { GW_SHAPE(3, 2, 5), GW_SHAPE(3, 2, 4), GW_SHAPE(3, 2, 4), none, none,
          "query 3x2x5, but must be a batch of 4 features" },
        { GW_SHAPE(3, 2, 4), GW_SHAPE(3, 4), GW_SHAPE(3, 2, 4), none, none,
          "key 3x4, but must be a batch of 4 features" },
        { GW_SHAPE(3, 4), GW_SHAPE(3, 4), GW_SHAPE(3, 2), none, none,
          "value 3x2, but must be T E of 4 features" },
        { GW_SHAPE(3, 2, 4), GW_SHAPE(3, 2, 4), GW_SHAPE(4, 2, 4), none, none,
          "query 3x2x4, key 3x2x4 and value 4x2x4 do not fit" },
        { GW_SHAPE(3, 2, 4), GW_SHAPE(5, 1, 4), GW_SHAPE(5, 1, 4), none, none,
          "query 3x2x4, key 5x1x4 and value 5x1x4 do not fit" },
        { GW_SHAPE(3, 2, 4), GW_SHAPE(5, 2, 4), GW_SHAPE(5, 2, 4), GW_SHAPE(5, 2), none,
          "key_padding_mask 5x2, but must be 2x5" },
        { GW_SHAPE(3, 4), GW_SHAPE(5, 4), GW_SHAPE(5, 4), GW_SHAPE(3), none,
          "key_padding_mask 3, but must be 5" },
        { GW_SHAPE(3, 2, 4), GW_SHAPE(5, 2, 4), GW_SHAPE(5, 2, 4), none, GW_SHAPE(5, 3),
          "attn_mask 5x3, but must be 3x5 or 4x3x5" },
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        gw_scope *s = gw_scope_open(NULL);
        gw_module *m = gw_nn_multihead_attention_with(s, 4, 2, plain);
        gw_attention_options options =
            GW_OPTIONS(gw_attention_options, .key_padding_mask = zeros(s, GW_BOOL8, all[i].padding),
                       .attn_mask = zeros(s, GW_BOOL8, all[i].mask));
        gw_nn_multihead_attention_call_with(s, m, zeros(s, GW_F32, all[i].query),
                                            zeros(s, GW_F32, all[i].key),
                                            zeros(s, GW_F32, all[i].value), options);
        gw_error e = gw_scope_close(s);
        assert_int_equal(e.status, GW_INVALID);
        assert_memory_equal(e.text, "gw_nn_multihead_attention: ", 27);
        assert_string_equal(e.text + 27, all[i].text);
    }
}

static void assert_not_opened(int64_t features, int64_t heads, gw_nn_attention_options options,
                              const char *text) {
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *x = gw_zeros(s, GW_F32, 3, 4);
    gw_nn_multihead_attention_call(s, gw_nn_multihead_attention_with(s, features, heads, options),
                                   x, x, x);
    gw_error e = gw_scope_close(s);
    assert_string_equal(e.text, text);
}

static void impossible_options_are_refused(void **state) {
    (void)state;
    assert_not_opened(
        4, 3, plain,
        "gw_nn_multihead_attention: 4 features cannot be divided equally among 3 heads");
    assert_not_opened(
        4, 0, plain,
        "gw_nn_multihead_attention: 4 features cannot be divided equally among 0 heads");
    assert_not_opened(4, 2, GW_OPTIONS(gw_nn_attention_options, .dropout = 2),
                      "gw_nn_multihead_attention: dropout is 2, but must be a probability: 0 to 1");
    assert_not_opened(4, 2, GW_OPTIONS(gw_nn_attention_options, .kdim = -1),
                      "gw_nn_multihead_attention: keys have -1 features and values 4, but each "
                      "must have 1 or more");
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *x = gw_zeros(s, GW_F32, 3, 4);
    gw_nn_multihead_attention_call(s, gw_nn_relu(s), x, x, x);
    gw_error e = gw_scope_close(s);
    assert_string_equal(e.text, "gw_nn_multihead_attention_call: the module is \"relu\"");

    s = gw_scope_open(NULL);
    gw_module *m = gw_nn_multihead_attention_with(s, 4, 2, plain);
    x = gw_zeros(s, GW_F32, 3, 4);
    gw_attention_options options =
        GW_OPTIONS(gw_attention_options, .attn_mask = gw_zeros(s, GW_I64, 3, 3));
    gw_nn_multihead_attention_call_with(s, m, x, x, x, options);
    e = gw_scope_close(s);
    assert_string_equal(e.text, "gw_nn_multihead_attention: attn_mask of i64, but must be of "
                                "bool or f32");
}

static void attend_once(void *context) {
    (void)context;
    gw_scope *s = gw_scope_open(NULL);
    gw_module *m = gw_nn_multihead_attention(s, 4, 2, .dropout = 0.5, .add_bias_kv = true,
                                             .add_zero_attn = true);
    gw_tensor *x = gw_randn(s, GW_F32, 3, 2, 4), *y = gw_randn(s, GW_F32, 2, 2, 4);
    gw_attention_options options =
        GW_OPTIONS(gw_attention_options, .attn_mask = gw_zeros(s, GW_F32, 3, 2),
                   .key_padding_mask = gw_zeros(s, GW_BOOL8, 2, 2));
    gw_attention_result r = gw_nn_multihead_attention_call_with(s, m, x, y, y, options);
    gw_backward(s, gw_add(s, gw_sum(s, r.output), gw_sum(s, r.weights)));
    gw_error error = gw_scope_close(s);
    assert_true(error.status == GW_OK || error.status == GW_NO_MEMORY);
}

static void it_survives_without_memory(void **state) {
    (void)state;
    testing_alloc_failure_loop(attend_once, NULL);
}

static void sizes_that_no_tensor_has_are_refused(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_nn_multihead_attention(s, INT64_MAX, 1);
    assert_int_equal(gw_scope_error(s)->status, GW_LIMIT);
    gw_scope_clear(s);
    gw_nn_transformer_encoder_layer(s, INT64_MAX, 1);
    assert_int_equal(gw_scope_error(s)->status, GW_LIMIT);
    gw_scope_clear(s);
    gw_scope_close_up(s);
}

GW_TESTS(nn_attention, sizes_that_no_tensor_has_are_refused, it_starts_as_in_pytorch,
         it_starts_keys_and_values_of_its_own_as_in_pytorch, its_own_key_is_used_without_a_mask,
         one_tensor_as_several_inputs_changes_nothing,
         weights_add_up_to_1_and_are_0_for_masked_keys, it_drops_weights_in_training_only,
         wrong_inputs_are_refused, impossible_options_are_refused, it_survives_without_memory);
