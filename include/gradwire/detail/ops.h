// The short forms of gradwire/ops.h.
#ifndef GRADWIRE_DETAIL_OPS_H
#define GRADWIRE_DETAIL_OPS_H

#include <gradwire/ops.h>

#ifdef __cplusplus
#define GW_BINARY(name)                                                                            \
    template <class Left, class Right> gw_tensor *gw_##name(gw_scope *s, Left a, Right b) {        \
        return gw_##name##_with(s, gw_value_of(a), gw_value_of(b));                                \
    }
GW_BINARY(add)
GW_BINARY(sub)
GW_BINARY(mul)
GW_BINARY(div)
GW_BINARY(pow)
GW_BINARY(maximum)
GW_BINARY(minimum)
GW_BINARY(eq)
GW_BINARY(ne)
GW_BINARY(lt)
GW_BINARY(le)
GW_BINARY(gt)
GW_BINARY(ge)
GW_BINARY(remainder)
GW_BINARY(logical_and)
GW_BINARY(logical_or)
GW_BINARY(logical_xor)
GW_BINARY(bitwise_and)
GW_BINARY(bitwise_or)
GW_BINARY(bitwise_xor)
#undef GW_BINARY
#define GW_IN_PLACE(name)                                                                          \
    template <class Value> gw_tensor *gw_##name##_(gw_scope *s, gw_tensor *x, Value value) {       \
        return gw_##name##_with_(s, x, gw_value_of(value));                                        \
    }
GW_IN_PLACE(add)
GW_IN_PLACE(sub)
GW_IN_PLACE(mul)
GW_IN_PLACE(div)
GW_IN_PLACE(fill)
#undef GW_IN_PLACE
template <class Value>
gw_tensor *gw_masked_fill(gw_scope *s, gw_tensor *x, gw_tensor *mask, Value value) {
    return gw_masked_fill_with(s, x, mask, gw_value_of(value));
}
template <class Left, class Right>
gw_tensor *gw_where(gw_scope *s, gw_tensor *condition, Left a, Right b) {
    return gw_where_with(s, condition, gw_value_of(a), gw_value_of(b));
}
template <class Source>
gw_tensor *gw_scatter(gw_scope *s, gw_tensor *x, int dim, gw_tensor *index, Source source) {
    return gw_scatter_with(s, x, dim, index, gw_value_of(source));
}
#define GW_SHAPED(name)                                                                            \
    template <class... Sizes> gw_tensor *gw_##name(gw_scope *s, gw_tensor *x, Sizes... sizes) {    \
        const int64_t a[] = { static_cast<int64_t>(sizes)..., 0 };                                 \
        return GW_SHAPED_##name(s, x, gw_shape{ static_cast<int>(sizeof...(Sizes)), a });          \
    }
#define GW_SHAPED_reshape gw_reshape_with
#define GW_SHAPED_view gw_view_with
#define GW_SHAPED_expand gw_expand_with
#define GW_SHAPED_permute gw_permute_with
GW_SHAPED(reshape)
GW_SHAPED(view)
GW_SHAPED(expand)
GW_SHAPED(permute)
#undef GW_SHAPED
#define GW_LOSS(name)                                                                              \
    inline gw_tensor *gw_##name(gw_scope *s, gw_tensor *x, gw_tensor *target,                      \
                                gw_loss_options options = {}) {                                    \
        return gw_##name##_with(s, x, target, options);                                            \
    }
GW_LOSS(nll)
GW_LOSS(cross_entropy)
GW_LOSS(mse)
GW_LOSS(bce_with_logits)
GW_LOSS(smooth_l1)
GW_LOSS(l1)
GW_LOSS(kl_div)
#undef GW_LOSS
#define GW_REDUCTION(name, type)                                                                   \
    inline gw_tensor *gw_##name(gw_scope *s, gw_tensor *x, type options = {}) {                    \
        return gw_##name##_with(s, x, options);                                                    \
    }
