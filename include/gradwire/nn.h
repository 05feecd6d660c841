// Modules: parameters with a forward.
//
// A module owns parameters and other modules under names, and knows how to make an output from an
// input. PyTorch's layers have PyTorch's shapes and initial values.
//
//     gw_module *policy = gw_nn_sequential(root, gw_nn_linear(root, 4, 128), gw_nn_dropout(root, 0.6),
//                                          gw_nn_relu(root), gw_nn_linear(root, 128, 2));
//     gw_optimizer *opt = gw_adam(root, gw_parameters(root, policy), .lr = 1e-2);
//     gw_tensor *scores = gw_module_call(s, policy, state);          // state: N 4, scores: N 2
//
// A module of one's own is a function and the parts it uses:
//
//     static gw_tensor *policy_forward(gw_scope *s, gw_module *m, gw_tensor *x) {
//         x = gw_module_call(s, gw_module_child(s, m, "affine1"), x);
//         x = gw_dropout(s, x, .p = 0.6, .training = gw_module_is_training(m));
//         return gw_softmax(s, gw_module_call(s, gw_module_child(s, m, "affine2"), gw_relu(s, x)), 1);
//     }
//
//     gw_module *policy = gw_module_open(root, "policy", policy_forward, NULL);
//     gw_module_register_module(root, policy, "affine1", gw_nn_linear(root, 4, 128));
//     gw_module_register_module(root, policy, "affine2", gw_nn_linear(root, 128, 2));
//     gw_print(root, gw_module_parameter_get(root, policy, "affine1.weight"));
//
// Its forward may also take and give several values, as the body of a function does, and
// gw_module_call_value calls it:
//
//     static gw_value tagger_forward(gw_scope *s, gw_module *m, const gw_args *a) {
//         gw_tensor *indices = gw_arg_tensor(s, a, 0), *offsets = gw_arg_tensor_or_null(s, a, 1);
//         gw_tensor *bags = gw_nn_embedding_bag_call(s, gw_module_child(s, m, "words"), indices, .offsets = offsets);
//         return gw_value_of(gw_module_call(s, gw_module_child(s, m, "tags"), bags));
//     }
//
//     gw_module *tagger = gw_module_open(root, "tagger", tagger_forward, NULL);
//     gw_value scores = gw_module_call_value(s, tagger, indices, offsets);
//
// Ownership: a module belongs to the scope that made it, and holds a count on its parts.
// Threads: as the scope; one call at a time.
#ifndef GRADWIRE_NN_H
#define GRADWIRE_NN_H

#include <gradwire/args.h>
#include <gradwire/ops.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct gw_module gw_module;

// The output of |m| for |x|; the first one, if |m| gives a list of them. INVALID if its forward
// gives none, or if |m| is what a constructor returned that failed in another scope: so does
// everything that takes such a module.
GW_API gw_tensor *gw_module_call(gw_scope *s, gw_module *m, gw_tensor *x);

// gw_module_call_value(s, m, x, ...): what |m| gives for one value or several, a tensor or a list.
// Layers that take or give several tensors say below in which order; what is left out at the end,
// or is gw_none(), is not given.
//
//     gw_value v = gw_module_call_value(s, lstm, x, h0, c0);
//     gw_tensor *h = gw_tensor_of(s, gw_list_get(s, gw_list_of(s, v), 1));
GW_API gw_value gw_module_call_value(gw_scope *s, gw_module *m, gw_values in)
    GW_CALLS(gw_module_call_value_with);
#define gw_module_call_value(s, ...) GW_MODULE_VALUES(gw_module_call_value, s, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_module_call_value) gw_module_call_value_with;

// ---- Layers -------------------------------------------------------------------------------------
// A layer whose function ends in _with takes options by name: gw_nn_linear(s, 4, 2, .bias = false).

typedef struct GW_BY_NAME gw_nn_linear_options {
    bool bias GW_DEFAULT(true);
    gw_dtype dtype GW_DEFAULT(GW_F32);
} gw_nn_linear_options;

// x W^T + b. x: ... |in|, weight: |out| |in|, bias: |out|, output: ... |out|. Both start uniform in
// +-1/sqrt(in), as in torch.nn.Linear (He et al. 2015, with a = sqrt 5), from the scope's
// generator.
GW_API gw_module *gw_nn_linear(gw_scope *s, int64_t in, int64_t out,
                               gw_nn_linear_options options GW_DEFAULT({}))
    GW_CALLS(gw_nn_linear_with);
#define gw_nn_linear(...) (GW_DRAWS, GW_FORM_3(gw_nn_linear, gw_nn_linear_options, __VA_ARGS__))
GW_API GW_TYPE_OF(gw_nn_linear) gw_nn_linear_with;

// In training each number becomes 0 with probability |p|, and the others grow by 1/(1-p).
GW_API gw_module *gw_nn_dropout(gw_scope *s, double p);

