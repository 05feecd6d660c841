// The layers of gradwire/nn.h as classes: "gw.nn.linear" takes the arguments of gw_nn_linear, and a
// map of options behind them.
#include "distributed/nn/layer_options.h"
#include "distributed/nn/module_object.h"

#include "base/limits.h"
#include "base/scope.h"
#include "nn/module.h"

#include <string.h>

typedef gw_module *layer_open(gw_scope *s, const gw_args *a);

// ---- Layers -------------------------------------------------------------------------------------
static gw_module *open_linear(gw_scope *s, const gw_args *a) {
    layer_check_options(s, a, 2, "bias dtype");
    gw_nn_linear_options o = GW_OPTIONS(gw_nn_linear_options);
    layer_bool(s, a, 2, "bias", &o.bias);
    o.dtype = layer_dtype(s, a, 2);
    return gw_nn_linear_with(s, gw_arg_int(s, a, 0), gw_arg_int(s, a, 1), o);
}

static gw_module *open_embedding(gw_scope *s, const gw_args *a) {
    layer_check_options(s, a, 2, "sparse padding_idx max_norm norm_type dtype");
    gw_nn_embedding_options o = GW_OPTIONS(gw_nn_embedding_options);
    layer_bool(s, a, 2, "sparse", &o.sparse);
    layer_int(s, a, 2, "padding_idx", &o.padding_idx);
    layer_float(s, a, 2, "max_norm", &o.max_norm);
    layer_float(s, a, 2, "norm_type", &o.norm_type);
    o.dtype = layer_dtype(s, a, 2);
    return gw_nn_embedding_with(s, gw_arg_int(s, a, 0), gw_arg_int(s, a, 1), o);
}

static gw_embedding_bag_mode bag_mode(gw_scope *s, const gw_args *a) {
    static const char *const modes[] = { "mean", "sum", "max" };
    const char *name = layer_string(s, a, 2, "mode");
    if (!name) return GW_BAG_MEAN;
    for (int i = 0; i < 3; i++)
        if (!strcmp(modes[i], name)) return (gw_embedding_bag_mode)i;
    scope_fail(s, GW_INVALID, "%s: \"%.40s\" is no mode: mean, sum or max", a->label, name);
    return GW_BAG_MEAN;
}

static gw_module *open_embedding_bag(gw_scope *s, const gw_args *a) {
    layer_check_options(s, a, 2, "mode sparse include_last_offset padding_idx dtype");
    gw_nn_embedding_bag_options o = GW_OPTIONS(gw_nn_embedding_bag_options);
    o.mode = bag_mode(s, a);
    layer_bool(s, a, 2, "sparse", &o.sparse);
    layer_bool(s, a, 2, "include_last_offset", &o.include_last_offset);
    layer_int(s, a, 2, "padding_idx", &o.padding_idx);
    o.dtype = layer_dtype(s, a, 2);
    return gw_nn_embedding_bag_with(s, gw_arg_int(s, a, 0), gw_arg_int(s, a, 1), o);
}

static gw_nn_recurrent_options recurrent_options(gw_scope *s, const gw_args *a) {
    layer_check_options(s, a, 2, "layers bidirectional batch_first bias relu dropout dtype");
    gw_nn_recurrent_options o = GW_OPTIONS(gw_nn_recurrent_options);
    int64_t layers = o.layers;
    layer_int(s, a, 2, "layers", &layers);
    o.layers = layer_small(s, a, "layers", layers);
    layer_bool(s, a, 2, "bidirectional", &o.bidirectional);
    layer_bool(s, a, 2, "batch_first", &o.batch_first);
    layer_bool(s, a, 2, "bias", &o.bias);
    layer_bool(s, a, 2, "relu", &o.relu);
    layer_float(s, a, 2, "dropout", &o.dropout);
    o.dtype = layer_dtype(s, a, 2);
    return o;
}

#define RECURRENT(name)                                                                            \
    static gw_module *open_##name(gw_scope *s, const gw_args *a) {                                 \
        gw_nn_recurrent_options o = recurrent_options(s, a);                                       \
        return gw_nn_##name##_with(s, gw_arg_int(s, a, 0), gw_arg_int(s, a, 1), o);                \
    }
RECURRENT(lstm)
RECURRENT(gru)
RECURRENT(rnn)