GW_REDUCTION(sum, gw_dims_options)
GW_REDUCTION(mean, gw_dims_options)
GW_REDUCTION(var, gw_dims_options)
GW_REDUCTION(std, gw_dims_options)
GW_REDUCTION(amax, gw_dims_options)
GW_REDUCTION(amin, gw_dims_options)
GW_REDUCTION(prod, gw_dims_options)
GW_REDUCTION(logsumexp, gw_dims_options)
GW_REDUCTION(any, gw_dims_options)
GW_REDUCTION(all, gw_dims_options)
GW_REDUCTION(max, gw_dim_options)
GW_REDUCTION(min, gw_dim_options)
GW_REDUCTION(argmax, gw_dim_options)
GW_REDUCTION(argmin, gw_dim_options)
GW_REDUCTION(dropout, gw_dropout_options)
#undef GW_REDUCTION
inline gw_tensor *gw_norm(gw_scope *s, gw_tensor *x, double p, gw_dims_options options = {}) {
    return gw_norm_with(s, x, p, options);
}
inline gw_sorted gw_sort(gw_scope *s, gw_tensor *x, gw_sort_options options = {}) {
    return gw_sort_with(s, x, options);
}
inline gw_sorted gw_topk(gw_scope *s, gw_tensor *x, int64_t k, gw_topk_options options = {}) {
    return gw_topk_with(s, x, k, options);
}
inline gw_tensor *gw_multinomial(gw_scope *s, gw_tensor *p, int64_t samples,
                                 gw_multinomial_options options = {}) {
    return gw_multinomial_with(s, p, samples, options);
}
inline gw_tensor *gw_lstm(gw_scope *s, gw_tensor *x, gw_tensor *h0, gw_tensor *c0,
                          gw_recurrent_weights w, gw_recurrent_options options = {}) {
    return gw_lstm_with(s, x, h0, c0, w, options);
}
inline gw_tensor *gw_gru(gw_scope *s, gw_tensor *x, gw_tensor *h0, gw_recurrent_weights w,
                         gw_recurrent_options options = {}) {
    return gw_gru_with(s, x, h0, w, options);
}
inline gw_tensor *gw_rnn(gw_scope *s, gw_tensor *x, gw_tensor *h0, gw_recurrent_weights w,
                         gw_recurrent_options options = {}) {
    return gw_rnn_with(s, x, h0, w, options);
}
inline gw_tensor *gw_embedding(gw_scope *s, gw_tensor *weight, gw_tensor *indices,
                               gw_embedding_options options = {}) {
    return gw_embedding_with(s, weight, indices, options);
}
inline bool gw_allclose(gw_scope *s, gw_tensor *a, gw_tensor *b, gw_allclose_options options = {}) {
    return gw_allclose_with(s, a, b, options);
}
inline gw_tensor *gw_batch_norm(gw_scope *s, gw_tensor *x, gw_tensor *weight, gw_tensor *bias,
                                gw_batch_norm_options options = {}) {
    return gw_batch_norm_with(s, x, weight, bias, options);
}
#define GW_CONV(name)                                                                              \
    inline gw_tensor *gw_##name(gw_scope *s, gw_tensor *x, gw_tensor *weight, gw_tensor *bias,     \
                                gw_conv_options options = {}) {                                    \
        return gw_##name##_with(s, x, weight, bias, options);                                      \
    }
GW_CONV(conv1d)
GW_CONV(conv2d)
#undef GW_CONV
#define GW_POOL_FORM(name)                                                                         \
    inline gw_tensor *gw_##name(gw_scope *s, gw_tensor *x, gw_pool_options options) {              \
        return gw_##name##_with(s, x, options);                                                    \
    }