GW_API gw_module *gw_nn_relu(gw_scope *s);
GW_API gw_module *gw_nn_leaky_relu(gw_scope *s, double negative_slope);
GW_API gw_module *gw_nn_tanh(gw_scope *s);
GW_API gw_module *gw_nn_sigmoid(gw_scope *s);
GW_API gw_module *gw_nn_gelu(gw_scope *s);
GW_API gw_module *gw_nn_silu(gw_scope *s);
GW_API gw_module *gw_nn_softmax(gw_scope *s, int dim);

// gw_nn_flatten(s, .start_dim = 0, ...): joins dimensions |start_dim| to |end_dim| into one:
// torch.nn.Flatten.
typedef struct GW_BY_NAME gw_nn_flatten_options {
    int start_dim GW_DEFAULT(1), end_dim GW_DEFAULT(-1);
} gw_nn_flatten_options;

GW_API gw_module *gw_nn_flatten(gw_scope *s, gw_nn_flatten_options options GW_DEFAULT({}))
    GW_CALLS(gw_nn_flatten_with);
#define gw_nn_flatten(...) GW_FORM_1(gw_nn_flatten, gw_nn_flatten_options, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_nn_flatten) gw_nn_flatten_with;

// gw_nn_sequential(s, module, ...) calls one after the other; their names are "0", "1", ... The
// arguments are evaluated from left to right, so that a seed gives the same initial values with
// every compiler.
GW_API gw_module *gw_nn_sequential(gw_scope *s, gw_module *const *modules, int count)
    GW_CALLS(gw_nn_sequential_with);
#define gw_nn_sequential(s, ...) GW_SEQUENTIAL(s, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_nn_sequential) gw_nn_sequential_with;

// ---- Normalisation ------------------------------------------------------------------------------

typedef struct GW_BY_NAME gw_nn_layer_norm_options {
    double eps GW_DEFAULT(1e-5);
    bool elementwise_affine GW_DEFAULT(true);  // weight, and bias
    bool bias GW_DEFAULT(true);
    gw_dtype dtype GW_DEFAULT(GW_F32);
} gw_nn_layer_norm_options;

// Over the last dimension, of |features| numbers, or over the last ones, of sizes |normalized|
// (torch.nn.LayerNorm). weight (ones), bias (zeros): those sizes.
GW_API gw_module *gw_nn_layer_norm(gw_scope *s, gw_shape normalized,
                                   gw_nn_layer_norm_options options GW_DEFAULT({}))
    GW_CALLS(gw_nn_layer_norm_with);
#define gw_nn_layer_norm(...) GW_LAYER_NORM(__VA_ARGS__)
GW_API GW_TYPE_OF(gw_nn_layer_norm) gw_nn_layer_norm_with;

typedef struct GW_BY_NAME gw_nn_batch_norm_options {
    double momentum GW_DEFAULT(0.1);
    double eps GW_DEFAULT(1e-5);
    bool cumulative
        GW_DEFAULT(false);  // running statistics are the mean of all batches: momentum = None
    bool affine GW_DEFAULT(true);               // weight and bias
    bool track_running_stats GW_DEFAULT(true);  // or those of the batch, also in evaluation
    gw_dtype dtype GW_DEFAULT(GW_F32);
} gw_nn_batch_norm_options;

// torch.nn.BatchNorm1d (x: N |features|, or N |features| L) and BatchNorm2d (N |features| H W): see
// gw_batch_norm. weight (ones), bias (zeros): |features|; buffers running_mean (zeros), running_var
// (ones): |features|, num_batches_tracked: a scalar.
GW_API gw_module *gw_nn_batch_norm1d(gw_scope *s, int64_t features,
                                     gw_nn_batch_norm_options options GW_DEFAULT({}))
    GW_CALLS(gw_nn_batch_norm1d_with);
#define gw_nn_batch_norm1d(...) GW_FORM_2(gw_nn_batch_norm1d, gw_nn_batch_norm_options, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_nn_batch_norm1d) gw_nn_batch_norm1d_with;
GW_API gw_module *gw_nn_batch_norm2d(gw_scope *s, int64_t features,
                                     gw_nn_batch_norm_options options GW_DEFAULT({}))
    GW_CALLS(gw_nn_batch_norm2d_with);
#define gw_nn_batch_norm2d(...) GW_FORM_2(gw_nn_batch_norm2d, gw_nn_batch_norm_options, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_nn_batch_norm2d) gw_nn_batch_norm2d_with;

// ---- Convolutions, pools ------------------------------------------------------------------------
// Pairs are for height and width; in one dimension only the first counts.

// What stands beyond the edges: zeros, or the numbers inside mirrored at the edge (which itself is
// not repeated), the edge's again and again, or those of the other end.
typedef enum gw_padding_mode {
    GW_PAD_ZEROS = 0,
    GW_PAD_REFLECT,
    GW_PAD_REPLICATE,
    GW_PAD_CIRCULAR
} gw_padding_mode;

