// Modules: parameters with a forward.
//
// A module owns parameters and other modules, each under a name, and computes an output from an input. The layers have
// the shapes, the options and the initial values of torch.nn.
//
//     gw_module *policy = gw_nn_sequential(root, gw_nn_linear(root, 4, 128), gw_nn_dropout(root, 0.6),
//                                          gw_nn_relu(root), gw_nn_linear(root, 128, 2));
//     gw_optimizer *opt = gw_adam(root, gw_parameters(root, policy), .lr = 1e-2);
//     gw_tensor *scores = gw_module_call(s, policy, state);          // state: N 4, scores: N 2
//
// A program can define its own module: a function, and the parts that the function uses:
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
// A forward may also take and return several values. gw_module_call_value calls a module with such a forward:
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
// Random initial values are drawn from the generator of the scope. Gradients flow through every layer to its input and
// its parameters.
//
// Errors, of all functions: INVALID for sizes and options out of range, and for a module whose constructor failed in
// another scope; for a call of a module, the errors of its operators, with the names of the modules in the text;
// NO_MEMORY.
// Ownership: a module belongs to the scope that made it, and holds a count on its parts.
// Threads: the same as for the scope; one call at a time.
#ifndef GRADWIRE_NN_H
#define GRADWIRE_NN_H

#include <gradwire/args.h>
#include <gradwire/ops.h>