static gw_nn_batch_norm_options batch_norm_options(gw_scope *s, const gw_args *a) {
    layer_check_options(s, a, 1, "momentum eps cumulative affine track_running_stats dtype");
    gw_nn_batch_norm_options o = GW_OPTIONS(gw_nn_batch_norm_options);
    layer_float(s, a, 1, "momentum", &o.momentum);
    layer_float(s, a, 1, "eps", &o.eps);
    layer_bool(s, a, 1, "cumulative", &o.cumulative);
    layer_bool(s, a, 1, "affine", &o.affine);
    layer_bool(s, a, 1, "track_running_stats", &o.track_running_stats);
    o.dtype = layer_dtype(s, a, 1);
    return o;
}

static gw_module *open_batch_norm1d(gw_scope *s, const gw_args *a) {
    return gw_nn_batch_norm1d_with(s, gw_arg_int(s, a, 0), batch_norm_options(s, a));
}
static gw_module *open_batch_norm2d(gw_scope *s, const gw_args *a) {
    return gw_nn_batch_norm2d_with(s, gw_arg_int(s, a, 0), batch_norm_options(s, a));
}

static gw_padding_mode padding_mode(gw_scope *s, const gw_args *a) {
    static const char *const modes[] = { "zeros", "reflect", "replicate", "circular" };
    const char *name = layer_string(s, a, 2, "padding_mode");
    if (!name) return GW_PAD_ZEROS;
    for (int i = 0; i < 4; i++)
        if (!strcmp(modes[i], name)) return (gw_padding_mode)i;
    scope_fail(s, GW_INVALID,
               "%s: \"%.40s\" is no padding_mode: zeros, reflect, replicate, circular", a->label,
               name);
    return GW_PAD_ZEROS;
}

static gw_nn_conv_options conv_options(gw_scope *s, const gw_args *a) {
    layer_check_options(s, a, 2, "kernel stride padding padding_mode dilation groups bias dtype");
    gw_nn_conv_options o = GW_OPTIONS(gw_nn_conv_options);
    layer_int(s, a, 2, "groups", &o.groups);
    layer_bool(s, a, 2, "bias", &o.bias);
    o.dtype = layer_dtype(s, a, 2);
    layer_pair(s, a, 2, "kernel", o.kernel);
    layer_pair(s, a, 2, "stride", o.stride);
    layer_pair(s, a, 2, "padding", o.padding);
    layer_pair(s, a, 2, "dilation", o.dilation);
    o.padding_mode = padding_mode(s, a);
    return o;
}

static gw_module *open_conv1d(gw_scope *s, const gw_args *a) {
    return gw_nn_conv1d_with(s, gw_arg_int(s, a, 0), gw_arg_int(s, a, 1), conv_options(s, a));
}
static gw_module *open_conv2d(gw_scope *s, const gw_args *a) {
    return gw_nn_conv2d_with(s, gw_arg_int(s, a, 0), gw_arg_int(s, a, 1), conv_options(s, a));
}

static gw_pool_options pool_options(gw_scope *s, const gw_args *a) {
    layer_check_options(
        s, a, 0, "kernel stride padding dilation ceil_mode count_include_pad divisor_override");
    gw_pool_options o = GW_OPTIONS(gw_pool_options);
    layer_bool(s, a, 0, "ceil_mode", &o.ceil_mode);
    layer_bool(s, a, 0, "count_include_pad", &o.count_include_pad);
    layer_int(s, a, 0, "divisor_override", &o.divisor_override);
    layer_pair(s, a, 0, "kernel", o.kernel);
    layer_pair(s, a, 0, "stride", o.stride);
    layer_pair(s, a, 0, "padding", o.padding);
    layer_pair(s, a, 0, "dilation", o.dilation);
    return o;
}

#define POOL(name)                                                                                 \
    static gw_module *open_##name(gw_scope *s, const gw_args *a) {                                 \
        return gw_nn_##name##_with(s, pool_options(s, a));                                         \
    }
POOL(max_pool1d)
POOL(max_pool2d)
POOL(avg_pool1d)
POOL(avg_pool2d)

static gw_module *open_adaptive_avg_pool1d(gw_scope *s, const gw_args *a) {
    layer_check_count(s, a, 1);
    return gw_nn_adaptive_avg_pool1d(s, gw_arg_int(s, a, 0));
}
static gw_module *open_adaptive_avg_pool2d(gw_scope *s, const gw_args *a) {
    layer_check_count(s, a, 2);
    return gw_nn_adaptive_avg_pool2d(s, gw_arg_int(s, a, 0), gw_arg_int(s, a, 1));
}

