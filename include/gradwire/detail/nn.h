// The short forms of gradwire/nn.h.
#ifndef GRADWIRE_DETAIL_NN_H
#define GRADWIRE_DETAIL_NN_H

#include <gradwire/nn.h>

#ifdef __cplusplus
#include <initializer_list>

// A list in braces, which is evaluated from left to right.
inline gw_module *gw_nn_sequential_of(gw_scope *s, std::initializer_list<gw_module *> modules) {
    return gw_nn_sequential_with(s, modules.begin(), static_cast<int>(modules.size()));
}
#define gw_nn_sequential(s, ...) (GW_DRAWS, gw_nn_sequential_of((s), { __VA_ARGS__ }))
template <class... M> gw_list *gw_parameters(gw_scope *s, M... modules) {
    gw_module *const all[] = { modules... };
    return gw_parameters_with(s, all, static_cast<int>(sizeof...(M)));
}
#define GW_LAYER(name, options_name)                                                               \
    inline gw_module *gw_nn_##name(gw_scope *s, int64_t a, int64_t b,                              \
                                   gw_nn_##options_name##_options options = {}) {                  \
        return gw_nn_##name##_with(s, a, b, options);                                              \
    }
GW_LAYER(linear, linear)
GW_LAYER(embedding, embedding)
GW_LAYER(embedding_bag, embedding_bag)
GW_LAYER(lstm, recurrent)
GW_LAYER(gru, recurrent)
GW_LAYER(rnn, recurrent)
GW_LAYER(conv1d, conv)
GW_LAYER(conv2d, conv)
GW_LAYER(multihead_attention, attention)
GW_LAYER(transformer_encoder_layer, encoder_layer)
#undef GW_LAYER
#define GW_LAYER(name, options_type)                                                               \
    inline gw_module *gw_nn_##name(gw_scope *s, options_type options = {}) {                       \
        return gw_nn_##name##_with(s, options);                                                    \
    }
GW_LAYER(flatten, gw_nn_flatten_options)
GW_LAYER(max_pool1d, gw_pool_options)
GW_LAYER(max_pool2d, gw_pool_options)
GW_LAYER(avg_pool1d, gw_pool_options)
GW_LAYER(avg_pool2d, gw_pool_options)
#undef GW_LAYER
inline gw_module *gw_nn_batch_norm1d(gw_scope *s, int64_t features,
                                     gw_nn_batch_norm_options options = {}) {
    return gw_nn_batch_norm1d_with(s, features, options);
}
inline gw_module *gw_nn_batch_norm2d(gw_scope *s, int64_t features,
                                     gw_nn_batch_norm_options options = {}) {
    return gw_nn_batch_norm2d_with(s, features, options);
}
inline gw_module *gw_nn_layer_norm(gw_scope *s, int64_t features,
                                   gw_nn_layer_norm_options options = {}) {
    return gw_nn_layer_norm_with(s, gw_shape{ 1, &features }, options);
}
inline gw_attention_result gw_nn_multihead_attention_call(gw_scope *s, gw_module *m,
                                                          gw_tensor *query, gw_tensor *key,
                                                          gw_tensor *value,
                                                          gw_attention_options options = {}) {
    return gw_nn_multihead_attention_call_with(s, m, query, key, value, options);
}
#define GW_CALLED(name, options_name)                                                              \
    inline auto gw_nn_##name##_call(gw_scope *s, gw_module *m, gw_tensor *x,                       \
                                    options_name options = {}) {                                   \
        return gw_nn_##name##_call_with(s, m, x, options);                                         \
    }