typedef struct GW_BY_NAME gw_nn_conv_options {
    int64_t kernel[2] GW_DEFAULT({ 0, 0 });  // to be given
    int64_t stride[2] GW_DEFAULT({ 1, 1 });
    int64_t padding[2] GW_DEFAULT({ 0, 0 });
    gw_padding_mode padding_mode GW_DEFAULT(GW_PAD_ZEROS);
    int64_t dilation[2] GW_DEFAULT({ 1, 1 });
    int64_t groups GW_DEFAULT(1);
    bool bias GW_DEFAULT(true);
    gw_dtype dtype GW_DEFAULT(GW_F32);
} gw_nn_conv_options;

// torch.nn.Conv1d and Conv2d from |in| to |out| channels: see gw_conv2d. weight: |out| |in|/groups
// kernel, bias: |out|; both start uniform in +-1/sqrt(|in|/groups * the kernel's size).
GW_API gw_module *gw_nn_conv1d(gw_scope *s, int64_t in, int64_t out,
                               gw_nn_conv_options options GW_DEFAULT({}))
    GW_CALLS(gw_nn_conv1d_with);
#define gw_nn_conv1d(...) (GW_DRAWS, GW_FORM_3(gw_nn_conv1d, gw_nn_conv_options, __VA_ARGS__))
GW_API GW_TYPE_OF(gw_nn_conv1d) gw_nn_conv1d_with;
GW_API gw_module *gw_nn_conv2d(gw_scope *s, int64_t in, int64_t out,
                               gw_nn_conv_options options GW_DEFAULT({}))
    GW_CALLS(gw_nn_conv2d_with);
#define gw_nn_conv2d(...) (GW_DRAWS, GW_FORM_3(gw_nn_conv2d, gw_nn_conv_options, __VA_ARGS__))
GW_API GW_TYPE_OF(gw_nn_conv2d) gw_nn_conv2d_with;

// See gw_max_pool1d and so on.
GW_API gw_module *gw_nn_max_pool1d(gw_scope *s, gw_pool_options options GW_DEFAULT({}))
    GW_CALLS(gw_nn_max_pool1d_with);
#define gw_nn_max_pool1d(...) GW_FORM_1(gw_nn_max_pool1d, gw_pool_options, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_nn_max_pool1d) gw_nn_max_pool1d_with;
GW_API gw_module *gw_nn_max_pool2d(gw_scope *s, gw_pool_options options GW_DEFAULT({}))
    GW_CALLS(gw_nn_max_pool2d_with);
#define gw_nn_max_pool2d(...) GW_FORM_1(gw_nn_max_pool2d, gw_pool_options, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_nn_max_pool2d) gw_nn_max_pool2d_with;
GW_API gw_module *gw_nn_avg_pool1d(gw_scope *s, gw_pool_options options GW_DEFAULT({}))
    GW_CALLS(gw_nn_avg_pool1d_with);
#define gw_nn_avg_pool1d(...) GW_FORM_1(gw_nn_avg_pool1d, gw_pool_options, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_nn_avg_pool1d) gw_nn_avg_pool1d_with;
GW_API gw_module *gw_nn_avg_pool2d(gw_scope *s, gw_pool_options options GW_DEFAULT({}))
    GW_CALLS(gw_nn_avg_pool2d_with);
#define gw_nn_avg_pool2d(...) GW_FORM_1(gw_nn_avg_pool2d, gw_pool_options, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_nn_avg_pool2d) gw_nn_avg_pool2d_with;
GW_API gw_module *gw_nn_adaptive_avg_pool1d(gw_scope *s, int64_t length);
GW_API gw_module *gw_nn_adaptive_avg_pool2d(gw_scope *s, int64_t height, int64_t width);

// ---- Attention ----------------------------------------------------------------------------------
// N batch, T length of the query, S length of keys and values, E features.

typedef struct GW_BY_NAME gw_nn_attention_options {
    double dropout GW_DEFAULT(0);  // of the weights
    bool bias GW_DEFAULT(true);
    bool batch_first GW_DEFAULT(false);  // N T E in place of T N E
    int64_t kdim GW_DEFAULT(GW_NOT_GIVEN), vdim GW_DEFAULT(GW_NOT_GIVEN);  // then E
    // One more key and value behind those given, learnt (bias_k and bias_v) or 0; with both, the
    // one of zeros stands last. Masks leave them visible.
    bool add_bias_kv GW_DEFAULT(false), add_zero_attn GW_DEFAULT(false);
    gw_dtype dtype GW_DEFAULT(GW_F32);
} gw_nn_attention_options;

// Multi-head attention (Vaswani et al. 2017): torch.nn.MultiheadAttention of |features| in |heads|.
// in_proj_weight: 3E E, uniform in +-sqrt(6/4E) (or, with other features of keys or values,
// q_proj_weight, k_proj_weight, v_proj_weight), in_proj_bias: 3E, zeros, bias_k, bias_v: 1 1 E,
// normal with a deviation of 1/sqrt(E), out_proj: a linear layer whose bias starts at 0.
// gw_module_call attends to the input itself.
GW_API gw_module *gw_nn_multihead_attention(gw_scope *s, int64_t features, int64_t heads,
                                            gw_nn_attention_options options GW_DEFAULT({}))
    GW_CALLS(gw_nn_multihead_attention_with);
