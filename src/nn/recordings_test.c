// Layers give the recorded results of PyTorch: names, values, gradients, and buffers afterwards.
#include "testing/recording.h"
#include "testing/testing.h"

#include "nn/module.h"
#include "tensor/tensor.h"
#include <gradwire/autograd.h>

#include <stdio.h>
#include <string.h>

// Of f32, whose sums PyTorch adds in another order than we do.
static const double relative = 2e-5, absolute = 4e-6;

enum { OPTIONS_MAX = 24, INPUTS_MAX = 8 };

typedef struct layer_case {
    const char *kind;
    const char *keys[OPTIONS_MAX];
    double values[OPTIONS_MAX];
    int option_count;
    gw_module *module;
    gw_tensor *inputs[INPUTS_MAX];  // NULL: none
    int input_count;
    char what[128];
} layer_case;

static double option(const layer_case *c, const char *key) {
    for (int i = 0; i < c->option_count; i++)
        if (strcmp(c->keys[i], key) == 0) return c->values[i];
    return 0;
}

static double option_or_default(const layer_case *c, const char *key, double otherwise) {
    for (int i = 0; i < c->option_count; i++)
        if (strcmp(c->keys[i], key) == 0) return c->values[i];
    return otherwise;
}

// ---- Making -------------------------------------------------------------------------------------
static gw_module *open_layer_norm(gw_scope *s, const layer_case *c) {
    int64_t sizes[] = { (int64_t)option(c, "size"), (int64_t)option(c, "size_1") };
    return gw_nn_layer_norm_with(s, (gw_shape){ sizes[1] ? 2 : 1, sizes },
                                 GW_OPTIONS(gw_nn_layer_norm_options,
                                            .eps = option_or_default(c, "eps", 1e-5),
                                            .elementwise_affine = !option(c, "no_affine")));
}

static gw_nn_conv_options conv_options(const layer_case *c) {
    int64_t padding = (int64_t)option(c, "padding_1");
    return GW_OPTIONS(gw_nn_conv_options,
                      .kernel = { (int64_t)option(c, "kernel_0"), (int64_t)option(c, "kernel_1") },
                      .stride = { (int64_t)option_or_default(c, "stride_0", 1),
                                  (int64_t)option_or_default(c, "stride_1", 1) },
                      .padding = { (int64_t)option(c, "padding_0"), padding },
                      .dilation = { (int64_t)option_or_default(c, "dilation_0", 1),
                                    (int64_t)option_or_default(c, "dilation_1", 1) },
                      .groups = (int64_t)option_or_default(c, "groups", 1),
                      .bias = !option(c, "no_bias"));
}

static gw_module *open_conv1d(gw_scope *s, const layer_case *c) {
    return gw_nn_conv1d_with(s, (int64_t)option(c, "in"), (int64_t)option(c, "out"),
                             conv_options(c));
}

static gw_module *open_conv2d(gw_scope *s, const layer_case *c) {
    return gw_nn_conv2d_with(s, (int64_t)option(c, "in"), (int64_t)option(c, "out"),
                             conv_options(c));
}

static gw_module *open_batch_norm(gw_scope *s, const layer_case *c) {
    gw_nn_batch_norm_options options = GW_OPTIONS(
        gw_nn_batch_norm_options, .momentum = option_or_default(c, "momentum", 0.1),
        .eps = option_or_default(c, "eps", 1e-5), .cumulative = option(c, "cumulative"),
        .affine = !option(c, "no_affine"), .track_running_stats = !option(c, "no_track"));
    int64_t size = (int64_t)option(c, "size");
    return option(c, "dims") == 2 ? gw_nn_batch_norm2d_with(s, size, options)
                                  : gw_nn_batch_norm1d_with(s, size, options);
}

static int64_t features_of(const layer_case *c, const char *key) {
    return option(c, key) ? (int64_t)option(c, key) : GW_NOT_GIVEN;
}