GW_CALLED(embedding_bag, gw_embedding_bag_call_options)
GW_CALLED(lstm, gw_lstm_call_options)
GW_CALLED(gru, gw_rnn_call_options)
GW_CALLED(rnn, gw_rnn_call_options)
GW_CALLED(transformer_encoder_layer, gw_attention_options)
#undef GW_CALLED
inline gw_module *gw_module_open(gw_scope *s, const char *name, gw_module_forward *forward,
                                 void *state) {
    return gw_module_open_tensor(s, name, forward, state);
}
inline gw_module *gw_module_open(gw_scope *s, const char *name, gw_module_forward_values *forward,
                                 void *state) {
    return gw_module_open_values(s, name, forward, state);
}
template <class... Values> gw_value gw_module_call_value(gw_scope *s, gw_module *m, Values... in) {
    return gw_module_call_value_with(s, m, GW_ARGS(in...));
}
inline void gw_module_load_state_dict(gw_scope *s, gw_module *m, gw_map *state,
                                      gw_module_load_state_dict_options options = {}) {
    gw_module_load_state_dict_with(s, m, state, options);
}
#define gw_nn_linear(...) (GW_DRAWS, gw_nn_linear(__VA_ARGS__))
#define gw_nn_embedding(...) (GW_DRAWS, gw_nn_embedding(__VA_ARGS__))
#define gw_nn_embedding_bag(...) (GW_DRAWS, gw_nn_embedding_bag(__VA_ARGS__))
#define gw_nn_lstm(...) (GW_DRAWS, gw_nn_lstm(__VA_ARGS__))
#define gw_nn_gru(...) (GW_DRAWS, gw_nn_gru(__VA_ARGS__))
#define gw_nn_rnn(...) (GW_DRAWS, gw_nn_rnn(__VA_ARGS__))
#define gw_nn_conv1d(...) (GW_DRAWS, gw_nn_conv1d(__VA_ARGS__))
#define gw_nn_conv2d(...) (GW_DRAWS, gw_nn_conv2d(__VA_ARGS__))
#define gw_nn_multihead_attention(...) (GW_DRAWS, gw_nn_multihead_attention(__VA_ARGS__))
#define gw_nn_transformer_encoder_layer(...)                                                       \
    (GW_DRAWS, gw_nn_transformer_encoder_layer(__VA_ARGS__))
#else
#define GW_MODULES(...) ((gw_module *const[]){ __VA_ARGS__ })
#define GW_MODULES_COUNT(...) ((int)(sizeof GW_MODULES(__VA_ARGS__) / sizeof(gw_module *)))
// gcc and clang evaluate the elements of an array from left to right, though C does not say so.
#define gw_nn_sequential(s, ...)                                                                   \
    (GW_DRAWS, GW_FROM_LEFT(gw_nn_sequential_with((s), GW_MODULES(__VA_ARGS__),                    \
                                                  GW_MODULES_COUNT(__VA_ARGS__))))
#ifdef __clang__
#define GW_FROM_LEFT(...)                                                                          \
    __extension__({                                                                                \
        _Pragma("GCC diagnostic push") _Pragma("GCC diagnostic ignored \"-Wunsequenced\"")         \
            __VA_ARGS__;                                                                           \
        _Pragma("GCC diagnostic pop")                                                              \
    })
#else
#define GW_FROM_LEFT(...) __VA_ARGS__
#endif
#define gw_parameters(s, ...)                                                                      \
    gw_parameters_with((s), GW_MODULES(__VA_ARGS__), GW_MODULES_COUNT(__VA_ARGS__))
#define gw_nn_linear(...)                                                                          \
    (GW_DRAWS, GW_NAMED_3(gw_nn_linear_with, gw_nn_linear_options, __VA_ARGS__, ))
#define gw_nn_embedding(...)                                                                       \
    (GW_DRAWS, GW_NAMED_3(gw_nn_embedding_with, gw_nn_embedding_options, __VA_ARGS__, ))
#define gw_nn_embedding_bag(...)                                                                   \
    (GW_DRAWS, GW_NAMED_3(gw_nn_embedding_bag_with, gw_nn_embedding_bag_options, __VA_ARGS__, ))
#define gw_nn_lstm(...)                                                                            \
    (GW_DRAWS, GW_NAMED_3(gw_nn_lstm_with, gw_nn_recurrent_options, __VA_ARGS__, ))
#define gw_nn_gru(...)                                                                             \
    (GW_DRAWS, GW_NAMED_3(gw_nn_gru_with, gw_nn_recurrent_options, __VA_ARGS__, ))