GW_POOL_FORM(max_pool1d)
GW_POOL_FORM(max_pool2d)
GW_POOL_FORM(avg_pool1d)
GW_POOL_FORM(avg_pool2d)
#undef GW_POOL_FORM
#define gw_dropout(...) (GW_DRAWS, gw_dropout(__VA_ARGS__))
#define gw_multinomial(...) (GW_DRAWS, gw_multinomial(__VA_ARGS__))
#else
#define gw_add(s, a, b) gw_add_with((s), gw_value_of(a), gw_value_of(b))
#define gw_sub(s, a, b) gw_sub_with((s), gw_value_of(a), gw_value_of(b))
#define gw_mul(s, a, b) gw_mul_with((s), gw_value_of(a), gw_value_of(b))
#define gw_div(s, a, b) gw_div_with((s), gw_value_of(a), gw_value_of(b))
#define gw_pow(s, a, b) gw_pow_with((s), gw_value_of(a), gw_value_of(b))
#define gw_maximum(s, a, b) gw_maximum_with((s), gw_value_of(a), gw_value_of(b))
#define gw_minimum(s, a, b) gw_minimum_with((s), gw_value_of(a), gw_value_of(b))
#define gw_eq(s, a, b) gw_eq_with((s), gw_value_of(a), gw_value_of(b))
#define gw_ne(s, a, b) gw_ne_with((s), gw_value_of(a), gw_value_of(b))
#define gw_lt(s, a, b) gw_lt_with((s), gw_value_of(a), gw_value_of(b))
#define gw_le(s, a, b) gw_le_with((s), gw_value_of(a), gw_value_of(b))
#define gw_gt(s, a, b) gw_gt_with((s), gw_value_of(a), gw_value_of(b))
#define gw_ge(s, a, b) gw_ge_with((s), gw_value_of(a), gw_value_of(b))
#define gw_remainder(s, a, b) gw_remainder_with((s), gw_value_of(a), gw_value_of(b))
#define gw_logical_and(s, a, b) gw_logical_and_with((s), gw_value_of(a), gw_value_of(b))
#define gw_logical_or(s, a, b) gw_logical_or_with((s), gw_value_of(a), gw_value_of(b))
#define gw_logical_xor(s, a, b) gw_logical_xor_with((s), gw_value_of(a), gw_value_of(b))
#define gw_bitwise_and(s, a, b) gw_bitwise_and_with((s), gw_value_of(a), gw_value_of(b))
#define gw_bitwise_or(s, a, b) gw_bitwise_or_with((s), gw_value_of(a), gw_value_of(b))
#define gw_bitwise_xor(s, a, b) gw_bitwise_xor_with((s), gw_value_of(a), gw_value_of(b))
#define gw_masked_fill(s, x, mask, value) gw_masked_fill_with((s), (x), (mask), gw_value_of(value))
#define gw_add_(s, x, other) gw_add_with_((s), (x), gw_value_of(other))
#define gw_sub_(s, x, other) gw_sub_with_((s), (x), gw_value_of(other))
#define gw_mul_(s, x, other) gw_mul_with_((s), (x), gw_value_of(other))
#define gw_div_(s, x, other) gw_div_with_((s), (x), gw_value_of(other))
#define gw_fill_(s, x, value) gw_fill_with_((s), (x), gw_value_of(value))
#define gw_where(s, condition, a, b) gw_where_with((s), (condition), gw_value_of(a), gw_value_of(b))
#define gw_scatter(s, x, dim, index, source)                                                       \
    gw_scatter_with((s), (x), (dim), (index), gw_value_of(source))
#define GW_SHAPED(f, s, x, ...) f((s), (x), GW_SHAPE(__VA_ARGS__))
#define gw_reshape(...) GW_SHAPED(gw_reshape_with, __VA_ARGS__, )
#define gw_view(...) GW_SHAPED(gw_view_with, __VA_ARGS__, )
#define gw_expand(...) GW_SHAPED(gw_expand_with, __VA_ARGS__, )
#define gw_permute(...) GW_SHAPED(gw_permute_with, __VA_ARGS__, )
#define gw_sum(...) GW_NAMED_2(gw_sum_with, gw_dims_options, __VA_ARGS__, )
#define gw_mean(...) GW_NAMED_2(gw_mean_with, gw_dims_options, __VA_ARGS__, )
#define gw_var(...) GW_NAMED_2(gw_var_with, gw_dims_options, __VA_ARGS__, )
#define gw_std(...) GW_NAMED_2(gw_std_with, gw_dims_options, __VA_ARGS__, )
#define gw_amax(...) GW_NAMED_2(gw_amax_with, gw_dims_options, __VA_ARGS__, )
#define gw_amin(...) GW_NAMED_2(gw_amin_with, gw_dims_options, __VA_ARGS__, )
#define gw_prod(...) GW_NAMED_2(gw_prod_with, gw_dims_options, __VA_ARGS__, )
#define gw_logsumexp(...) GW_NAMED_2(gw_logsumexp_with, gw_dims_options, __VA_ARGS__, )
#define gw_any(...) GW_NAMED_2(gw_any_with, gw_dims_options, __VA_ARGS__, )
#define gw_all(...) GW_NAMED_2(gw_all_with, gw_dims_options, __VA_ARGS__, )
#define gw_max(...) GW_NAMED_2(gw_max_with, gw_dim_options, __VA_ARGS__, )
#define gw_min(...) GW_NAMED_2(gw_min_with, gw_dim_options, __VA_ARGS__, )
#define gw_argmax(...) GW_NAMED_2(gw_argmax_with, gw_dim_options, __VA_ARGS__, )
#define gw_argmin(...) GW_NAMED_2(gw_argmin_with, gw_dim_options, __VA_ARGS__, )
#define gw_norm(...) GW_NAMED_3(gw_norm_with, gw_dims_options, __VA_ARGS__, )
#define gw_dropout(...) (GW_DRAWS, GW_NAMED_2(gw_dropout_with, gw_dropout_options, __VA_ARGS__, ))
#define gw_sort(...) GW_NAMED_2(gw_sort_with, gw_sort_options, __VA_ARGS__, )
#define gw_topk(...) GW_NAMED_3(gw_topk_with, gw_topk_options, __VA_ARGS__, )
#define gw_multinomial(...)                                                                        \
    (GW_DRAWS, GW_NAMED_3(gw_multinomial_with, gw_multinomial_options, __VA_ARGS__, ))