#ifdef __cplusplus
extern "C" {
#endif

/// A module: a forward function with parameters and parts; made by gw_nn_linear and the like, or by gw_module_open.
typedef struct gw_module gw_module;

/// Computes the output of |m| for |x|.
///
/// Returns: the output; if the forward of |m| returns a list, the first item of the list.
/// Gradient: to |x| and the parameters of |m|.
/// Errors: INVALID if the forward returns no tensor.
GW_API gw_tensor *gw_module_call(gw_scope *s, gw_module *m, gw_tensor *x);

/// Computes the output of |m| for one value or several: gw_module_call_value(s, m, x, ...).
///
///     gw_value v = gw_module_call_value(s, lstm, x, h0, c0);
///     gw_tensor *h = gw_tensor_of(s, gw_list_get(s, gw_list_of(s, v), 1));
///
/// in: the inputs, in the order that the layer's entry states after "By value". For an input that is not given, pass
/// gw_none(); at the end of the list it may be left out.
/// Returns: a tensor or a list.
/// Gradient: to the tensors of |in| and the parameters of |m|.
GW_API gw_value gw_module_call_value(gw_scope *s, gw_module *m, gw_values in)
    GW_CALLS(gw_module_call_value_with);
#define gw_module_call_value(s, ...) GW_MODULE_VALUES(gw_module_call_value, s, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_module_call_value) gw_module_call_value_with;

// ---- Layers -------------------------------------------------------------------------------------

/// Options of gw_nn_linear.
typedef struct GW_BY_NAME gw_nn_linear_options {
    bool bias GW_DEFAULT(true);
    gw_dtype dtype GW_DEFAULT(GW_F32);
} gw_nn_linear_options;

/// Makes a linear layer x W^T + b; x: ... |in|, output: ... |out|.
///
/// Returns: a module with weight: |out| |in| and bias: |out|, both uniform in +-1/sqrt(in).
/// Source: torch.nn.Linear; He et al. 2015, with a = sqrt 5.
GW_API gw_module *gw_nn_linear(gw_scope *s, int64_t in, int64_t out,
                               gw_nn_linear_options options GW_DEFAULT({}))
    GW_CALLS(gw_nn_linear_with);
#define gw_nn_linear(...) (GW_DRAWS, GW_FORM_3(gw_nn_linear, gw_nn_linear_options, __VA_ARGS__))
GW_API GW_TYPE_OF(gw_nn_linear) gw_nn_linear_with;

/// Makes a layer of gw_dropout. In training, the layer sets elements to 0 with probability |p| and divides the others
/// by 1 - p.
/// Returns: a module without parameters.
/// Source: torch.nn.Dropout.
GW_API gw_module *gw_nn_dropout(gw_scope *s, double p);

/// Makes a layer of gw_relu.
/// Returns: a module without parameters.
GW_API gw_module *gw_nn_relu(gw_scope *s);
/// Makes a layer of gw_leaky_relu.
/// Returns: a module without parameters.
GW_API gw_module *gw_nn_leaky_relu(gw_scope *s, double negative_slope);
/// Makes a layer of gw_tanh.
/// Returns: a module without parameters.
GW_API gw_module *gw_nn_tanh(gw_scope *s);
/// Makes a layer of gw_sigmoid.
/// Returns: a module without parameters.
GW_API gw_module *gw_nn_sigmoid(gw_scope *s);
/// Makes a layer of gw_gelu.
/// Returns: a module without parameters.
GW_API gw_module *gw_nn_gelu(gw_scope *s);
/// Makes a layer of gw_silu.
/// Returns: a module without parameters.
GW_API gw_module *gw_nn_silu(gw_scope *s);
/// Makes a layer that computes gw_softmax along |dim|.
/// Returns: a module without parameters.
GW_API gw_module *gw_nn_softmax(gw_scope *s, int dim);

/// Options of gw_nn_flatten.
typedef struct GW_BY_NAME gw_nn_flatten_options {
    int start_dim GW_DEFAULT(1), end_dim GW_DEFAULT(-1);
} gw_nn_flatten_options;

/// Makes a layer that joins dimensions .start_dim to .end_dim into one.
/// Returns: a module without parameters.
/// Source: torch.nn.Flatten.
GW_API gw_module *gw_nn_flatten(gw_scope *s, gw_nn_flatten_options options GW_DEFAULT({}))
    GW_CALLS(gw_nn_flatten_with);
#define gw_nn_flatten(...) GW_FORM_1(gw_nn_flatten, gw_nn_flatten_options, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_nn_flatten) gw_nn_flatten_with;

/// Makes a module that calls modules one after the other: gw_nn_sequential(s, module, ...). The arguments are evaluated
/// from left to right, so that a seed gives the same initial values with every compiler.
///
/// modules: the modules to call; in the short form they are separate arguments.
/// Returns: a module with the parts "0", "1" and so on.
/// Source: torch.nn.Sequential.
GW_API gw_module *gw_nn_sequential(gw_scope *s, gw_module *const *modules, int count)
    GW_CALLS(gw_nn_sequential_with);
#define gw_nn_sequential(s, ...) GW_SEQUENTIAL(s, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_nn_sequential) gw_nn_sequential_with;

// ---- Normalisation ------------------------------------------------------------------------------

/// Options of gw_nn_layer_norm.
typedef struct GW_BY_NAME gw_nn_layer_norm_options {
    double eps GW_DEFAULT(1e-5);
    bool elementwise_affine GW_DEFAULT(true);  ///< true: the layer has weight and bias
    bool bias GW_DEFAULT(true);
    gw_dtype dtype GW_DEFAULT(GW_F32);
} gw_nn_layer_norm_options;

/// Makes a layer of gw_layer_norm: gw_nn_layer_norm(s, features) over the last dimension.
///
/// normalized: the sizes of the last dimensions; the short form takes one number.
/// Returns: a module with weight (ones) and bias (zeros) of these sizes.
/// Source: torch.nn.LayerNorm.
GW_API gw_module *gw_nn_layer_norm(gw_scope *s, gw_shape normalized,
                                   gw_nn_layer_norm_options options GW_DEFAULT({}))
    GW_CALLS(gw_nn_layer_norm_with);
#define gw_nn_layer_norm(...) GW_LAYER_NORM(__VA_ARGS__)
GW_API GW_TYPE_OF(gw_nn_layer_norm) gw_nn_layer_norm_with;

/// Options of gw_nn_batch_norm1d and gw_nn_batch_norm2d.
typedef struct GW_BY_NAME gw_nn_batch_norm_options {
    double momentum GW_DEFAULT(0.1);
    double eps GW_DEFAULT(1e-5);
    /// true: running statistics are the mean over all batches, as with momentum=None of PyTorch.
    bool cumulative GW_DEFAULT(false);
    bool affine GW_DEFAULT(true);  ///< true: the layer has weight and bias
    bool track_running_stats
        GW_DEFAULT(true);  ///< false: evaluation also uses the statistics of the batch
    gw_dtype dtype GW_DEFAULT(GW_F32);
} gw_nn_batch_norm_options;

/// Makes a layer of gw_batch_norm; x: N |features|, or N |features| L.
///
/// Returns: a module with weight (ones) and bias (zeros): |features|; buffers running_mean (zeros) and running_var
/// (ones): |features|, num_batches_tracked: a scalar.
/// Source: torch.nn.BatchNorm1d.
GW_API gw_module *gw_nn_batch_norm1d(gw_scope *s, int64_t features,
                                     gw_nn_batch_norm_options options GW_DEFAULT({}))
    GW_CALLS(gw_nn_batch_norm1d_with);
#define gw_nn_batch_norm1d(...) GW_FORM_2(gw_nn_batch_norm1d, gw_nn_batch_norm_options, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_nn_batch_norm1d) gw_nn_batch_norm1d_with;

/// Makes a layer of gw_batch_norm; x: N |features| H W.
///
/// Returns: a module with the same parameters and buffers as that of gw_nn_batch_norm1d.
/// Source: torch.nn.BatchNorm2d.
GW_API gw_module *gw_nn_batch_norm2d(gw_scope *s, int64_t features,
                                     gw_nn_batch_norm_options options GW_DEFAULT({}))
    GW_CALLS(gw_nn_batch_norm2d_with);
#define gw_nn_batch_norm2d(...) GW_FORM_2(gw_nn_batch_norm2d, gw_nn_batch_norm_options, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_nn_batch_norm2d) gw_nn_batch_norm2d_with;

// ---- Convolutions, pools ------------------------------------------------------------------------
// A pair is for height and width. In one dimension only the first number of a pair is used. Write both numbers of a
// pair: C fills a pair with zeros, so that .padding = {1} is {1, 0} and pads only the height. PyTorch's padding=1 is
// {1, 1}.

/// The values beyond the edges of an input.
typedef enum gw_padding_mode {
    GW_PAD_ZEROS = 0,
    GW_PAD_REFLECT,    ///< inner elements, mirrored at the edge; the edge itself is not repeated
    GW_PAD_REPLICATE,  ///< the element at the edge
    GW_PAD_CIRCULAR    ///< the elements at the opposite edge
} gw_padding_mode;

/// Options of gw_nn_conv1d and gw_nn_conv2d.
typedef struct GW_BY_NAME gw_nn_conv_options {
    int64_t kernel[2] GW_DEFAULT({ 0, 0 });  ///< required
    int64_t stride[2] GW_DEFAULT({ 1, 1 });
    int64_t padding[2] GW_DEFAULT({ 0, 0 });
    gw_padding_mode padding_mode GW_DEFAULT(GW_PAD_ZEROS);
    int64_t dilation[2] GW_DEFAULT({ 1, 1 });
    int64_t groups GW_DEFAULT(1);
    bool bias GW_DEFAULT(true);
    gw_dtype dtype GW_DEFAULT(GW_F32);
} gw_nn_conv_options;

/// Makes a layer of gw_conv1d from |in| to |out| channels.
///
/// Returns: a module with weight: |out| |in|/groups kernel and bias: |out|, both uniform in +-1/sqrt(|in|/groups
/// kernel).
/// Source: torch.nn.Conv1d.
GW_API gw_module *gw_nn_conv1d(gw_scope *s, int64_t in, int64_t out,
                               gw_nn_conv_options options GW_DEFAULT({}))
    GW_CALLS(gw_nn_conv1d_with);
#define gw_nn_conv1d(...) (GW_DRAWS, GW_FORM_3(gw_nn_conv1d, gw_nn_conv_options, __VA_ARGS__))
GW_API GW_TYPE_OF(gw_nn_conv1d) gw_nn_conv1d_with;

/// Makes a layer of gw_conv2d from |in| to |out| channels.
///
/// Returns: a module with the same parameters as that of gw_nn_conv1d, but with a kernel of height by width.
/// Source: torch.nn.Conv2d.
GW_API gw_module *gw_nn_conv2d(gw_scope *s, int64_t in, int64_t out,
                               gw_nn_conv_options options GW_DEFAULT({}))
    GW_CALLS(gw_nn_conv2d_with);
#define gw_nn_conv2d(...) (GW_DRAWS, GW_FORM_3(gw_nn_conv2d, gw_nn_conv_options, __VA_ARGS__))
GW_API GW_TYPE_OF(gw_nn_conv2d) gw_nn_conv2d_with;

/// Makes a layer of gw_max_pool1d.
/// Returns: a module without parameters.
GW_API gw_module *gw_nn_max_pool1d(gw_scope *s, gw_pool_options options GW_DEFAULT({}))
    GW_CALLS(gw_nn_max_pool1d_with);
#define gw_nn_max_pool1d(...) GW_FORM_1(gw_nn_max_pool1d, gw_pool_options, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_nn_max_pool1d) gw_nn_max_pool1d_with;
/// Makes a layer of gw_max_pool2d.
/// Returns: a module without parameters.
GW_API gw_module *gw_nn_max_pool2d(gw_scope *s, gw_pool_options options GW_DEFAULT({}))
    GW_CALLS(gw_nn_max_pool2d_with);
#define gw_nn_max_pool2d(...) GW_FORM_1(gw_nn_max_pool2d, gw_pool_options, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_nn_max_pool2d) gw_nn_max_pool2d_with;
/// Makes a layer of gw_avg_pool1d.
/// Returns: a module without parameters.
GW_API gw_module *gw_nn_avg_pool1d(gw_scope *s, gw_pool_options options GW_DEFAULT({}))
    GW_CALLS(gw_nn_avg_pool1d_with);
#define gw_nn_avg_pool1d(...) GW_FORM_1(gw_nn_avg_pool1d, gw_pool_options, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_nn_avg_pool1d) gw_nn_avg_pool1d_with;
/// Makes a layer of gw_avg_pool2d.
/// Returns: a module without parameters.
GW_API gw_module *gw_nn_avg_pool2d(gw_scope *s, gw_pool_options options GW_DEFAULT({}))
    GW_CALLS(gw_nn_avg_pool2d_with);
#define gw_nn_avg_pool2d(...) GW_FORM_1(gw_nn_avg_pool2d, gw_pool_options, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_nn_avg_pool2d) gw_nn_avg_pool2d_with;
/// Makes a layer of gw_adaptive_avg_pool1d.
/// Returns: a module without parameters.
GW_API gw_module *gw_nn_adaptive_avg_pool1d(gw_scope *s, int64_t length);
/// Makes a layer of gw_adaptive_avg_pool2d.
/// Returns: a module without parameters.
GW_API gw_module *gw_nn_adaptive_avg_pool2d(gw_scope *s, int64_t height, int64_t width);

// ---- Attention ----------------------------------------------------------------------------------
// N batch, T length of the query, S length of keys and values, E features.

/// Options of gw_nn_multihead_attention.
typedef struct GW_BY_NAME gw_nn_attention_options {
    double dropout GW_DEFAULT(0);  ///< of the attention weights
    bool bias GW_DEFAULT(true);
    bool batch_first GW_DEFAULT(false);  ///< N T E in place of T N E
    int64_t kdim GW_DEFAULT(GW_NOT_GIVEN), vdim GW_DEFAULT(GW_NOT_GIVEN);  ///< not given: E
    /// .add_bias_kv adds a learnt key and value (bias_k and bias_v) at the end. .add_zero_attn adds a key and a value
    /// of zeros after these. Masks do not hide the added keys.
    bool add_bias_kv GW_DEFAULT(false), add_zero_attn GW_DEFAULT(false);
    gw_dtype dtype GW_DEFAULT(GW_F32);
} gw_nn_attention_options;

/// Makes a multi-head attention with E = |features| and |heads| heads. gw_module_call uses its input as query, key and
/// value.
///
/// Returns: a module with in_proj_weight: 3E E, uniform in +-sqrt(6/4E); in_proj_bias: 3E, zeros; bias_k and bias_v: 1
/// 1 E, normal with deviation 1/sqrt(E); and out_proj, a linear layer with a bias of zeros. With .kdim or .vdim,
/// q_proj_weight, k_proj_weight and v_proj_weight replace in_proj_weight.
/// Source: torch.nn.MultiheadAttention; Vaswani et al. 2017.
GW_API gw_module *gw_nn_multihead_attention(gw_scope *s, int64_t features, int64_t heads,
                                            gw_nn_attention_options options GW_DEFAULT({}))
    GW_CALLS(gw_nn_multihead_attention_with);
#define gw_nn_multihead_attention(...)                                                             \
    (GW_DRAWS, GW_FORM_3(gw_nn_multihead_attention, gw_nn_attention_options, __VA_ARGS__))
GW_API GW_TYPE_OF(gw_nn_multihead_attention) gw_nn_multihead_attention_with;

/// Options of a call of attention. A mask is a tensor of bools or floats. A bool that is true hides a key; a float is
/// added to the score.
typedef struct GW_BY_NAME gw_attention_options {
    gw_tensor *key_padding_mask GW_DEFAULT(NULL);  ///< N S
    gw_tensor *attn_mask GW_DEFAULT(NULL);         ///< T S, or N*heads T S
    bool need_weights GW_DEFAULT(true);            ///< false: only the output
    bool average_attn_weights GW_DEFAULT(true);  ///< true: the weights are the mean over the heads
} gw_attention_options;

/// The results of a call of attention.
typedef struct gw_attention_result {
    gw_tensor *output;  ///< in the shape of the query
    /// N T S, or N heads T S; NULL if the weights are not needed. S includes the keys that the layer itself adds.
    gw_tensor *weights;
} gw_attention_result;

/// Calls a module of gw_nn_multihead_attention.
///
/// query: T N E (or N first with .batch_first; or without N).
/// key, value: S N E (or N first with .batch_first; or without N).
/// Returns: output and weights. By value: query, key, value, key_padding_mask, attn_mask, need_weights,
/// average_attn_weights; the result is a list of output and weights.
GW_API gw_attention_result gw_nn_multihead_attention_call(
    gw_scope *s, gw_module *m, gw_tensor *query, gw_tensor *key, gw_tensor *value,
    gw_attention_options options GW_DEFAULT({})) GW_CALLS(gw_nn_multihead_attention_call_with);
#define gw_nn_multihead_attention_call(...)                                                        \
    GW_FORM_5(gw_nn_multihead_attention_call, gw_attention_options, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_nn_multihead_attention_call) gw_nn_multihead_attention_call_with;

/// Options of gw_nn_transformer_encoder_layer.
typedef struct GW_BY_NAME gw_nn_encoder_layer_options {
    int64_t feedforward GW_DEFAULT(2048);
    double dropout GW_DEFAULT(0.1);
    double layer_norm_eps GW_DEFAULT(1e-5);
    bool gelu GW_DEFAULT(false);  ///< between linear1 and linear2, in place of relu
    bool batch_first GW_DEFAULT(false), norm_first GW_DEFAULT(false);
    gw_dtype dtype GW_DEFAULT(GW_F32);
} gw_nn_encoder_layer_options;

/// Makes a layer of a transformer's encoder.
///
/// Returns: a module with the parts self_attn, linear1, dropout, linear2, norm1, norm2, dropout1, dropout2.
/// Source: torch.nn.TransformerEncoderLayer.
GW_API gw_module *
gw_nn_transformer_encoder_layer(gw_scope *s, int64_t features, int64_t heads,
                                gw_nn_encoder_layer_options options GW_DEFAULT({}))
    GW_CALLS(gw_nn_transformer_encoder_layer_with);
#define gw_nn_transformer_encoder_layer(...)                                                       \
    (GW_DRAWS, GW_FORM_3(gw_nn_transformer_encoder_layer, gw_nn_encoder_layer_options, __VA_ARGS__))
GW_API GW_TYPE_OF(gw_nn_transformer_encoder_layer) gw_nn_transformer_encoder_layer_with;

/// Calls a module of gw_nn_transformer_encoder_layer with masks; without masks gw_module_call is enough.
///
/// x: T N E (or N first with .batch_first).
/// Returns: a tensor like x. By value: x, key_padding_mask, attn_mask.
GW_API gw_tensor *gw_nn_transformer_encoder_layer_call(gw_scope *s, gw_module *m, gw_tensor *x,
                                                       gw_attention_options options GW_DEFAULT({}))
    GW_CALLS(gw_nn_transformer_encoder_layer_call_with);
#define gw_nn_transformer_encoder_layer_call(...)                                                  \
    GW_FORM_3(gw_nn_transformer_encoder_layer_call, gw_attention_options, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_nn_transformer_encoder_layer_call) gw_nn_transformer_encoder_layer_call_with;

// ---- Embeddings ---------------------------------------------------------------------------------

/// Options of gw_nn_embedding.
typedef struct GW_BY_NAME gw_nn_embedding_options {
    bool sparse GW_DEFAULT(false);  ///< gradients are sparse by rows (gw_rows)
    int64_t padding_idx GW_DEFAULT(
        GW_NOT_GIVEN);  ///< a row of zeros without gradient; a negative number counts from the end
    /// When a row is looked up and its norm is above |max_norm|, the row is scaled in place to the norm |max_norm|. No
    /// gradient flows through the scaling. 0: no row is scaled. For f32 and f64 only.
    double max_norm GW_DEFAULT(0);
    double norm_type GW_DEFAULT(2);
    gw_dtype dtype GW_DEFAULT(GW_F32);
} gw_nn_embedding_options;

/// Makes a layer of gw_embedding: a table of |count| rows. Its input is a tensor of indices; the output has the shape
/// of the input, followed by |features|.
///
/// Returns: a module with weight: |count| |features|, normal.
/// Source: torch.nn.Embedding.
GW_API gw_module *gw_nn_embedding(gw_scope *s, int64_t count, int64_t features,
                                  gw_nn_embedding_options options GW_DEFAULT({}))
    GW_CALLS(gw_nn_embedding_with);
#define gw_nn_embedding(...)                                                                       \
    (GW_DRAWS, GW_FORM_3(gw_nn_embedding, gw_nn_embedding_options, __VA_ARGS__))
GW_API GW_TYPE_OF(gw_nn_embedding) gw_nn_embedding_with;

/// How the rows of a bag are combined.
typedef enum gw_embedding_bag_mode {
    GW_BAG_MEAN = 0,
    GW_BAG_SUM,
    GW_BAG_MAX
} gw_embedding_bag_mode;

/// Options of gw_nn_embedding_bag.
typedef struct GW_BY_NAME gw_nn_embedding_bag_options {
    gw_embedding_bag_mode mode GW_DEFAULT(GW_BAG_MEAN);
    bool sparse GW_DEFAULT(false);  ///< gradients are sparse by rows (gw_rows)
    bool include_last_offset
        GW_DEFAULT(false);  ///< offsets have one more number: the end of the last bag
    int64_t padding_idx GW_DEFAULT(GW_NOT_GIVEN);  ///< occurrences of this index are left out
    gw_dtype dtype GW_DEFAULT(GW_F32);
} gw_nn_embedding_bag_options;

/// Makes a table of |count| rows, which are looked up and combined in bags. Output: B |features| for B bags; zeros for
/// an empty bag.
///
/// Returns: a module with weight: |count| |features|, normal.
/// Source: torch.nn.EmbeddingBag.
GW_API gw_module *gw_nn_embedding_bag(gw_scope *s, int64_t count, int64_t features,
                                      gw_nn_embedding_bag_options options GW_DEFAULT({}))
    GW_CALLS(gw_nn_embedding_bag_with);
#define gw_nn_embedding_bag(...)                                                                   \
    (GW_DRAWS, GW_FORM_3(gw_nn_embedding_bag, gw_nn_embedding_bag_options, __VA_ARGS__))
GW_API GW_TYPE_OF(gw_nn_embedding_bag) gw_nn_embedding_bag_with;

/// Options of gw_nn_embedding_bag_call.
typedef struct GW_BY_NAME gw_embedding_bag_call_options {
    gw_tensor *offsets GW_DEFAULT(NULL);  ///< B: where each bag begins
    gw_tensor *
        per_sample_weights GW_DEFAULT(NULL);  ///< in the shape of the indices, for GW_BAG_SUM
} gw_embedding_bag_call_options;

/// Calls a module of gw_nn_embedding_bag.
///
/// indices: B L, or N with .offsets.
/// Returns: B |features|. By value: indices, offsets, per_sample_weights.
GW_API gw_tensor *gw_nn_embedding_bag_call(gw_scope *s, gw_module *m, gw_tensor *indices,
                                           gw_embedding_bag_call_options options GW_DEFAULT({}))
    GW_CALLS(gw_nn_embedding_bag_call_with);
#define gw_nn_embedding_bag_call(...)                                                              \
    GW_FORM_3(gw_nn_embedding_bag_call, gw_embedding_bag_call_options, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_nn_embedding_bag_call) gw_nn_embedding_bag_call_with;

// ---- Recurrent layers ---------------------------------------------------------------------------
// For L layers and D directions (1 or 2) the shapes are:
//
// - x: T N |in|; with .batch_first N T |in|; for one sequence T |in|
// - output: the shape of x with D |hidden| in place of |in|
// - states: L*D N |hidden|; for one sequence L*D |hidden|
//
// The parameters are weight_ih_l0, weight_hh_l0, bias_ih_l0, bias_hh_l0, weight_ih_l0_reverse and so on, uniform in
// +-1/sqrt(hidden). gw_module_call begins with states of 0.

/// Options of recurrent layers.
typedef struct GW_BY_NAME gw_nn_recurrent_options {
    int layers GW_DEFAULT(1);
    bool bidirectional GW_DEFAULT(false);
    bool batch_first GW_DEFAULT(false);
    bool bias GW_DEFAULT(true);
    bool relu GW_DEFAULT(false);   ///< for gw_nn_rnn: relu in place of tanh
    double dropout GW_DEFAULT(0);  ///< between layers, in training
    gw_dtype dtype GW_DEFAULT(GW_F32);
} gw_nn_recurrent_options;

/// Makes layers of long short-term memories.
/// Returns: the module.
/// Source: torch.nn.LSTM.
GW_API gw_module *gw_nn_lstm(gw_scope *s, int64_t in, int64_t hidden,
                             gw_nn_recurrent_options options GW_DEFAULT({}))
    GW_CALLS(gw_nn_lstm_with);
#define gw_nn_lstm(...) (GW_DRAWS, GW_FORM_3(gw_nn_lstm, gw_nn_recurrent_options, __VA_ARGS__))
GW_API GW_TYPE_OF(gw_nn_lstm) gw_nn_lstm_with;

/// Makes layers of gated recurrent units.
/// Returns: the module.
/// Source: torch.nn.GRU.
GW_API gw_module *gw_nn_gru(gw_scope *s, int64_t in, int64_t hidden,
                            gw_nn_recurrent_options options GW_DEFAULT({}))
    GW_CALLS(gw_nn_gru_with);
#define gw_nn_gru(...) (GW_DRAWS, GW_FORM_3(gw_nn_gru, gw_nn_recurrent_options, __VA_ARGS__))
GW_API GW_TYPE_OF(gw_nn_gru) gw_nn_gru_with;

/// Makes layers of recurrent networks of tanh, or relu.
/// Returns: the module.
/// Source: torch.nn.RNN.
GW_API gw_module *gw_nn_rnn(gw_scope *s, int64_t in, int64_t hidden,
                            gw_nn_recurrent_options options GW_DEFAULT({}))
    GW_CALLS(gw_nn_rnn_with);
#define gw_nn_rnn(...) (GW_DRAWS, GW_FORM_3(gw_nn_rnn, gw_nn_recurrent_options, __VA_ARGS__))
GW_API GW_TYPE_OF(gw_nn_rnn) gw_nn_rnn_with;

/// The results of a call of an LSTM.
typedef struct gw_lstm_result {
    gw_tensor *output;
    gw_tensor *h, *c;  ///< the states after the last step
} gw_lstm_result;

/// The results of a call of a GRU or an RNN.
typedef struct gw_rnn_result {
    gw_tensor *output;
    gw_tensor *h;  ///< the state after the last step
} gw_rnn_result;

/// Options of gw_nn_gru_call and gw_nn_rnn_call.
typedef struct GW_BY_NAME gw_rnn_call_options {
    gw_tensor *h0 GW_DEFAULT(NULL);  ///< the first state; NULL: 0
    /// The lengths of the sequences, which are padded to T: N, i64, each from 1 to T, in any order. Elements of a
    /// sequence beyond its length are not read, and the output there is 0. The final state of a sequence is the state
    /// after its last step. The results are those of torch.nn.utils.rnn.pack_padded_sequence. NULL: all sequences have
    /// length T.
    gw_tensor *lengths GW_DEFAULT(NULL);
} gw_rnn_call_options;

/// Options of gw_nn_lstm_call.
typedef struct GW_BY_NAME gw_lstm_call_options {
    gw_tensor *h0 GW_DEFAULT(NULL), *c0 GW_DEFAULT(NULL);  ///< the first states; NULL: 0
    gw_tensor *lengths GW_DEFAULT(NULL);                   ///< as in gw_rnn_call_options
} gw_lstm_call_options;

/// Calls a module of gw_nn_lstm with states: gw_nn_lstm_call(s, m, x, .h0 = h, .c0 = c).
/// Returns: output and states. By value: x, h0, c0, lengths; the result is a list of output, h and c.
GW_API gw_lstm_result gw_nn_lstm_call(gw_scope *s, gw_module *m, gw_tensor *x,
                                      gw_lstm_call_options options GW_DEFAULT({}))
    GW_CALLS(gw_nn_lstm_call_with);
#define gw_nn_lstm_call(...) GW_FORM_3(gw_nn_lstm_call, gw_lstm_call_options, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_nn_lstm_call) gw_nn_lstm_call_with;

/// Calls a module of gw_nn_gru with a state: gw_nn_gru_call(s, m, x, .h0 = h).
/// Returns: output and state. By value: x, h0, lengths; the result is a list of output and h.
GW_API gw_rnn_result gw_nn_gru_call(gw_scope *s, gw_module *m, gw_tensor *x,
                                    gw_rnn_call_options options GW_DEFAULT({}))
    GW_CALLS(gw_nn_gru_call_with);
#define gw_nn_gru_call(...) GW_FORM_3(gw_nn_gru_call, gw_rnn_call_options, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_nn_gru_call) gw_nn_gru_call_with;

/// Calls a module of gw_nn_rnn with a state: gw_nn_rnn_call(s, m, x, .h0 = h).
/// Returns: output and state. By value: x, h0, lengths; the result is a list of output and h.
GW_API gw_rnn_result gw_nn_rnn_call(gw_scope *s, gw_module *m, gw_tensor *x,
                                    gw_rnn_call_options options GW_DEFAULT({}))
    GW_CALLS(gw_nn_rnn_call_with);
#define gw_nn_rnn_call(...) GW_FORM_3(gw_nn_rnn_call, gw_rnn_call_options, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_nn_rnn_call) gw_nn_rnn_call_with;

// ---- Modules of a program -----------------------------------------------------------------------

/// Computes the output of a module of gw_module_open for one tensor.
/// Returns: the output.
typedef gw_tensor *gw_module_forward(gw_scope *s, gw_module *m, gw_tensor *x);
/// Computes the output of a module of gw_module_open for any values. The functions of gradwire/args.h read and check
/// the values.
/// Returns: a tensor or a list.
typedef gw_value gw_module_forward_values(gw_scope *s, gw_module *m, const gw_args *a);

/// Makes a module with |forward|, a gw_module_forward or a gw_module_forward_values:
/// `gw_module *gw_module_open(gw_scope *s, const char *name, forward, void *state)`.
///
/// state: a pointer that gw_module_state returns; may be NULL. The caller keeps |state| valid as long as the module
/// lives.
/// Returns: a module without parts.
#define gw_module_open(s, name, forward, state) GW_MODULE_OPEN(s, name, forward, state)
/// Makes a module with a forward of one tensor.
/// Returns: a module without parts.
GW_API gw_module *gw_module_open_tensor(gw_scope *s, const char *name, gw_module_forward *forward,
                                        void *state);
/// Makes a module with a forward of values.
/// Returns: a module without parts.
GW_API gw_module *gw_module_open_values(gw_scope *s, const char *name,
                                        gw_module_forward_values *forward, void *state);
/// Returns the |state| that |m| was opened with.
GW_API void *gw_module_state(const gw_module *m);
/// Returns the name of |m|.
GW_API const char *gw_module_name(const gw_module *m);

/// Adds |child| to |m| as a part.
///
/// name: without '.'.
/// Errors: DUPLICATE if the name is taken; INVALID if |m| is inside |child|; LIMIT if modules are nested more than 128
/// deep.
/// Source: torch.nn.Module.register_module.
GW_API void gw_module_register_module(gw_scope *s, gw_module *m, const char *name,
                                      gw_module *child);

/// Adds |x| to |m| as a parameter. Afterwards |x| needs a gradient.
///
/// x: a leaf.
/// Errors: DUPLICATE if the name is taken; INVALID if |x| is a result of operators.
/// Source: torch.nn.Module.register_parameter.
GW_API void gw_module_register_parameter(gw_scope *s, gw_module *m, const char *name, gw_tensor *x);

/// Adds |x| to |m| as a buffer: state without gradient, such as a running mean.
/// Errors: DUPLICATE if the name is taken.
/// Source: torch.nn.Module.register_buffer.
GW_API void gw_module_register_buffer(gw_scope *s, gw_module *m, const char *name, gw_tensor *x);

// ---- Training and evaluation --------------------------------------------------------------------

/// Sets |m| and all its parts to training mode, the mode in which modules are made.
GW_API void gw_module_train(gw_scope *s, gw_module *m);
/// Sets |m| and all its parts to evaluation mode.
GW_API void gw_module_eval(gw_scope *s, gw_module *m);
/// Returns whether |m| is in training mode.
GW_API bool gw_module_is_training(const gw_module *m);

// ---- Parts --------------------------------------------------------------------------------------

/// Lists the parameters of several modules: gw_parameters(s, module, ...).
///
/// modules: in the short form they are separate arguments.
/// Returns: a list of parameters in the order of registration, each once; a module's own parameters precede those of
/// its parts. For a remote module, the list has references (gradwire/module_remote.h).
/// Source: torch.nn.Module.parameters.
GW_API gw_list *gw_parameters(gw_scope *s, gw_module *const *modules, int count)
    GW_CALLS(gw_parameters_with);
#define gw_parameters(s, ...) GW_PARAMETERS(s, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_parameters) gw_parameters_with;

/// Lists the parameters of |m| by name; a shared parameter is listed under all its names.
/// Returns: a map of the parameters.
GW_API gw_map *gw_module_named_parameters(gw_scope *s, gw_module *m);

/// Returns the number of parameters of |m| and its parts.
GW_API int gw_module_parameter_count(const gw_module *m);
/// Returns the name of parameter |index|, "affine1.weight". A call visits all parts of |m|, so a loop over all names
/// should use gw_module_named_parameters.
/// Errors: INVALID when out of range.
GW_API const char *gw_module_parameter_name(gw_scope *s, const gw_module *m, int index);
/// Returns parameter |index|, borrowed from |m|.
/// Errors: INVALID when out of range.
GW_API gw_tensor *gw_module_parameter_at(gw_scope *s, const gw_module *m, int index);
/// Returns the parameter |name|, borrowed from |m|.
/// Errors: NOT_FOUND.
GW_API gw_tensor *gw_module_parameter_get(gw_scope *s, const gw_module *m, const char *name);
/// Returns the parameter |name|, borrowed from |m|; NULL if there is none.
GW_API gw_tensor *gw_module_parameter_find(const gw_module *m, const char *name);

/// Returns the number of buffers of |m| and its parts.
GW_API int gw_module_buffer_count(const gw_module *m);
/// Returns the name of buffer |index|, "1.running_mean".
/// Errors: INVALID when out of range.
GW_API const char *gw_module_buffer_name(gw_scope *s, const gw_module *m, int index);
/// Returns buffer |index|, borrowed from |m|.
/// Errors: INVALID when out of range.
GW_API gw_tensor *gw_module_buffer_at(gw_scope *s, const gw_module *m, int index);
/// Returns the buffer |name|, borrowed from |m|.
/// Errors: NOT_FOUND.
GW_API gw_tensor *gw_module_buffer_get(gw_scope *s, const gw_module *m, const char *name);
/// Returns the buffer |name|, borrowed from |m|; NULL if there is none.
GW_API gw_tensor *gw_module_buffer_find(const gw_module *m, const char *name);

/// Returns the part |name| of |m|, borrowed from |m|. The name of a part of a part has a dot: "encoder.0".
/// Errors: NOT_FOUND.
GW_API gw_module *gw_module_child(gw_scope *s, const gw_module *m, const char *name);

// ---- Initial values -----------------------------------------------------------------------------
// The functions of torch.nn.init. Each function writes |x| in place and records nothing in the graph; |x| may be a
// parameter. Each function fails with INVALID if |x| is not floating. The sizes of |x| are: out in window.... Fan in is
// the number of inputs on which one output depends. Fan out is the number of outputs that depend on one input.
//
//     gw_init_kaiming_normal(s, gw_module_parameter_get(s, m, "weight"), 0, GW_FAN_OUT, GW_GAIN_RELU);

/// Draws uniform numbers from |low| to |high|.
/// Returns: |x|.
GW_API gw_tensor *gw_init_uniform(gw_scope *s, gw_tensor *x, double low, double high);
/// Draws normal numbers.
/// Returns: |x|.
GW_API gw_tensor *gw_init_normal(gw_scope *s, gw_tensor *x, double mean, double std);
/// Sets all elements to |value|.
/// Returns: |x|.
GW_API gw_tensor *gw_init_constant(gw_scope *s, gw_tensor *x, double value);
/// Sets all elements to 0.
/// Returns: |x|.
GW_API gw_tensor *gw_init_zeros(gw_scope *s, gw_tensor *x);
/// Sets all elements to 1.
/// Returns: |x|.
GW_API gw_tensor *gw_init_ones(gw_scope *s, gw_tensor *x);
/// Draws normal numbers. A number below |a| or above |b| is drawn again.
/// Returns: |x|.
GW_API gw_tensor *gw_init_trunc_normal(gw_scope *s, gw_tensor *x, double mean, double std, double a,
                                       double b);

/// A nonlinearity, for which gw_calculate_gain returns a gain.
typedef enum gw_nonlinearity {
    GW_GAIN_LEAKY_RELU = 0,
    GW_GAIN_RELU,
    GW_GAIN_TANH,
    GW_GAIN_SIGMOID,
    GW_GAIN_SELU,
    GW_GAIN_LINEAR  ///< also for convolutions
} gw_nonlinearity;

/// Returns the gain of |nonlinearity|: the factor by which initial weights are multiplied. |param| is the slope of a
/// leaky relu.
/// Source: torch.nn.init.calculate_gain.
GW_API double gw_calculate_gain(gw_nonlinearity nonlinearity, double param);

/// The fan that determines the size of the numbers.
typedef enum gw_fan_mode { GW_FAN_IN = 0, GW_FAN_OUT } gw_fan_mode;

/// Draws numbers uniform in +-gain sqrt(6 / (fan in + fan out)).
/// Returns: |x|.
/// Source: Glorot, Bengio 2010.
GW_API gw_tensor *gw_init_xavier_uniform(gw_scope *s, gw_tensor *x, double gain);
/// Draws normal numbers of deviation gain sqrt(2 / (fan in + fan out)).
/// Returns: |x|.
/// Source: Glorot, Bengio 2010.
GW_API gw_tensor *gw_init_xavier_normal(gw_scope *s, gw_tensor *x, double gain);
/// Draws numbers uniform in +-gain sqrt(3 / fan). The gain is gw_calculate_gain(nonlinearity, a).
/// Returns: |x|.
/// Source: He et al. 2015.
GW_API gw_tensor *gw_init_kaiming_uniform(gw_scope *s, gw_tensor *x, double a, gw_fan_mode mode,
                                          gw_nonlinearity nonlinearity);
/// Draws normal numbers of deviation gain / sqrt(fan). The gain is gw_calculate_gain(nonlinearity, a).
/// Returns: |x|.
/// Source: He et al. 2015.
GW_API gw_tensor *gw_init_kaiming_normal(gw_scope *s, gw_tensor *x, double a, gw_fan_mode mode,
                                         gw_nonlinearity nonlinearity);
/// Draws a matrix with orthogonal rows of length |gain|. If there are fewer columns than rows, the columns are
/// orthogonal and have length |gain|.
///
/// x: M N..., a matrix of M rows.
/// Returns: |x|.
/// Source: Saxe et al. 2013.
GW_API gw_tensor *gw_init_orthogonal(gw_scope *s, gw_tensor *x, double gain);
/// Sets the diagonal of a matrix to 1, the rest to 0.
/// Returns: |x|.
GW_API gw_tensor *gw_init_eye(gw_scope *s, gw_tensor *x);
/// Sets the weights of a convolution so that its output is its input: in each of |groups|, the weight from a channel to
/// the same channel in the middle of the window is 1. All other weights are 0.
///
/// x: O I K, or O I K K, or O I K K K.
/// Returns: |x|.
GW_API gw_tensor *gw_init_dirac(gw_scope *s, gw_tensor *x, int64_t groups);
/// Draws normal numbers of mean 0. In each column, a fraction |sparsity| of the numbers, rounded up, is set to 0.
///
/// x: a matrix.
/// Returns: |x|.
/// Source: Martens 2010.
GW_API gw_tensor *gw_init_sparse(gw_scope *s, gw_tensor *x, double sparsity, double std);

// ---- State --------------------------------------------------------------------------------------

/// Lists the parameters and buffers of |m| and its parts by name.
///
/// Returns: a map of tensors, which share memory with the tensors of the module (use gw_clone for a copy). For a remote
/// module, the map has copies.
/// Source: torch.nn.Module.state_dict.
GW_API gw_map *gw_module_state_dict(gw_scope *s, gw_module *m);

/// Options of gw_module_load_state_dict.
typedef struct GW_BY_NAME gw_module_load_state_dict_options {
    bool strict GW_DEFAULT(true);  ///< false: names may be missing or unknown
} gw_module_load_state_dict_options;

/// Copies the tensors of |state| into |m|.
///
/// state: a map with a tensor of the same shape and dtype for each name in |m|, and no other names.
/// Errors: INVALID, naming missing, unexpected or different entries; the module is then unchanged.
/// Source: torch.nn.Module.load_state_dict.
GW_API void gw_module_load_state_dict(gw_scope *s, gw_module *m, gw_map *state,
                                      gw_module_load_state_dict_options options GW_DEFAULT({}))
    GW_CALLS(gw_module_load_state_dict_with);
#define gw_module_load_state_dict(...)                                                             \
    GW_FORM_3(gw_module_load_state_dict, gw_module_load_state_dict_options, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_module_load_state_dict) gw_module_load_state_dict_with;

// ---- Hooks --------------------------------------------------------------------------------------
// Each call of |m| runs the hooks of |m| in the order of registration. In a call with several values, |x| is the first
// input and |y| is the first output. The call fails with INVALID if this value is no tensor. A hook may register and
// remove hooks of |m|. A removed hook is not called again. A new hook is first called in the next call of |m|.

/// Runs before the forward.
/// Returns: the input that replaces |x|; NULL keeps it.
typedef gw_tensor *gw_module_forward_pre_hook(gw_scope *s, gw_module *m, gw_tensor *x,
                                              void *context);
/// Runs after the forward.
/// Returns: the output that replaces |y|; NULL keeps it.
typedef gw_tensor *gw_module_forward_hook(gw_scope *s, gw_module *m, gw_tensor *x, gw_tensor *y,
                                          void *context);

/// Registers a hook that runs before the forward of |m|.
///
/// context: passed to the hook; the caller keeps it valid as long as the module lives.
/// Returns: the number by which the hook is removed.
/// Source: torch.nn.Module.register_forward_pre_hook.
GW_API int gw_module_register_forward_pre_hook(gw_scope *s, gw_module *m,
                                               gw_module_forward_pre_hook *hook, void *context);
/// Registers a hook that runs after the forward of |m|.
///
/// context: passed to the hook; the caller keeps it valid as long as the module lives.
/// Returns: the number by which the hook is removed.
/// Source: torch.nn.Module.register_forward_hook.
GW_API int gw_module_register_forward_hook(gw_scope *s, gw_module *m, gw_module_forward_hook *hook,
                                           void *context);
/// Removes a hook of |m| by its number.
/// Errors: NOT_FOUND.
GW_API void gw_module_remove_hook(gw_scope *s, gw_module *m, int hook);

// ---- Categorical distributions ------------------------------------------------------------------

/// A distribution over C classes; the struct is a plain value.
///
///     gw_categorical choice = gw_categorical_from_probs(s, p);        // p: N C, or C
///     gw_tensor *action = gw_categorical_sample(s, choice);         // N
///     gw_tensor *loss = gw_neg(s, gw_mul(s, gw_categorical_log_prob(s, choice, action), reward));
typedef struct gw_categorical {
    gw_tensor *probs;   ///< the probabilities as given; they need not sum to 1
    gw_tensor *logits;  ///< the logarithms of the probabilities
} gw_categorical;

/// Makes categorical distributions with the given probabilities.
///
/// probs: ... C, not negative, not all 0.
/// Returns: the distribution.
/// Source: torch.distributions.Categorical.
GW_API gw_categorical gw_categorical_from_probs(gw_scope *s, gw_tensor *probs);
/// Makes categorical distributions with the given unnormalised logarithms of probabilities.
///
/// logits: ... C.
/// Returns: the distribution.
/// Source: torch.distributions.Categorical.
GW_API gw_categorical gw_categorical_from_logits(gw_scope *s, gw_tensor *logits);
/// Draws one class from each distribution, by the generator of |s|.
/// Returns: the shape without C; i64.
GW_API gw_tensor *gw_categorical_sample(gw_scope *s, gw_categorical c);
/// Computes the logarithm of the probability of classes.
///
/// value: classes, i64, in the shape without C.
/// Returns: the shape of |value|.
/// Gradient: to the probabilities or logits.
GW_API gw_tensor *gw_categorical_log_prob(gw_scope *s, gw_categorical c, gw_tensor *value);
/// Computes the entropy of each distribution.
/// Returns: the shape without C.
/// Gradient: to the probabilities or logits.
GW_API gw_tensor *gw_categorical_entropy(gw_scope *s, gw_categorical c);

// ---- Normal distributions -----------------------------------------------------------------------

/// A normal distribution for each element; the struct is a plain value.
///
///     gw_normal noise = gw_normal_from(s, mean, std);               // which broadcast
///     gw_tensor *action = gw_normal_rsample(s, noise);
///     gw_tensor *logp = gw_normal_log_prob(s, noise, action);
typedef struct gw_normal {
    gw_tensor *loc, *scale;  ///< means and standard deviations
} gw_normal;

/// Makes normal distributions with the given means and standard deviations, which broadcast.
///
/// Returns: the distribution.
/// Errors: INVALID unless |loc| and |scale| are floating and every |scale| is above 0.
/// Source: torch.distributions.Normal.
GW_API gw_normal gw_normal_from(gw_scope *s, gw_tensor *loc, gw_tensor *scale);
/// Draws numbers from the generator of |s|, without history.
/// Returns: the shape to which loc and scale broadcast.
GW_API gw_tensor *gw_normal_sample(gw_scope *s, gw_normal n);
/// Draws numbers loc + scale noise.
/// Returns: the shape to which loc and scale broadcast.
/// Gradient: to loc and scale.
/// Source: Kingma, Welling 2014.
GW_API gw_tensor *gw_normal_rsample(gw_scope *s, gw_normal n);
/// Computes the logarithm of the density at |value|.
/// Returns: the shape to which loc, scale and |value| broadcast.
/// Gradient: to loc, scale and |value|.
GW_API gw_tensor *gw_normal_log_prob(gw_scope *s, gw_normal n, gw_tensor *value);
/// Computes the entropy of each distribution.
/// Returns: the shape to which loc and scale broadcast.
/// Gradient: to scale.
GW_API gw_tensor *gw_normal_entropy(gw_scope *s, gw_normal n);

#ifdef __cplusplus
}
#endif
#include <gradwire/detail/nn.h>
#endif