#define gw_nn_rnn(...)                                                                             \
    (GW_DRAWS, GW_NAMED_3(gw_nn_rnn_with, gw_nn_recurrent_options, __VA_ARGS__, ))
#define gw_nn_conv1d(...)                                                                          \
    (GW_DRAWS, GW_NAMED_3(gw_nn_conv1d_with, gw_nn_conv_options, __VA_ARGS__, ))
#define gw_nn_conv2d(...)                                                                          \
    (GW_DRAWS, GW_NAMED_3(gw_nn_conv2d_with, gw_nn_conv_options, __VA_ARGS__, ))
#define gw_nn_multihead_attention(...)                                                             \
    (GW_DRAWS, GW_NAMED_3(gw_nn_multihead_attention_with, gw_nn_attention_options, __VA_ARGS__, ))
#define gw_nn_transformer_encoder_layer(...)                                                       \
    (GW_DRAWS,                                                                                     \
     GW_NAMED_3(gw_nn_transformer_encoder_layer_with, gw_nn_encoder_layer_options, __VA_ARGS__, ))
#define gw_nn_batch_norm1d(...)                                                                    \
    GW_NAMED_2(gw_nn_batch_norm1d_with, gw_nn_batch_norm_options, __VA_ARGS__, )
#define gw_nn_batch_norm2d(...)                                                                    \
    GW_NAMED_2(gw_nn_batch_norm2d_with, gw_nn_batch_norm_options, __VA_ARGS__, )
#define gw_nn_flatten(...) GW_NAMED_1(gw_nn_flatten_with, gw_nn_flatten_options, __VA_ARGS__, )
#define gw_nn_max_pool1d(...) GW_NAMED_1(gw_nn_max_pool1d_with, gw_pool_options, __VA_ARGS__, )
#define gw_nn_max_pool2d(...) GW_NAMED_1(gw_nn_max_pool2d_with, gw_pool_options, __VA_ARGS__, )
#define gw_nn_avg_pool1d(...) GW_NAMED_1(gw_nn_avg_pool1d_with, gw_pool_options, __VA_ARGS__, )
#define gw_nn_avg_pool2d(...) GW_NAMED_1(gw_nn_avg_pool2d_with, gw_pool_options, __VA_ARGS__, )
#define gw_nn_layer_norm(...) GW_NN_LAYER_NORM(__VA_ARGS__, )
#define GW_NN_LAYER_NORM(s, features, ...)                                                         \
    GW_QUIET(gw_nn_layer_norm_with(                                                                \
        (s), GW_SHAPE(features),                                                                   \
        (gw_nn_layer_norm_options){ gw_nn_layer_norm_options_defaults, __VA_ARGS__ }))
#define gw_nn_multihead_attention_call(...)                                                        \
    GW_NAMED_5(gw_nn_multihead_attention_call_with, gw_attention_options, __VA_ARGS__, )
#define gw_nn_transformer_encoder_layer_call(...)                                                  \
    GW_NAMED_3(gw_nn_transformer_encoder_layer_call_with, gw_attention_options, __VA_ARGS__, )
#define gw_nn_embedding_bag_call(...)                                                              \
    GW_NAMED_3(gw_nn_embedding_bag_call_with, gw_embedding_bag_call_options, __VA_ARGS__, )
#define gw_nn_lstm_call(...) GW_NAMED_3(gw_nn_lstm_call_with, gw_lstm_call_options, __VA_ARGS__, )
#define gw_nn_gru_call(...) GW_NAMED_3(gw_nn_gru_call_with, gw_rnn_call_options, __VA_ARGS__, )
#define gw_nn_rnn_call(...) GW_NAMED_3(gw_nn_rnn_call_with, gw_rnn_call_options, __VA_ARGS__, )
#define gw_module_open(s, name, forward, state)                                                    \
    _Generic((forward), gw_module_forward *                                                        \
             : gw_module_open_tensor, gw_module_forward_values *                                   \
             : gw_module_open_values)((s), (name), (forward), (state))