#define gw_nn_multihead_attention(...)                                                             \
    (GW_DRAWS, GW_FORM_3(gw_nn_multihead_attention, gw_nn_attention_options, __VA_ARGS__))
GW_API GW_TYPE_OF(gw_nn_multihead_attention) gw_nn_multihead_attention_with;

// Masks: of bool, where true is not seen, or of floats, which are added.
typedef struct GW_BY_NAME gw_attention_options {
    gw_tensor *key_padding_mask GW_DEFAULT(NULL);  // N S
    gw_tensor *attn_mask GW_DEFAULT(NULL);         // T S, or N*heads T S
    bool need_weights GW_DEFAULT(true);            // or only the output
    bool average_attn_weights GW_DEFAULT(true);    // over heads
} gw_attention_options;

typedef struct gw_attention_result {
    gw_tensor *output;  // like the query
    // N T S, or N heads T S; NULL if not wanted. S counts the layer's own keys, too.
    gw_tensor *weights;
} gw_attention_result;

// |query|: T N E, |key|, |value|: S N E (N first if so opened), or each without N. By value: query,
// key, value, key_padding_mask, attn_mask, need_weights, average_attn_weights; given is a list of
// output and weights.
GW_API gw_attention_result gw_nn_multihead_attention_call(
    gw_scope *s, gw_module *m, gw_tensor *query, gw_tensor *key, gw_tensor *value,
    gw_attention_options options GW_DEFAULT({})) GW_CALLS(gw_nn_multihead_attention_call_with);
#define gw_nn_multihead_attention_call(...)                                                        \
    GW_FORM_5(gw_nn_multihead_attention_call, gw_attention_options, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_nn_multihead_attention_call) gw_nn_multihead_attention_call_with;

typedef struct GW_BY_NAME gw_nn_encoder_layer_options {
    int64_t feedforward GW_DEFAULT(2048);
    double dropout GW_DEFAULT(0.1);
    double layer_norm_eps GW_DEFAULT(1e-5);
    bool gelu GW_DEFAULT(false);  // between linear1 and linear2, in place of relu
    bool batch_first GW_DEFAULT(false), norm_first GW_DEFAULT(false);
    gw_dtype dtype GW_DEFAULT(GW_F32);
} gw_nn_encoder_layer_options;

// torch.nn.TransformerEncoderLayer: self_attn, linear1, dropout, linear2, norm1, norm2, dropout1,
// dropout2. Called with masks, or without by gw_module_call. By value: x, key_padding_mask,
// attn_mask.
GW_API gw_module *
gw_nn_transformer_encoder_layer(gw_scope *s, int64_t features, int64_t heads,
                                gw_nn_encoder_layer_options options GW_DEFAULT({}))
    GW_CALLS(gw_nn_transformer_encoder_layer_with);
#define gw_nn_transformer_encoder_layer(...)                                                       \
    (GW_DRAWS, GW_FORM_3(gw_nn_transformer_encoder_layer, gw_nn_encoder_layer_options, __VA_ARGS__))
GW_API GW_TYPE_OF(gw_nn_transformer_encoder_layer) gw_nn_transformer_encoder_layer_with;
GW_API gw_tensor *gw_nn_transformer_encoder_layer_call(gw_scope *s, gw_module *m, gw_tensor *x,
                                                       gw_attention_options options GW_DEFAULT({}))
    GW_CALLS(gw_nn_transformer_encoder_layer_call_with);
#define gw_nn_transformer_encoder_layer_call(...)                                                  \
    GW_FORM_3(gw_nn_transformer_encoder_layer_call, gw_attention_options, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_nn_transformer_encoder_layer_call) gw_nn_transformer_encoder_layer_call_with;

// ---- Embeddings ---------------------------------------------------------------------------------
typedef struct GW_BY_NAME gw_nn_embedding_options {
    bool sparse
        GW_DEFAULT(false);  // gradients are sparse by rows, and cost what is used of the table
    int64_t padding_idx GW_DEFAULT(
        GW_NOT_GIVEN);  // a row that starts as 0 and gets no gradient; from the end if negative
    // Rows that are looked up are shortened to this norm first, in place and without a history, if
    // they are longer; 0: they are not. INVALID for dtypes other than f32 and f64.
    double max_norm GW_DEFAULT(0);
    double norm_type GW_DEFAULT(2);
    gw_dtype dtype GW_DEFAULT(GW_F32);
} gw_nn_embedding_options;

// A table of |count| rows, which start normal (torch.nn.Embedding). indices: any shape, output:
// that shape and |features|; weight: |count| |features|.
GW_API gw_module *gw_nn_embedding(gw_scope *s, int64_t count, int64_t features,
                                  gw_nn_embedding_options options GW_DEFAULT({}))
    GW_CALLS(gw_nn_embedding_with);
#define gw_nn_embedding(...)                                                                       \
    (GW_DRAWS, GW_FORM_3(gw_nn_embedding, gw_nn_embedding_options, __VA_ARGS__))
GW_API GW_TYPE_OF(gw_nn_embedding) gw_nn_embedding_with;