static gw_module *open_multihead_attention(gw_scope *s, const gw_args *a) {
    layer_check_options(s, a, 2,
                        "dropout bias batch_first kdim vdim add_bias_kv add_zero_attn dtype");
    gw_nn_attention_options o = GW_OPTIONS(gw_nn_attention_options);
    layer_float(s, a, 2, "dropout", &o.dropout);
    layer_bool(s, a, 2, "bias", &o.bias);
    layer_bool(s, a, 2, "batch_first", &o.batch_first);
    layer_int(s, a, 2, "kdim", &o.kdim);
    layer_int(s, a, 2, "vdim", &o.vdim);
    layer_bool(s, a, 2, "add_bias_kv", &o.add_bias_kv);
    layer_bool(s, a, 2, "add_zero_attn", &o.add_zero_attn);
    o.dtype = layer_dtype(s, a, 2);
    return gw_nn_multihead_attention_with(s, gw_arg_int(s, a, 0), gw_arg_int(s, a, 1), o);
}

static gw_module *open_transformer_encoder_layer(gw_scope *s, const gw_args *a) {
    layer_check_options(s, a, 2,
                        "feedforward dropout layer_norm_eps gelu batch_first norm_first dtype");
    gw_nn_encoder_layer_options o = GW_OPTIONS(gw_nn_encoder_layer_options);
    layer_int(s, a, 2, "feedforward", &o.feedforward);
    layer_float(s, a, 2, "dropout", &o.dropout);
    layer_float(s, a, 2, "layer_norm_eps", &o.layer_norm_eps);
    layer_bool(s, a, 2, "gelu", &o.gelu);
    layer_bool(s, a, 2, "batch_first", &o.batch_first);
    layer_bool(s, a, 2, "norm_first", &o.norm_first);
    o.dtype = layer_dtype(s, a, 2);
    return gw_nn_transformer_encoder_layer_with(s, gw_arg_int(s, a, 0), gw_arg_int(s, a, 1), o);
}

static gw_module *open_layer_norm(gw_scope *s, const gw_args *a) {
    layer_check_options(s, a, 1, "eps elementwise_affine bias dtype");
    gw_nn_layer_norm_options o = GW_OPTIONS(gw_nn_layer_norm_options);
    layer_float(s, a, 1, "eps", &o.eps);
    layer_bool(s, a, 1, "elementwise_affine", &o.elementwise_affine);
    layer_bool(s, a, 1, "bias", &o.bias);
    o.dtype = layer_dtype(s, a, 1);
    return gw_nn_layer_norm_with(s, GW_SHAPE(gw_arg_int(s, a, 0)), o);
}

static gw_module *open_dropout(gw_scope *s, const gw_args *a) {
    layer_check_count(s, a, 1);
    return gw_nn_dropout(s, gw_arg_float(s, a, 0));
}

static gw_module *open_leaky_relu(gw_scope *s, const gw_args *a) {
    layer_check_count(s, a, 1);
    return gw_nn_leaky_relu(s, gw_arg_float(s, a, 0));
}

static gw_module *open_softmax(gw_scope *s, const gw_args *a) {
    layer_check_count(s, a, 1);
    return gw_nn_softmax(s, layer_small(s, a, "dim", gw_arg_int(s, a, 0)));
}

static gw_module *open_flatten(gw_scope *s, const gw_args *a) {
    layer_check_count(s, a, a->count ? 2 : 0);
    if (!a->count) return gw_nn_flatten(s);
    int first = layer_small(s, a, "start_dim", gw_arg_int(s, a, 0));
    int last = layer_small(s, a, "end_dim", gw_arg_int(s, a, 1));
    return gw_nn_flatten(s, .start_dim = first, .end_dim = last);
}

#define PLAIN(name)                                                                                \
    static gw_module *open_##name(gw_scope *s, const gw_args *a) {                                 \
        layer_check_count(s, a, 0);                                                                \
        return gw_nn_##name(s);                                                                    \
    }
PLAIN(relu)
PLAIN(tanh)
PLAIN(sigmoid)
PLAIN(gelu)
PLAIN(silu)