#define gw_lstm(...) GW_NAMED_5(gw_lstm_with, gw_recurrent_options, __VA_ARGS__, )
#define gw_gru(...) GW_NAMED_4(gw_gru_with, gw_recurrent_options, __VA_ARGS__, )
#define gw_rnn(...) GW_NAMED_4(gw_rnn_with, gw_recurrent_options, __VA_ARGS__, )
#define gw_dims_options_defaults .dim = GW_NOT_GIVEN, .keepdim = false
#define gw_dim_options_defaults .dim = GW_NOT_GIVEN, .keepdim = false
#define gw_dropout_options_defaults .p = 0.5, .training = true
#define gw_sort_options_defaults .dim = -1, .descending = false
#define gw_topk_options_defaults .dim = -1, .largest = true
#define gw_multinomial_options_defaults .replacement = false
#define gw_recurrent_options_defaults .out_c = NULL
#define gw_nll(...) GW_NAMED_3(gw_nll_with, gw_loss_options, __VA_ARGS__, )
#define gw_cross_entropy(...) GW_NAMED_3(gw_cross_entropy_with, gw_loss_options, __VA_ARGS__, )
#define gw_mse(...) GW_NAMED_3(gw_mse_with, gw_loss_options, __VA_ARGS__, )
#define gw_bce_with_logits(...) GW_NAMED_3(gw_bce_with_logits_with, gw_loss_options, __VA_ARGS__, )
#define gw_smooth_l1(...) GW_NAMED_3(gw_smooth_l1_with, gw_loss_options, __VA_ARGS__, )
#define gw_l1(...) GW_NAMED_3(gw_l1_with, gw_loss_options, __VA_ARGS__, )
#define gw_kl_div(...) GW_NAMED_3(gw_kl_div_with, gw_loss_options, __VA_ARGS__, )
#define gw_embedding(...) GW_NAMED_3(gw_embedding_with, gw_embedding_options, __VA_ARGS__, )
#define gw_allclose(...) GW_NAMED_3(gw_allclose_with, gw_allclose_options, __VA_ARGS__, )
#define gw_batch_norm(...) GW_NAMED_4(gw_batch_norm_with, gw_batch_norm_options, __VA_ARGS__, )
#define gw_conv1d(...) GW_NAMED_4(gw_conv1d_with, gw_conv_options, __VA_ARGS__, )
#define gw_conv2d(...) GW_NAMED_4(gw_conv2d_with, gw_conv_options, __VA_ARGS__, )
#define gw_max_pool1d(...) GW_NAMED_2(gw_max_pool1d_with, gw_pool_options, __VA_ARGS__, )
#define gw_max_pool2d(...) GW_NAMED_2(gw_max_pool2d_with, gw_pool_options, __VA_ARGS__, )
#define gw_avg_pool1d(...) GW_NAMED_2(gw_avg_pool1d_with, gw_pool_options, __VA_ARGS__, )
#define gw_avg_pool2d(...) GW_NAMED_2(gw_avg_pool2d_with, gw_pool_options, __VA_ARGS__, )
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