typedef enum gw_embedding_bag_mode {
    GW_BAG_MEAN = 0,
    GW_BAG_SUM,
    GW_BAG_MAX
} gw_embedding_bag_mode;

typedef struct GW_BY_NAME gw_nn_embedding_bag_options {
    gw_embedding_bag_mode mode GW_DEFAULT(GW_BAG_MEAN);
    bool sparse GW_DEFAULT(false);
    bool include_last_offset GW_DEFAULT(false);    // offsets end with where the last bag ends
    int64_t padding_idx GW_DEFAULT(GW_NOT_GIVEN);  // indices that are this one count for nothing
    gw_dtype dtype GW_DEFAULT(GW_F32);
} gw_nn_embedding_bag_options;

// Bags of rows, each taken together (torch.nn.EmbeddingBag): their mean, sum or maximum, or 0 of an
// empty one. output: B |features| for B bags.
GW_API gw_module *gw_nn_embedding_bag(gw_scope *s, int64_t count, int64_t features,
                                      gw_nn_embedding_bag_options options GW_DEFAULT({}))
    GW_CALLS(gw_nn_embedding_bag_with);
#define gw_nn_embedding_bag(...)                                                                   \
    (GW_DRAWS, GW_FORM_3(gw_nn_embedding_bag, gw_nn_embedding_bag_options, __VA_ARGS__))
GW_API GW_TYPE_OF(gw_nn_embedding_bag) gw_nn_embedding_bag_with;

typedef struct GW_BY_NAME gw_embedding_bag_call_options {
    gw_tensor *offsets GW_DEFAULT(NULL);             // B: where each bag begins
    gw_tensor *per_sample_weights GW_DEFAULT(NULL);  // in the shape of the indices, for sums only
} gw_embedding_bag_call_options;

// indices: B L, or N with offsets. By value: indices, offsets, per_sample_weights.
GW_API gw_tensor *gw_nn_embedding_bag_call(gw_scope *s, gw_module *m, gw_tensor *indices,
                                           gw_embedding_bag_call_options options GW_DEFAULT({}))
    GW_CALLS(gw_nn_embedding_bag_call_with);
#define gw_nn_embedding_bag_call(...)                                                              \
    GW_FORM_3(gw_nn_embedding_bag_call, gw_embedding_bag_call_options, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_nn_embedding_bag_call) gw_nn_embedding_bag_call_with;

// ---- Recurrent layers ---------------------------------------------------------------------------
// torch.nn.LSTM, GRU and RNN. x: T N |in| (or N T |in|, if |batch_first|; or T |in|), output: T N D
// |hidden|, for D directions (or N T ..., T ...). States, given and returned: L D by N by |hidden|
// for L layers (or without N). Parameters are weight_ih_l0, weight_hh_l0, bias_ih_l0, bias_hh_l0,
// weight_ih_l0_reverse and so on, uniform in +-1/sqrt(hidden) at the start.
typedef struct GW_BY_NAME gw_nn_recurrent_options {
    int layers GW_DEFAULT(1);
    bool bidirectional GW_DEFAULT(false);
    bool batch_first GW_DEFAULT(false);
    bool bias GW_DEFAULT(true);
    bool relu GW_DEFAULT(false);   // gw_nn_rnn: instead of tanh
    double dropout GW_DEFAULT(0);  // between layers, in training
    gw_dtype dtype GW_DEFAULT(GW_F32);
} gw_nn_recurrent_options;

GW_API gw_module *gw_nn_lstm(gw_scope *s, int64_t in, int64_t hidden,
                             gw_nn_recurrent_options options GW_DEFAULT({}))
    GW_CALLS(gw_nn_lstm_with);
#define gw_nn_lstm(...) (GW_DRAWS, GW_FORM_3(gw_nn_lstm, gw_nn_recurrent_options, __VA_ARGS__))
GW_API GW_TYPE_OF(gw_nn_lstm) gw_nn_lstm_with;
GW_API gw_module *gw_nn_gru(gw_scope *s, int64_t in, int64_t hidden,
                            gw_nn_recurrent_options options GW_DEFAULT({}))
    GW_CALLS(gw_nn_gru_with);
#define gw_nn_gru(...) (GW_DRAWS, GW_FORM_3(gw_nn_gru, gw_nn_recurrent_options, __VA_ARGS__))
GW_API GW_TYPE_OF(gw_nn_gru) gw_nn_gru_with;
GW_API gw_module *gw_nn_rnn(gw_scope *s, int64_t in, int64_t hidden,
                            gw_nn_recurrent_options options GW_DEFAULT({}))
    GW_CALLS(gw_nn_rnn_with);
#define gw_nn_rnn(...) (GW_DRAWS, GW_FORM_3(gw_nn_rnn, gw_nn_recurrent_options, __VA_ARGS__))
GW_API GW_TYPE_OF(gw_nn_rnn) gw_nn_rnn_with;

typedef struct gw_lstm_result {
    gw_tensor *output;
    gw_tensor *h, *c;  // after the last step
} gw_lstm_result;