static gw_module *open_attention(gw_scope *s, const layer_case *c) {
    return gw_nn_multihead_attention(
        s, (int64_t)option(c, "features"), (int64_t)option(c, "heads"),
        .bias = !option(c, "no_bias"), .batch_first = option(c, "batch_first"),
        .kdim = features_of(c, "key_features"), .vdim = features_of(c, "value_features"),
        .add_bias_kv = option(c, "add_bias_kv"), .add_zero_attn = option(c, "add_zero_attn"));
}

// Inputs: query, key, value (none: as the one before), key_padding_mask, attention_mask.
static gw_tensor *call_attention(gw_scope *s, const layer_case *c) {
    assert_int_equal(c->input_count, 5);
    gw_tensor *query = c->inputs[0], *key = c->inputs[1] ? c->inputs[1] : query;
    gw_tensor *value = c->inputs[2] ? c->inputs[2] : key;
    gw_attention_options options =
        GW_OPTIONS(gw_attention_options, .key_padding_mask = c->inputs[3],
                   .attn_mask = c->inputs[4], .average_attn_weights = !option(c, "by_head"));
    gw_attention_result r =
        gw_nn_multihead_attention_call_with(s, c->module, query, key, value, options);
    return option(c, "weights") ? r.weights : r.output;
}

static gw_module *open_encoder_layer(gw_scope *s, const layer_case *c) {
    return gw_nn_transformer_encoder_layer(
        s, (int64_t)option(c, "features"), (int64_t)option(c, "heads"),
        .feedforward = (int64_t)option_or_default(c, "feedforward", 2048),
        .dropout = option_or_default(c, "dropout", 0.1),
        .layer_norm_eps = option_or_default(c, "layer_norm_eps", 1e-5), .gelu = option(c, "gelu"),
        .batch_first = option(c, "batch_first"), .norm_first = option(c, "norm_first"));
}

// Inputs: x, key_padding_mask, attention_mask.
static gw_tensor *call_encoder_layer(gw_scope *s, const layer_case *c) {
    assert_int_equal(c->input_count, 3);
    return gw_nn_transformer_encoder_layer_call(
        s, c->module, c->inputs[0], .key_padding_mask = c->inputs[1], .attn_mask = c->inputs[2]);
}

static int64_t padding_of(const layer_case *c) {
    return option(c, "has_padding") ? (int64_t)option(c, "padding_idx") : GW_NOT_GIVEN;
}

static gw_module *open_embedding(gw_scope *s, const layer_case *c) {
    return gw_nn_embedding(s, (int64_t)option(c, "count"), (int64_t)option(c, "features"),
                           .sparse = option(c, "sparse"), .padding_idx = padding_of(c));
}

static gw_module *open_embedding_bag(gw_scope *s, const layer_case *c) {
    return gw_nn_embedding_bag(
        s, (int64_t)option(c, "count"), (int64_t)option(c, "features"),
        .mode = (gw_embedding_bag_mode)option(c, "mode"), .sparse = option(c, "sparse"),
        .include_last_offset = option(c, "include_last_offset"), .padding_idx = padding_of(c));
}

static gw_tensor *call_embedding_bag(gw_scope *s, const layer_case *c) {
    return gw_nn_embedding_bag_call(s, c->module, c->inputs[0], .offsets = c->inputs[1],
                                    .per_sample_weights = c->inputs[2]);
}

static gw_module *open_recurrent(gw_scope *s, const layer_case *c) {
    int64_t in = (int64_t)option(c, "in"), hidden = (int64_t)option(c, "hidden");
    gw_nn_recurrent_options options = GW_OPTIONS(
        gw_nn_recurrent_options, .layers = (int)option_or_default(c, "layers", 1),
        .bidirectional = option(c, "bidirectional"), .batch_first = option(c, "batch_first"),
        .bias = !option(c, "no_bias"), .relu = option(c, "relu"));
    if (c->kind[0] == 'l') return gw_nn_lstm_with(s, in, hidden, options);
    if (c->kind[0] == 'g') return gw_nn_gru_with(s, in, hidden, options);
    return gw_nn_rnn_with(s, in, hidden, options);
}

