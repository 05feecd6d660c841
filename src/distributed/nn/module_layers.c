// The layers of gradwire/nn.h as classes: "gw.nn.linear" takes the arguments of gw_nn_linear, and a
// map of options behind them.
#include "distributed/nn/layer_options.h"
#include "distributed/nn/module_object.h"

#include "base/limits.h"
#include "base/nearest.h"
#include "base/scope.h"
#include "nn/module.h"

#include <string.h>

// ---- Options ------------------------------------------------------------------------------------
static const char *const bag_modes[] = { "mean", "sum", "max", NULL };
static const char *const padding_modes[] = { "zeros", "reflect", "replicate", "circular", NULL };

static const layer_option linear_options[] = {
    LAYER_OPTION(gw_nn_linear_options, bias),
    LAYER_OPTION_DTYPE(gw_nn_linear_options),
    { 0 },
};

static const layer_option embedding_options[] = {
    LAYER_OPTION(gw_nn_embedding_options, sparse),
    LAYER_OPTION(gw_nn_embedding_options, padding_idx),
    LAYER_OPTION(gw_nn_embedding_options, max_norm),
    LAYER_OPTION(gw_nn_embedding_options, norm_type),
    LAYER_OPTION_DTYPE(gw_nn_embedding_options),
    { 0 },
};

static const layer_option embedding_bag_options[] = {
    LAYER_OPTION_OF(gw_nn_embedding_bag_options, mode, bag_modes),
    LAYER_OPTION(gw_nn_embedding_bag_options, sparse),
    LAYER_OPTION(gw_nn_embedding_bag_options, include_last_offset),
    LAYER_OPTION(gw_nn_embedding_bag_options, padding_idx),
    LAYER_OPTION_DTYPE(gw_nn_embedding_bag_options),
    { 0 },
};

static const layer_option recurrent_options[] = {
    LAYER_OPTION(gw_nn_recurrent_options, layers),
    LAYER_OPTION(gw_nn_recurrent_options, bidirectional),
    LAYER_OPTION(gw_nn_recurrent_options, batch_first),
    LAYER_OPTION(gw_nn_recurrent_options, bias),
    LAYER_OPTION(gw_nn_recurrent_options, relu),
    LAYER_OPTION(gw_nn_recurrent_options, dropout),
    LAYER_OPTION_DTYPE(gw_nn_recurrent_options),
    { 0 },
};

static const layer_option layer_norm_options[] = {
    LAYER_OPTION(gw_nn_layer_norm_options, eps),
    LAYER_OPTION(gw_nn_layer_norm_options, elementwise_affine),
    LAYER_OPTION(gw_nn_layer_norm_options, bias),
    LAYER_OPTION_DTYPE(gw_nn_layer_norm_options),
    { 0 },
};

static const layer_option batch_norm_options[] = {
    LAYER_OPTION(gw_nn_batch_norm_options, momentum),
    LAYER_OPTION(gw_nn_batch_norm_options, eps),
    LAYER_OPTION(gw_nn_batch_norm_options, cumulative),
    LAYER_OPTION(gw_nn_batch_norm_options, affine),
    LAYER_OPTION(gw_nn_batch_norm_options, track_running_stats),
    LAYER_OPTION_DTYPE(gw_nn_batch_norm_options),
    { 0 },
};

static const layer_option conv_options[] = {
    LAYER_OPTION(gw_nn_conv_options, kernel),
    LAYER_OPTION(gw_nn_conv_options, stride),
    LAYER_OPTION(gw_nn_conv_options, padding),
    LAYER_OPTION_OF(gw_nn_conv_options, padding_mode, padding_modes),
    LAYER_OPTION(gw_nn_conv_options, dilation),
    LAYER_OPTION(gw_nn_conv_options, groups),
    LAYER_OPTION(gw_nn_conv_options, bias),
    LAYER_OPTION_DTYPE(gw_nn_conv_options),
    { 0 },
};

static const layer_option pool_options[] = {
    LAYER_OPTION(gw_pool_options, kernel),
    LAYER_OPTION(gw_pool_options, stride),
    LAYER_OPTION(gw_pool_options, padding),
    LAYER_OPTION(gw_pool_options, dilation),
    LAYER_OPTION(gw_pool_options, ceil_mode),
    LAYER_OPTION(gw_pool_options, count_include_pad),
    LAYER_OPTION(gw_pool_options, divisor_override),
    { 0 },
};

static const layer_option attention_options[] = {
    LAYER_OPTION(gw_nn_attention_options, dropout),
    LAYER_OPTION(gw_nn_attention_options, bias),
    LAYER_OPTION(gw_nn_attention_options, batch_first),
    LAYER_OPTION(gw_nn_attention_options, kdim),
    LAYER_OPTION(gw_nn_attention_options, vdim),
    LAYER_OPTION(gw_nn_attention_options, add_bias_kv),
    LAYER_OPTION(gw_nn_attention_options, add_zero_attn),
    LAYER_OPTION_DTYPE(gw_nn_attention_options),
    { 0 },
};