typedef struct gw_rnn_result {
    gw_tensor *output;
    gw_tensor *h;
} gw_rnn_result;

// Sequences of several lengths are padded to T, in any order: torch's pack_padded_sequence. What is
// behind an end is not looked at, the output there is 0, and h and c are those at each one's own
// end.
typedef struct GW_BY_NAME gw_rnn_call_options {
    gw_tensor *h0 GW_DEFAULT(NULL);       // to start from; else 0
    gw_tensor *lengths GW_DEFAULT(NULL);  // N, i64, each from 1 to T
} gw_rnn_call_options;

typedef struct GW_BY_NAME gw_lstm_call_options {
    gw_tensor *h0 GW_DEFAULT(NULL), *c0 GW_DEFAULT(NULL);
    gw_tensor *lengths GW_DEFAULT(NULL);
} gw_lstm_call_options;

// gw_module_call gives the output, from states of 0; gw_nn_lstm_call(s, m, x, .h0 = h, .c0 = c)
// takes and gives states. By value: x, h0, c0, lengths (h0, lengths without c0); given is a list of
// output, h and c.
GW_API gw_lstm_result gw_nn_lstm_call(gw_scope *s, gw_module *m, gw_tensor *x,
                                      gw_lstm_call_options options GW_DEFAULT({}))
    GW_CALLS(gw_nn_lstm_call_with);
#define gw_nn_lstm_call(...) GW_FORM_3(gw_nn_lstm_call, gw_lstm_call_options, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_nn_lstm_call) gw_nn_lstm_call_with;
GW_API gw_rnn_result gw_nn_gru_call(gw_scope *s, gw_module *m, gw_tensor *x,
                                    gw_rnn_call_options options GW_DEFAULT({}))
    GW_CALLS(gw_nn_gru_call_with);
#define gw_nn_gru_call(...) GW_FORM_3(gw_nn_gru_call, gw_rnn_call_options, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_nn_gru_call) gw_nn_gru_call_with;
GW_API gw_rnn_result gw_nn_rnn_call(gw_scope *s, gw_module *m, gw_tensor *x,
                                    gw_rnn_call_options options GW_DEFAULT({}))
    GW_CALLS(gw_nn_rnn_call_with);
#define gw_nn_rnn_call(...) GW_FORM_3(gw_nn_rnn_call, gw_rnn_call_options, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_nn_rnn_call) gw_nn_rnn_call_with;

// ---- Modules of one's own -----------------------------------------------------------------------

// The two kinds of forward: one tensor to one, or any values to a tensor or a list. The accessors of
// gradwire/args.h check what they read.
typedef gw_tensor *gw_module_forward(gw_scope *s, gw_module *m, gw_tensor *x);
typedef gw_value gw_module_forward_values(gw_scope *s, gw_module *m, const gw_args *a);

// gw_module_open(s, name, forward, state): a module that computes |forward|, of either kind.
// |state| (may be NULL) is what gw_module_state returns; it must live as long as the module.
#define gw_module_open(s, name, forward, state) GW_MODULE_OPEN(s, name, forward, state)
GW_API gw_module *gw_module_open_tensor(gw_scope *s, const char *name, gw_module_forward *forward,
                                        void *state);
GW_API gw_module *gw_module_open_values(gw_scope *s, const char *name,
                                        gw_module_forward_values *forward, void *state);
GW_API void *gw_module_state(const gw_module *m);
GW_API const char *gw_module_name(const gw_module *m);

// Adds a part under |name|, which has no '.'. DUPLICATE if the name is taken; LIMIT for modules that
// are more than 128 inside each other.
GW_API void gw_module_register_module(gw_scope *s, gw_module *m, const char *name,
                                      gw_module *child);

// Adds |x|, a leaf, which from now on requires a gradient.
GW_API void gw_module_register_parameter(gw_scope *s, gw_module *m, const char *name, gw_tensor *x);

// Adds |x|, which is state but no parameter: a running mean, a count. It wants no gradient.
GW_API void gw_module_register_buffer(gw_scope *s, gw_module *m, const char *name, gw_tensor *x);

// ---- Training and evaluation --------------------------------------------------------------------

// Says so to |m| and all its parts. A module starts in training.
GW_API void gw_module_train(gw_scope *s, gw_module *m);
GW_API void gw_module_eval(gw_scope *s, gw_module *m);
GW_API bool gw_module_is_training(const gw_module *m);

// ---- Parts --------------------------------------------------------------------------------------

// gw_parameters(s, module, ...): the parameters of all of them in the order in which they were
// added, a module's own before those of its parts; each once.
GW_API gw_list *gw_parameters(gw_scope *s, gw_module *const *modules, int count)
    GW_CALLS(gw_parameters_with);
#define gw_parameters(s, ...) GW_PARAMETERS(s, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_parameters) gw_parameters_with;

// The same of |m| by name, as gw_module_parameter_name says it; a shared one has all its names.
GW_API gw_map *gw_module_named_parameters(gw_scope *s, gw_module *m);