#define gw_module_call_value(s, ...) GW_MODULE_VALUES(gw_module_call_value_with, s, __VA_ARGS__, )
#define GW_MODULE_VALUES(f, s, m, ...) f((s), (m), GW_VALUES(__VA_ARGS__))
#define gw_module_load_state_dict(...)                                                             \
    GW_NAMED_3(gw_module_load_state_dict_with, gw_module_load_state_dict_options, __VA_ARGS__, )

#define gw_nn_linear_options_defaults .bias = true, .dtype = GW_F32
#define gw_nn_flatten_options_defaults .start_dim = 1, .end_dim = -1
#define gw_nn_layer_norm_options_defaults                                                          \
    .eps = 1e-5, .elementwise_affine = true, .bias = true, .dtype = GW_F32
#define gw_nn_batch_norm_options_defaults                                                          \
    .momentum = 0.1, .eps = 1e-5, .affine = true, .track_running_stats = true, .dtype = GW_F32
#define gw_nn_conv_options_defaults                                                                \
    .stride = { 1, 1 }, .dilation = { 1, 1 }, .groups = 1, .bias = true, .dtype = GW_F32
#define gw_nn_attention_options_defaults                                                           \
    .bias = true, .kdim = GW_NOT_GIVEN, .vdim = GW_NOT_GIVEN, .dtype = GW_F32
#define gw_attention_options_defaults .need_weights = true, .average_attn_weights = true
#define gw_nn_encoder_layer_options_defaults                                                       \
    .feedforward = 2048, .dropout = 0.1, .layer_norm_eps = 1e-5, .dtype = GW_F32
#define gw_nn_embedding_options_defaults                                                           \
    .padding_idx = GW_NOT_GIVEN, .norm_type = 2, .dtype = GW_F32
#define gw_nn_embedding_bag_options_defaults .padding_idx = GW_NOT_GIVEN, .dtype = GW_F32
#define gw_nn_recurrent_options_defaults .layers = 1, .bias = true, .dtype = GW_F32
#define gw_embedding_bag_call_options_defaults .per_sample_weights = NULL
#define gw_lstm_call_options_defaults .lengths = NULL
#define gw_rnn_call_options_defaults .lengths = NULL
#define gw_module_load_state_dict_options_defaults .strict = true
#endif
#define gw_init_uniform(s, x, low, high) (GW_DRAWS, gw_init_uniform((s), (x), (low), (high)))
#define gw_init_normal(s, x, mean, std) (GW_DRAWS, gw_init_normal((s), (x), (mean), (std)))
#define gw_init_trunc_normal(s, x, mean, std, a, b)                                                \
    (GW_DRAWS, gw_init_trunc_normal((s), (x), (mean), (std), (a), (b)))
#define gw_init_xavier_uniform(s, x, gain) (GW_DRAWS, gw_init_xavier_uniform((s), (x), (gain)))
#define gw_init_xavier_normal(s, x, gain) (GW_DRAWS, gw_init_xavier_normal((s), (x), (gain)))
#define gw_init_kaiming_uniform(s, x, a, mode, nonlinearity)                                       \
    (GW_DRAWS, gw_init_kaiming_uniform((s), (x), (a), (mode), (nonlinearity)))
#define gw_init_kaiming_normal(s, x, a, mode, nonlinearity)                                        \
    (GW_DRAWS, gw_init_kaiming_normal((s), (x), (a), (mode), (nonlinearity)))
#define gw_init_orthogonal(s, x, gain) (GW_DRAWS, gw_init_orthogonal((s), (x), (gain)))
#define gw_init_sparse(s, x, sparsity, std) (GW_DRAWS, gw_init_sparse((s), (x), (sparsity), (std)))
#define gw_categorical_sample(s, c) (GW_DRAWS, gw_categorical_sample((s), (c)))
#define gw_normal_sample(s, n) (GW_DRAWS, gw_normal_sample((s), (n)))
#define gw_normal_rsample(s, n) (GW_DRAWS, gw_normal_rsample((s), (n)))

#endif