static const layer_option encoder_layer_options[] = {
    LAYER_OPTION(gw_nn_encoder_layer_options, feedforward),
    LAYER_OPTION(gw_nn_encoder_layer_options, dropout),
    LAYER_OPTION(gw_nn_encoder_layer_options, layer_norm_eps),
    LAYER_OPTION(gw_nn_encoder_layer_options, gelu),
    LAYER_OPTION(gw_nn_encoder_layer_options, batch_first),
    LAYER_OPTION(gw_nn_encoder_layer_options, norm_first),
    LAYER_OPTION_DTYPE(gw_nn_encoder_layer_options),
    { 0 },
};

static const layer_option flatten_options[] = {
    LAYER_OPTION(gw_nn_flatten_options, start_dim),
    LAYER_OPTION(gw_nn_flatten_options, end_dim),
    { 0 },
};

// ---- Layers -------------------------------------------------------------------------------------
// Arguments, then options.
#define OPEN(layer, type, table, count, ...)                                                       \
    static gw_module *open_##layer(gw_scope *s, const gw_args *a) {                                \
        type o = GW_OPTIONS(type);                                                                 \
        layer_read(s, a, count, table, &o);                                                        \
        return gw_nn_##layer##_with(__VA_ARGS__, o);                                               \
    }
#define ONE s, gw_arg_int(s, a, 0)
#define TWO s, gw_arg_int(s, a, 0), gw_arg_int(s, a, 1)
OPEN(linear, gw_nn_linear_options, linear_options, 2, TWO)
OPEN(embedding, gw_nn_embedding_options, embedding_options, 2, TWO)
OPEN(embedding_bag, gw_nn_embedding_bag_options, embedding_bag_options, 2, TWO)
OPEN(lstm, gw_nn_recurrent_options, recurrent_options, 2, TWO)
OPEN(gru, gw_nn_recurrent_options, recurrent_options, 2, TWO)
OPEN(rnn, gw_nn_recurrent_options, recurrent_options, 2, TWO)
OPEN(layer_norm, gw_nn_layer_norm_options, layer_norm_options, 1, s, GW_SHAPE(gw_arg_int(s, a, 0)))
OPEN(batch_norm1d, gw_nn_batch_norm_options, batch_norm_options, 1, ONE)
OPEN(batch_norm2d, gw_nn_batch_norm_options, batch_norm_options, 1, ONE)
OPEN(conv1d, gw_nn_conv_options, conv_options, 2, TWO)
OPEN(conv2d, gw_nn_conv_options, conv_options, 2, TWO)
OPEN(max_pool1d, gw_pool_options, pool_options, 0, s)
OPEN(max_pool2d, gw_pool_options, pool_options, 0, s)
OPEN(avg_pool1d, gw_pool_options, pool_options, 0, s)
OPEN(avg_pool2d, gw_pool_options, pool_options, 0, s)
OPEN(multihead_attention, gw_nn_attention_options, attention_options, 2, TWO)
OPEN(transformer_encoder_layer, gw_nn_encoder_layer_options, encoder_layer_options, 2, TWO)
OPEN(flatten, gw_nn_flatten_options, flatten_options, 0, s)

// Arguments only.
#define OPEN_PLAIN(layer, count, ...)                                                              \
    static gw_module *open_##layer(gw_scope *s, const gw_args *a) {                                \
        layer_read(s, a, count, NULL, NULL);                                                       \
        return gw_nn_##layer(__VA_ARGS__);                                                         \
    }
OPEN_PLAIN(adaptive_avg_pool1d, 1, ONE)
OPEN_PLAIN(adaptive_avg_pool2d, 2, TWO)
OPEN_PLAIN(dropout, 1, s, gw_arg_float(s, a, 0))
OPEN_PLAIN(leaky_relu, 1, s, gw_arg_float(s, a, 0))
OPEN_PLAIN(softmax, 1, s, layer_small(s, a, "dim", gw_arg_int(s, a, 0)))
OPEN_PLAIN(relu, 0, s)
OPEN_PLAIN(tanh, 0, s)
OPEN_PLAIN(sigmoid, 0, s)
OPEN_PLAIN(gelu, 0, s)
OPEN_PLAIN(silu, 0, s)

static gw_module *open_sequential(gw_scope *s, const gw_args *a);

// ---- The table ----------------------------------------------------------------------------------
enum { ANY_COUNT = -1 };