// Parameters of |m| and its parts by number and by name, "affine1.weight". They are borrowed from
// |m|. A loop over all names takes the map of gw_module_named_parameters: gw_module_parameter_name walks
// through |m| each time.
GW_API int gw_module_parameter_count(const gw_module *m);
GW_API const char *gw_module_parameter_name(gw_scope *s, const gw_module *m, int index);
GW_API gw_tensor *gw_module_parameter_at(gw_scope *s, const gw_module *m, int index);
GW_API gw_tensor *gw_module_parameter_get(gw_scope *s, const gw_module *m, const char *name);
GW_API gw_tensor *gw_module_parameter_find(const gw_module *m, const char *name);  // may be NULL

// Buffers of |m| and its parts, in the same manner: "1.running_mean".
GW_API int gw_module_buffer_count(const gw_module *m);
GW_API const char *gw_module_buffer_name(gw_scope *s, const gw_module *m, int index);
GW_API gw_tensor *gw_module_buffer_at(gw_scope *s, const gw_module *m, int index);
GW_API gw_tensor *gw_module_buffer_get(gw_scope *s, const gw_module *m, const char *name);
GW_API gw_tensor *gw_module_buffer_find(const gw_module *m, const char *name);  // may be NULL

// The part called |name|, borrowed from |m|; "encoder.0" is a part of a part. NOT_FOUND if there is
// none.
GW_API gw_module *gw_module_child(gw_scope *s, const gw_module *m, const char *name);

// ---- Initial values -----------------------------------------------------------------------------
// torch.nn.init: each gives |x|, which may be a parameter, new values in place, records nothing,
// and returns |x|. Random numbers come from the scope's generator. INVALID if |x| is not of floats.
//
//     gw_init_kaiming_normal(s, gw_module_parameter_get(s, m, "weight"), 0, GW_FAN_OUT, GW_GAIN_RELU);
GW_API gw_tensor *gw_init_uniform(gw_scope *s, gw_tensor *x, double low, double high);
GW_API gw_tensor *gw_init_normal(gw_scope *s, gw_tensor *x, double mean, double std);
GW_API gw_tensor *gw_init_constant(gw_scope *s, gw_tensor *x, double value);
GW_API gw_tensor *gw_init_zeros(gw_scope *s, gw_tensor *x);
GW_API gw_tensor *gw_init_ones(gw_scope *s, gw_tensor *x);

// Normal as if numbers below |a| or above |b| were drawn again.
GW_API gw_tensor *gw_init_trunc_normal(gw_scope *s, gw_tensor *x, double mean, double std, double a,
                                       double b);

// What a nonlinearity shrinks numbers by, as a factor that makes good for it:
// torch.nn.init.calculate_gain. |param| is the slope of a leaky relu.
typedef enum gw_nonlinearity {
    GW_GAIN_LEAKY_RELU = 0,
    GW_GAIN_RELU,
    GW_GAIN_TANH,
    GW_GAIN_SIGMOID,
    GW_GAIN_SELU,
    GW_GAIN_LINEAR  // convolutions, too
} gw_nonlinearity;

GW_API double gw_calculate_gain(gw_nonlinearity nonlinearity, double param);

// By how many numbers make one output (fan in), and how many outputs a number goes into (fan out).
// x: out in window...
typedef enum gw_fan_mode { GW_FAN_IN = 0, GW_FAN_OUT } gw_fan_mode;

// Uniform in +-gain sqrt(6 / (fan in + fan out)); normal with deviation gain sqrt(2 / (fan in + fan
// out)) (Glorot, Bengio 2010).
GW_API gw_tensor *gw_init_xavier_uniform(gw_scope *s, gw_tensor *x, double gain);
GW_API gw_tensor *gw_init_xavier_normal(gw_scope *s, gw_tensor *x, double gain);

// Uniform in +-gain sqrt(3 / fan); normal with deviation gain / sqrt(fan); the gain is that of the
// nonlinearity, with slope |a| (He et al. 2015).
GW_API gw_tensor *gw_init_kaiming_uniform(gw_scope *s, gw_tensor *x, double a, gw_fan_mode mode,
                                          gw_nonlinearity nonlinearity);
GW_API gw_tensor *gw_init_kaiming_normal(gw_scope *s, gw_tensor *x, double a, gw_fan_mode mode,
                                         gw_nonlinearity nonlinearity);

// Rows, or columns if there are fewer, that are at right angles and |gain| long (Saxe et al. 2013).
// x: M N..., a matrix of M rows.
GW_API gw_tensor *gw_init_orthogonal(gw_scope *s, gw_tensor *x, double gain);

// Ones on the diagonal of a matrix; and in the middle of a convolution's window from each channel
// to itself, in each of |groups|, so that it keeps its input. x: O I K, or K K, or K K K.
GW_API gw_tensor *gw_init_eye(gw_scope *s, gw_tensor *x);
GW_API gw_tensor *gw_init_dirac(gw_scope *s, gw_tensor *x, int64_t groups);