// Output and states, one behind the other. Inputs: x, lengths, h0, c0 (of an LSTM).
static gw_tensor *call_recurrent(gw_scope *s, const layer_case *c) {
    gw_tensor *const *in = c->inputs;
    gw_lstm_result y = { 0 };
    if (c->kind[0] == 'l') {
        y = gw_nn_lstm_call(s, c->module, in[0], .lengths = in[1], .h0 = in[2], .c0 = in[3]);
    } else {
        bool is_gru = c->kind[0] == 'g';
        gw_rnn_call_options o = GW_OPTIONS(gw_rnn_call_options, .lengths = in[1], .h0 = in[2]);
        gw_rnn_result z = is_gru ? gw_nn_gru_call_with(s, c->module, in[0], o)
                                 : gw_nn_rnn_call_with(s, c->module, in[0], o);
        y.output = z.output;
        y.h = z.h;
    }
    gw_tensor *parts[] = { gw_reshape(s, y.output, -1), gw_reshape(s, y.h, -1),
                           y.c ? gw_reshape(s, y.c, -1) : NULL };
    return gw_cat(s, parts, y.c ? 3 : 2, 0);
}

static gw_module *open_linear(gw_scope *s, const layer_case *c) {
    return gw_nn_linear(s, (int64_t)option(c, "in"), (int64_t)option(c, "out"),
                        .bias = !option(c, "no_bias"));
}

static const struct kind {
    const char *name;
    gw_module *(*open)(gw_scope *s, const layer_case *c);
    gw_tensor *(*call)(gw_scope *s, const layer_case *c);  // NULL: gw_module_call
} kinds[] = {
    { "layer_norm", open_layer_norm, NULL },
    { "batch_norm", open_batch_norm, NULL },
    { "multihead_attention", open_attention, call_attention },
    { "transformer_encoder_layer", open_encoder_layer, call_encoder_layer },
    { "conv1d", open_conv1d, NULL },
    { "conv2d", open_conv2d, NULL },
    { "embedding", open_embedding, NULL },
    { "embedding_bag", open_embedding_bag, call_embedding_bag },
    { "lstm", open_recurrent, call_recurrent },
    { "gru", open_recurrent, call_recurrent },
    { "rnn", open_recurrent, call_recurrent },
    { "linear", open_linear, NULL },
};

static const struct kind *kind_of(const layer_case *c) {
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (strcmp(kinds[i].name, c->kind) == 0) return &kinds[i];
    fail_msg("%s: no such layer", c->what);
    return NULL;
}

// ---- One case -----------------------------------------------------------------------------------
typedef struct names {
    gw_scope *scope;
    const char *at[64];
    gw_tensor *tensors[64];
    int count;
} names;

static bool list_name(void *context, const module_path *at, gw_tensor *x) {
    names *n = context;
    assert_true(n->count < 64);
    n->tensors[n->count] = x;
    n->at[n->count++] = module_path_text(n->scope, at);
    return true;
}

// Takes the recorded state over; its names and their order are the module's own.
static void read_state(gw_scope *s, recording *r, const layer_case *c, const names *own) {
    int count = 0;
    for (; recording_takes(r, "state"); count++) {
        const char *name = recording_word(r);
        if (count == own->count) fail_msg("%s: no %s", c->what, name);
        assert_string_equal(own->at[count], name);
        gw_tensor *value = recording_tensor(s, r), *x = own->tensors[count];
        assert_int_equal(gw_dtype_of(x), gw_dtype_of(value));
        assert_int_equal(gw_dims(x), gw_dims(value));
        for (int d = 0; d < gw_dims(x); d++) assert_int_equal(gw_size(x, d), gw_size(value, d));
        gw_scope *t = gw_scope_open(s);
        gw_no_grad(t);
        gw_copy_(t, x, value);
        gw_scope_close_up(t);
    }
    assert_int_equal(count, own->count);
}