#define LAYERS(X)                                                                                  \
    X(linear, 2, linear_options, LAYER_BY_WEIGHTS)                                                 \
    X(embedding, 2, embedding_options, LAYER_BY_INPUT)                                             \
    X(embedding_bag, 2, embedding_bag_options, LAYER_SLOW)                                         \
    X(lstm, 2, recurrent_options, LAYER_SLOW)                                                      \
    X(gru, 2, recurrent_options, LAYER_SLOW)                                                       \
    X(rnn, 2, recurrent_options, LAYER_SLOW)                                                       \
    X(layer_norm, 1, layer_norm_options, LAYER_BY_INPUT)                                           \
    X(batch_norm1d, 1, batch_norm_options, LAYER_BY_INPUT)                                         \
    X(batch_norm2d, 1, batch_norm_options, LAYER_BY_INPUT)                                         \
    X(conv1d, 2, conv_options, LAYER_SLOW)                                                         \
    X(conv2d, 2, conv_options, LAYER_SLOW)                                                         \
    X(max_pool1d, 0, pool_options, LAYER_BY_INPUT)                                                 \
    X(max_pool2d, 0, pool_options, LAYER_BY_INPUT)                                                 \
    X(avg_pool1d, 0, pool_options, LAYER_BY_INPUT)                                                 \
    X(avg_pool2d, 0, pool_options, LAYER_BY_INPUT)                                                 \
    X(adaptive_avg_pool1d, 1, NULL, LAYER_BY_INPUT)                                                \
    X(adaptive_avg_pool2d, 2, NULL, LAYER_BY_INPUT)                                                \
    X(multihead_attention, 2, attention_options, LAYER_SLOW)                                       \
    X(transformer_encoder_layer, 2, encoder_layer_options, LAYER_SLOW)                             \
    X(dropout, 1, NULL, LAYER_BY_INPUT)                                                            \
    X(relu, 0, NULL, LAYER_BY_INPUT)                                                               \
    X(leaky_relu, 1, NULL, LAYER_BY_INPUT)                                                         \
    X(tanh, 0, NULL, LAYER_BY_INPUT)                                                               \
    X(sigmoid, 0, NULL, LAYER_BY_INPUT)                                                            \
    X(gelu, 0, NULL, LAYER_BY_INPUT)                                                               \
    X(silu, 0, NULL, LAYER_BY_INPUT)                                                               \
    X(softmax, 1, NULL, LAYER_BY_INPUT)                                                            \
    X(flatten, 0, flatten_options, LAYER_BY_INPUT)                                                 \
    X(sequential, ANY_COUNT, NULL, LAYER_SLOW)

#define ROW(layer, count, options, cost) { #layer, count, options, open_##layer },
const layer layer_table[] = { LAYERS(ROW){ 0 } };

// A peer that makes layers gets no larger tensors than one that calls operators.
#define CLASS(layer, count, options_, cost)                                                        \
    static void open_class_##layer(gw_scope *own, void *self, const gw_args *a) {                  \
        own->tensor_bytes_max = LIMIT_TENSOR_BYTES;                                                \
        gw_module_object_open(own, self, open_##layer(own, a));                                    \
    }                                                                                              \
    static class class_##layer = { .name = (char *)"gw.nn." #layer,                                \
                                   .options = { .size = sizeof(gw_module_object),                  \
                                                .open = open_class_##layer },                      \
                                   .fixed_methods = module_methods[cost],                          \
                                   .fixed_count = MODULE_METHODS };
LAYERS(CLASS)

#define FUNCTION(layer, count, options_, cost)                                                     \
    { .name = (char *)"gw.nn." #layer, .where = GW_POOL, .class = &class_##layer },
const function layer_functions[] = { LAYERS(FUNCTION){ 0 } };

static const function *const functions[] = { layer_functions, NULL };

const service module_service = { .name = "module", .functions = functions };

// ---- Sequences ----------------------------------------------------------------------------------
static const layer *find(const char *name) {
    for (const layer *l = layer_table; l->name; l++)
        if (!strcmp(l->name, name)) return l;
    return NULL;
}

// ["linear", 4, 3]
static gw_module *open_listed(gw_scope *s, const gw_args *a, const gw_list *list) {
    const char *name = gw_string_of(s, gw_list_get(s, list, 0));
    gw_args inner = { .label = a->label, .count = gw_list_count(list) - 1, .caller = a->caller };
    gw_value *values = gw_alloc(s, (size_t)(inner.count + 1) * sizeof *values);
    for (int i = 0; values && i < inner.count; i++) values[i] = gw_list_get(s, list, i + 1);
    inner.values = values;
    const layer *found = find(name);
    if (gw_ok(s) && !found) {
        nearest n = nearest_to(name);
        for (const layer *l = layer_table; l->name; l++) nearest_offer(&n, l->name);
        scope_fail_of(s, a->label, GW_NOT_FOUND, "the library has no layer \"%.100s\"%s", name,
                      nearest_words(&n));
    }
    return gw_ok(s) ? found->open(s, &inner) : &module_poison;
}

static gw_module *open_sequential(gw_scope *s, const gw_args *a) {
    gw_module **parts = gw_alloc(s, (size_t)(a->count + 1) * sizeof(gw_module *));
    for (int i = 0; parts && i < a->count; i++) parts[i] = open_listed(s, a, gw_arg_list(s, a, i));
    return gw_ok(s) ? gw_nn_sequential_with(s, parts, a->count) : &module_poison;
}