// Normal with mean 0, but |sparsity| of each column, rounded up, is 0 (Martens 2010). x: a matrix.
GW_API gw_tensor *gw_init_sparse(gw_scope *s, gw_tensor *x, double sparsity, double std);

// ---- State --------------------------------------------------------------------------------------

// Parameters and buffers of |m| and its parts, by name: torch's state_dict. They share their memory
// with the module's; gw_clone what shall stay as it is.
GW_API gw_map *gw_module_state_dict(gw_scope *s, gw_module *m);

// Gives |m| the values in |state|, which has a tensor of the same shape and dtype for each name,
// and no other: torch's load_state_dict. INVALID names what is missing, unexpected or different;
// then nothing has changed.
typedef struct GW_BY_NAME gw_module_load_state_dict_options {
    bool strict GW_DEFAULT(true);  // or names may be missing, or be of nothing here
} gw_module_load_state_dict_options;

GW_API void gw_module_load_state_dict(gw_scope *s, gw_module *m, gw_map *state,
                                      gw_module_load_state_dict_options options GW_DEFAULT({}))
    GW_CALLS(gw_module_load_state_dict_with);
#define gw_module_load_state_dict(...)                                                             \
    GW_FORM_3(gw_module_load_state_dict, gw_module_load_state_dict_options, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_module_load_state_dict) gw_module_load_state_dict_with;

// ---- Hooks --------------------------------------------------------------------------------------
// Run by each call of |m|, in the order in which they were added: some before its forward, given
// the input |x|, others after it, given |x| and the output |y|. What a hook returns takes the place
// of |x|, or |y|; NULL leaves it. Of a call that takes and gives several values, |x| is the first
// input and |y| the first output; INVALID if that is no tensor. A hook may register and remove hooks
// of |m|: a hook that is removed is not called any more, one that is registered is called from the
// next call of |m| on.
typedef gw_tensor *gw_module_forward_pre_hook(gw_scope *s, gw_module *m, gw_tensor *x,
                                              void *context);
typedef gw_tensor *gw_module_forward_hook(gw_scope *s, gw_module *m, gw_tensor *x, gw_tensor *y,
                                          void *context);

// The number by which the hook is removed. |context| must live as long.
GW_API int gw_module_register_forward_pre_hook(gw_scope *s, gw_module *m,
                                               gw_module_forward_pre_hook *hook, void *context);
GW_API int gw_module_register_forward_hook(gw_scope *s, gw_module *m, gw_module_forward_hook *hook,
                                           void *context);
GW_API void gw_module_remove_hook(gw_scope *s, gw_module *m, int hook);  // NOT_FOUND

// ---- Categorical distributions ------------------------------------------------------------------
// A choice among C classes, as torch.distributions.Categorical; a plain value:
//
//     gw_categorical choice = gw_categorical_from_probs(s, p);        // p: N C, or C
//     gw_tensor *action = gw_categorical_sample(s, choice);         // N
//     gw_tensor *loss = gw_neg(s, gw_mul(s, gw_categorical_log_prob(s, choice, action), reward));
typedef struct gw_categorical {
    gw_tensor *probs;   // as given; need not sum to 1
    gw_tensor *logits;  // the other way to say it
} gw_categorical;

// |probs|, |logits|: ... C. Probabilities are not negative, and not all 0.
GW_API gw_categorical gw_categorical_from_probs(gw_scope *s, gw_tensor *probs);
GW_API gw_categorical gw_categorical_from_logits(gw_scope *s, gw_tensor *logits);

GW_API gw_tensor *gw_categorical_sample(gw_scope *s,
                                        gw_categorical c);  // i64, without the last dim
GW_API gw_tensor *gw_categorical_log_prob(gw_scope *s, gw_categorical c, gw_tensor *value);
GW_API gw_tensor *gw_categorical_entropy(gw_scope *s, gw_categorical c);

// ---- Normal distributions -----------------------------------------------------------------------
// As torch.distributions.Normal, of each number on its own; a plain value:
//
//     gw_normal noise = gw_normal_from(s, mean, std);               // which broadcast
//     gw_tensor *action = gw_normal_rsample(s, noise);
//     gw_tensor *logp = gw_normal_log_prob(s, noise, action);
typedef struct gw_normal {
    gw_tensor *loc, *scale;  // means and standard deviations
} gw_normal;

// INVALID unless both are floats and every |scale| is above 0.
GW_API gw_normal gw_normal_from(gw_scope *s, gw_tensor *loc, gw_tensor *scale);

// Numbers in the shape that both broadcast to; without a history, or as loc + scale * noise,
// through which gradients flow to both (Kingma, Welling 2014).
GW_API gw_tensor *gw_normal_sample(gw_scope *s, gw_normal n);
GW_API gw_tensor *gw_normal_rsample(gw_scope *s, gw_normal n);

GW_API gw_tensor *gw_normal_log_prob(gw_scope *s, gw_normal n, gw_tensor *value);
GW_API gw_tensor *gw_normal_entropy(gw_scope *s, gw_normal n);

#ifdef __cplusplus
}
#endif
#include <gradwire/detail/nn.h>
#endif
