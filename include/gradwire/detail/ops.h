// The machinery of gradwire/ops.h.
#ifndef GRADWIRE_DETAIL_OPS_H
#define GRADWIRE_DETAIL_OPS_H

#include <gradwire/ops.h>

#ifdef __cplusplus
template <class... Sizes>
gw_tensor *gw_shaped(gw_tensor *(*f)(gw_scope *, gw_tensor *, gw_shape), gw_scope *s, gw_tensor *x,
                     Sizes... sizes) {
    return f(s, x, gw_sizes_of(sizes...));
}
#define GW_SIZES(name, ...) gw_shaped(name##_with, __VA_ARGS__)
#else
#define GW_SIZES(name, ...) GW_SHAPED(name##_with, __VA_ARGS__, )
#define GW_SHAPED(f, s, x, ...) f((s), (x), GW_SHAPE(__VA_ARGS__))
#define gw_dims_options_defaults .dim = GW_NOT_GIVEN, .keepdim = false
#define gw_dim_options_defaults .dim = GW_NOT_GIVEN, .keepdim = false
#define gw_dropout_options_defaults .p = 0.5, .training = true
#define gw_sort_options_defaults .dim = -1, .descending = false
#define gw_topk_options_defaults .dim = -1, .largest = true
#define gw_multinomial_options_defaults .replacement = false
#define gw_recurrent_options_defaults .out_c = NULL
#define gw_loss_options_defaults .ignore_index = -100, .beta = 1.0
#define gw_embedding_options_defaults .padding_idx = GW_NOT_GIVEN
#define gw_allclose_options_defaults .rtol = 1e-5, .atol = 1e-8
#define gw_batch_norm_options_defaults .momentum = 0.1, .eps = 1e-5
#define gw_conv_options_defaults .stride = { 1, 1 }, .dilation = { 1, 1 }, .groups = 1
#define gw_pool_options_defaults                                                                   \
    .stride = { GW_NOT_GIVEN, GW_NOT_GIVEN }, .dilation = { 1, 1 }, .count_include_pad = true,     \
    .divisor_override = GW_NOT_GIVEN
#endif
#define gw_bernoulli(s, p) (GW_DRAWS, gw_bernoulli((s), (p)))
#define gw_random_(s, x, from, to) (GW_DRAWS, gw_random_((s), (x), (from), (to)))
#define gw_uniform_(s, x, from, to) (GW_DRAWS, gw_uniform_((s), (x), (from), (to)))
#define gw_normal_(s, x, mean, std) (GW_DRAWS, gw_normal_((s), (x), (mean), (std)))
#define gw_bernoulli_(s, x, p) (GW_DRAWS, gw_bernoulli_((s), (x), (p)))

#endif