static gw_module *open_sequential(gw_scope *s, const gw_args *a);

// ---- The table ----------------------------------------------------------------------------------
#define LAYERS(X)                                                                                  \
    X(linear, LAYER_BY_WEIGHTS)                                                                    \
    X(embedding, LAYER_BY_INPUT)                                                                   \
    X(embedding_bag, LAYER_SLOW)                                                                   \
    X(lstm, LAYER_SLOW)                                                                            \
    X(gru, LAYER_SLOW)                                                                             \
    X(rnn, LAYER_SLOW)                                                                             \
    X(layer_norm, LAYER_BY_INPUT)                                                                  \
    X(batch_norm1d, LAYER_BY_INPUT)                                                                \
    X(batch_norm2d, LAYER_BY_INPUT)                                                                \
    X(conv1d, LAYER_SLOW)                                                                          \
    X(conv2d, LAYER_SLOW)                                                                          \
    X(max_pool1d, LAYER_BY_INPUT)                                                                  \
    X(max_pool2d, LAYER_BY_INPUT)                                                                  \
    X(avg_pool1d, LAYER_BY_INPUT)                                                                  \
    X(avg_pool2d, LAYER_BY_INPUT)                                                                  \
    X(adaptive_avg_pool1d, LAYER_BY_INPUT)                                                         \
    X(adaptive_avg_pool2d, LAYER_BY_INPUT)                                                         \
    X(multihead_attention, LAYER_SLOW)                                                             \
    X(transformer_encoder_layer, LAYER_SLOW)                                                       \
    X(dropout, LAYER_BY_INPUT)                                                                     \
    X(relu, LAYER_BY_INPUT)                                                                        \
    X(leaky_relu, LAYER_BY_INPUT)                                                                  \
    X(tanh, LAYER_BY_INPUT)                                                                        \
    X(sigmoid, LAYER_BY_INPUT)                                                                     \
    X(gelu, LAYER_BY_INPUT)                                                                        \
    X(silu, LAYER_BY_INPUT)                                                                        \
    X(softmax, LAYER_BY_INPUT)                                                                     \
    X(flatten, LAYER_BY_INPUT)                                                                     \
    X(sequential, LAYER_SLOW)

// A peer that makes layers gets no larger tensors than one that calls operators.
#define CLASS(layer, cost)                                                                         \
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

#define FUNCTION(layer, cost)                                                                      \
    { .name = (char *)"gw.nn." #layer, .where = GW_POOL, .class = &class_##layer },
const function layer_functions[] = { LAYERS(FUNCTION){ 0 } };

static const function *const functions[] = { layer_functions, NULL };

const service module_service = { .name = "module", .functions = functions };

#define OPEN(layer, cost) open_##layer,
static layer_open *const opens[] = { LAYERS(OPEN) };

static layer_open *find_open(const char *name) {
    for (int i = 0; layer_functions[i].name; i++)
        if (!strcmp(layer_functions[i].name, name)) return opens[i];
    return NULL;
}

// ---- Sequences ----------------------------------------------------------------------------------
// ["linear", 4, 3]
static gw_module *open_listed(gw_scope *s, const gw_args *a, const gw_list *list) {
    const char *name = gw_string_of(s, gw_list_get(s, list, 0));
    gw_args inner = { .label = a->label, .count = gw_list_count(list) - 1, .caller = a->caller };
    gw_value *values = gw_alloc(s, (size_t)(inner.count + 1) * sizeof *values);
    for (int i = 0; values && i < inner.count; i++) values[i] = gw_list_get(s, list, i + 1);
    inner.values = values;
    layer_open *open = find_open(gw_format(s, "gw.nn.%s", name));
    if (gw_ok(s) && !open)
        scope_fail(s, GW_NOT_FOUND, "%s: there is no layer \"%.100s\"", a->label, name);
    return gw_ok(s) ? open(s, &inner) : &module_poison;
}

static gw_module *open_sequential(gw_scope *s, const gw_args *a) {
    gw_module **parts = gw_alloc(s, (size_t)(a->count + 1) * sizeof(gw_module *));
    for (int i = 0; parts && i < a->count; i++) parts[i] = open_listed(s, a, gw_arg_list(s, a, i));
    return gw_ok(s) ? gw_nn_sequential_with(s, parts, a->count) : &module_poison;
}