static void read_inputs(gw_scope *s, recording *r, layer_case *c) {
    while (recording_takes(r, "in")) {
        gw_value v = recording_value(s, r);
        gw_tensor *x = v.kind == GW_TENSOR ? v.as.tensor : NULL;
        if (x && gw_dtype_of(x) == GW_F32 && recording_takes(r, "grad")) gw_requires_grad(s, x);
        assert_true(c->input_count < INPUTS_MAX);
        c->inputs[c->input_count++] = x;
    }
}

static void compare(gw_scope *s, recording *r, const layer_case *c, const char *what,
                    const gw_tensor *x) {
    char text[200];
    snprintf(text, sizeof text, "%s, %s", c->what, what);
    if (!x) fail_msg("%s: there is none", text);
    recording_compare(text, x, recording_tensor(s, r), relative, absolute);
}

static gw_tensor *named(const names *own, const char *name) {
    for (int i = 0; i < own->count; i++)
        if (strcmp(own->at[i], name) == 0) return own->tensors[i];
    fail_msg("there is no %s", name);
    return NULL;
}

static void compare_gradients(gw_scope *s, recording *r, const layer_case *c, const names *own,
                              gw_tensor *out) {
    gw_backward(s, out, .gradient = recording_tensor(s, r));
    if (!gw_ok(s)) fail_msg("%s: %s", c->what, gw_scope_error(s)->text);
    while (recording_takes(r, "d_in")) {
        int i = (int)recording_number(r);
        char what[32];
        snprintf(what, sizeof what, "gradient of input %d", i);
        compare(s, r, c, what, gw_grad_find(s, c->inputs[i]));
    }
    while (recording_takes(r, "d_state")) {
        const char *name = recording_word(r);
        gw_tensor *grad = gw_grad_find(s, named(own, name));
        compare(s, r, c, name, grad ? gw_to_dense(s, grad) : NULL);
    }
}

static void run_case(recording *r, int number) {
    gw_scope *s = gw_scope_open(NULL);
    layer_case c = { .kind = recording_word(r) };
    snprintf(c.what, sizeof c.what, "case %d, %s", number, c.kind);
    testing_note("%s", c.what);
    while (recording_takes(r, "option")) {
        assert_true(c.option_count < OPTIONS_MAX);
        c.keys[c.option_count] = recording_word(r);
        c.values[c.option_count++] = recording_number(r);
    }
    const struct kind *kind = kind_of(&c);
    c.module = kind->open(s, &c);
    if (!gw_ok(s)) fail_msg("%s: %s", c.what, gw_scope_error(s)->text);
    if (option(&c, "eval")) gw_module_eval(s, c.module);
    names own = { .scope = s };
    module_each_tensor(c.module, MODULE_STATE, NULL, list_name, &own);
    read_state(s, r, &c, &own);
    read_inputs(s, r, &c);

    gw_tensor *out = kind->call ? kind->call(s, &c) : gw_module_call(s, c.module, c.inputs[0]);
    if (!gw_ok(s)) fail_msg("%s: %s", c.what, gw_scope_error(s)->text);
    assert_true(recording_takes(r, "out"));
    compare(s, r, &c, "output", out);
    if (recording_takes(r, "d_out")) compare_gradients(s, r, &c, &own, out);
    while (recording_takes(r, "after")) {
        const char *name = recording_word(r);
        compare(s, r, &c, name, named(&own, name));
    }
    assert_true(recording_takes(r, "end"));
    assert_int_equal(gw_scope_close(s).status, GW_OK);
}

static void layers_give_the_results_of_pytorch(void **state) {
    (void)state;
    recording r = recording_open(RECORDINGS "layers.txt");
    int number = 1;
    for (; recording_takes(&r, "case"); number++) run_case(&r, number);
    assert_null(recording_word(&r));
    assert_true(number > 4);
    recording_close(&r);
}

GW_TESTS(nn_recordings, layers_give_the_results_of_pytorch);
