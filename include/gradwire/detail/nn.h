// The machinery of gradwire/nn.h.
#ifndef GRADWIRE_DETAIL_NN_H
#define GRADWIRE_DETAIL_NN_H

#include <gradwire/nn.h>

#ifdef __cplusplus
#include <initializer_list>

// |modules| is a list in braces, which C++ evaluates from left to right.
inline gw_module *gw_sequential_of(gw_scope *s, std::initializer_list<gw_module *> modules) {
    return gw_nn_sequential_with(s, modules.begin(), static_cast<int>(modules.size()));
}
#define GW_SEQUENTIAL(s, ...) (GW_DRAWS, gw_sequential_of((s), { __VA_ARGS__ }))
template <class... M> gw_list *gw_parameters_of(gw_scope *s, M... modules) {
    gw_module *const all[] = { modules... };
    return gw_parameters_with(s, all, static_cast<int>(sizeof...(M)));
}
#define GW_PARAMETERS(s, ...) gw_parameters_of((s), __VA_ARGS__)
inline gw_module *gw_layer_norm_of(gw_scope *s, int64_t features,
                                   gw_nn_layer_norm_options options = {}) {
    return gw_nn_layer_norm_with(s, gw_shape{ 1, &features }, options);
}
#define GW_LAYER_NORM(...) gw_layer_norm_of(__VA_ARGS__)
inline gw_module *gw_module_open_of(gw_scope *s, const char *name, gw_module_forward *forward,
                                    void *state) {
    return gw_module_open_tensor(s, name, forward, state);
}
inline gw_module *gw_module_open_of(gw_scope *s, const char *name,
                                    gw_module_forward_values *forward, void *state) {
    return gw_module_open_values(s, name, forward, state);
}
#define GW_MODULE_OPEN(s, name, forward, state) gw_module_open_of((s), (name), (forward), (state))
template <class Result, class... Values>
Result gw_module_values(Result (*f)(gw_scope *, gw_module *, gw_values), gw_scope *s, gw_module *m,
                        Values... in) {
    return f(s, m, gw_args_from(in...));
}
#define GW_MODULE_VALUES(name, s, ...) gw_module_values(name##_with, (s), __VA_ARGS__)
#else
#define GW_MODULES(...) ((gw_module *const[]){ __VA_ARGS__ })
#define GW_MODULES_COUNT(...) ((int)(sizeof GW_MODULES(__VA_ARGS__) / sizeof(gw_module *)))
// gcc and clang evaluate the elements of an array from left to right, though C does not define the order.
#define GW_SEQUENTIAL(s, ...)                                                                      \
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
#define GW_PARAMETERS(s, ...)                                                                      \
    gw_parameters_with((s), GW_MODULES(__VA_ARGS__), GW_MODULES_COUNT(__VA_ARGS__))
#define GW_LAYER_NORM(...) GW_LAYER_NORM_OF(__VA_ARGS__, )
#define GW_LAYER_NORM_OF(s, features, ...)                                                         \
    GW_QUIET(gw_nn_layer_norm_with(                                                                \
        (s), GW_SHAPE(features),                                                                   \
        (gw_nn_layer_norm_options){ gw_nn_layer_norm_options_defaults, __VA_ARGS__ }))
#define GW_MODULE_OPEN(s, name, forward, state)                                                    \
    _Generic((forward), gw_module_forward *                                                        \
             : gw_module_open_tensor, gw_module_forward_values *                                   \
             : gw_module_open_values)((s), (name), (forward), (state))
#define GW_MODULE_VALUES(name, s, ...) GW_MODULE_VALUES_OF(name##_with, s, __VA_ARGS__, )
#define GW_MODULE_VALUES_OF(f, s, m, ...) f((s), (m), GW_VALUES(__VA_ARGS__))

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
