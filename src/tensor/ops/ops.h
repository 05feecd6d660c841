// The rows of the table, by the file that holds them.
#ifndef TENSOR_OPS_OPS_H
#define TENSOR_OPS_OPS_H

#include "tensor/ops/op.h"

// op_create.c, op_randint.c
extern const op op_zeros, op_ones, op_full, op_arange, op_rand, op_randn;
extern const op op_randint, op_randperm;

// op_view.c, op_permute.c, op_slice.c, op_split.c, op_copy.c, op_join.c
extern const op op_reshape, op_view, op_expand, op_permute, op_transpose, op_squeeze, op_unsqueeze;
extern const op op_slice, op_select;
extern const op op_split, op_split_with_sizes, op_chunk;
extern const op op_contiguous, op_clone, op_to_dtype, op_cat, op_stack;

// op_binary.c, op_remainder.c, op_choose.c, op_masked_fill.c
extern const op op_add, op_sub, op_mul, op_div, op_pow, op_maximum, op_minimum, op_remainder;
extern const op op_eq, op_ne, op_lt, op_le, op_gt, op_ge, op_where, op_masked_fill;

// op_logic.c
extern const op op_logical_and, op_logical_or, op_logical_xor, op_logical_not;
extern const op op_isfinite, op_isnan, op_isinf;
extern const op op_bitwise_and, op_bitwise_or, op_bitwise_xor, op_bitwise_not;

// op_unary.c, op_round.c
extern const op op_neg, op_abs, op_exp, op_log, op_sqrt, op_rsqrt, op_tanh, op_sigmoid;
extern const op op_relu, op_leaky_relu, op_gelu, op_silu, op_clamp;
extern const op op_sin, op_cos, op_floor, op_ceil, op_round, op_trunc;

// op_matmul.c
extern const op op_matmul, op_linear;

// op_reduce.c, op_extreme.c, op_prod.c, op_logsumexp.c, op_vector_norm.c, op_any.c, op_cumsum.c
extern const op op_sum, op_mean, op_var, op_std;
extern const op op_max, op_min, op_argmax, op_argmin;
extern const op op_amax, op_amin, op_prod, op_logsumexp, op_norm, op_any, op_all;
extern const op op_cumsum;

// op_softmax.c, op_loss_class.c, op_cross_entropy.c, op_loss.c, op_kl_div.c
extern const op op_softmax, op_log_softmax;
extern const op op_nll, op_cross_entropy;
extern const op op_mse, op_bce_with_logits, op_smooth_l1, op_l1, op_kl_div;

// op_dropout.c, op_embedding.c, op_norm.c
extern const op op_dropout, op_embedding, op_one_hot, op_layer_norm;

// op_batch_norm.c, op_conv.c, op_max_pool.c, op_avg_pool.c
extern const op op_batch_norm;
extern const op op_conv1d, op_conv2d;
extern const op op_max_pool1d, op_max_pool2d, op_avg_pool1d, op_avg_pool2d;
extern const op op_adaptive_avg_pool1d, op_adaptive_avg_pool2d;

// op_lstm.c, op_gru.c, op_rnn.c
extern const op op_lstm, op_gru, op_rnn;

// op_pick.c, op_scatter.c, op_sort.c, op_triangle.c, op_random.c, op_compare.c
extern const op op_gather, op_scatter, op_scatter_add, op_index_select;
extern const op op_sort, op_topk;
extern const op op_tril, op_triu, op_nonzero;
extern const op op_multinomial, op_bernoulli;
extern const op op_equal, op_allclose;

// Not in the table: only derivatives use them, on whatever device has kernels of them.
extern const op op_sum_to;  // unbroadcast.c
extern const op op_slope;   // op_unary.c

#endif
