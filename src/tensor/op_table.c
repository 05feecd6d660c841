#include "tensor/ops.h"

#include <string.h>

const op *const op_table[] = {
    // Making.
    &op_zeros,
    &op_ones,
    &op_full,
    &op_arange,
    &op_rand,
    &op_randn,
    // Views and shapes.
    &op_reshape,
    &op_view,
    &op_expand,
    &op_permute,
    &op_transpose,
    &op_slice,
    &op_select,
    &op_squeeze,
    &op_unsqueeze,
    &op_contiguous,
    &op_clone,
    &op_to_dtype,
    &op_cat,
    &op_stack,
    // Arithmetic.
    &op_add,
    &op_sub,
    &op_mul,
    &op_div,
    &op_pow,
    &op_maximum,
    &op_minimum,
    &op_eq,
    &op_ne,
    &op_lt,
    &op_le,
    &op_gt,
    &op_ge,
    &op_where,
    // One number at a time.
    &op_neg,
    &op_abs,
    &op_exp,
    &op_log,
    &op_sqrt,
    &op_rsqrt,
    &op_tanh,
    &op_sigmoid,
    &op_relu,
    &op_leaky_relu,
    &op_gelu,
    &op_silu,
    &op_clamp,
    // Products.
    &op_matmul,
    &op_linear,
    // Reductions.
    &op_sum,
    &op_mean,
    &op_var,
    &op_std,
    &op_max,
    &op_min,
    &op_argmax,
    &op_argmin,
    &op_cumsum,
    // Probabilities and losses.
    &op_softmax,
    &op_log_softmax,
    &op_nll,
    &op_cross_entropy,
    &op_mse,
    &op_bce_with_logits,
    &op_smooth_l1,
    // Layers' arithmetic.
    &op_dropout,
    &op_embedding,
    &op_layer_norm,
    &op_one_hot,
    // Picking.
    &op_gather,
    &op_scatter_add,
    &op_index_select,
    &op_multinomial,
    &op_bernoulli,
    // Comparing whole tensors.
    &op_equal,
    &op_allclose,
    NULL,
};

const op *op_find(const char *name) {
    for (const op *const *o = op_table; *o; o++)
        if (strcmp((*o)->name, name) == 0) return *o;
    return NULL;
}
