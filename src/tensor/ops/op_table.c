#include "tensor/ops/ops.h"

#include "base/map.h"

#include <pthread.h>
#include <string.h>

const op *const op_table[] = {
    // Making.
    &op_zeros,
    &op_ones,
    &op_full,
    &op_arange,
    &op_rand,
    &op_randn,
    &op_randint,
    &op_randperm,
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
    &op_split,
    &op_split_with_sizes,
    &op_chunk,
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
    &op_remainder,
    &op_eq,
    &op_ne,
    &op_lt,
    &op_le,
    &op_gt,
    &op_ge,
    &op_where,
    &op_masked_fill,
    // Truth.
    &op_logical_and,
    &op_logical_or,
    &op_logical_xor,
    &op_logical_not,
    &op_isfinite,
    &op_isnan,
    &op_isinf,
    &op_bitwise_and,
    &op_bitwise_or,
    &op_bitwise_xor,
    &op_bitwise_not,
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
    &op_sin,
    &op_cos,
    &op_floor,
    &op_ceil,
    &op_round,
    &op_trunc,
    // Products.
    &op_matmul,
    &op_linear,
    &op_tril,
    &op_triu,
    // Reductions.
    &op_sum,
    &op_mean,
    &op_var,
    &op_std,
    &op_max,
    &op_min,
    &op_argmax,
    &op_argmin,
    &op_amax,
    &op_amin,
    &op_prod,
    &op_logsumexp,
    &op_norm,
    &op_any,
    &op_all,
    &op_cumsum,
    // Probabilities and losses.
    &op_softmax,
    &op_log_softmax,
    &op_nll,
    &op_cross_entropy,
    &op_mse,
    &op_bce_with_logits,
    &op_smooth_l1,
    &op_l1,
    &op_kl_div,
    // Layers' arithmetic.
    &op_dropout,
    &op_embedding,
    &op_layer_norm,
    &op_batch_norm,
    &op_one_hot,
    &op_lstm,
    &op_gru,
    &op_rnn,
    // Convolutions, pools.
    &op_conv1d,
    &op_conv2d,
    &op_max_pool1d,
    &op_max_pool2d,
    &op_avg_pool1d,
    &op_avg_pool2d,
    &op_adaptive_avg_pool1d,
    &op_adaptive_avg_pool2d,
    // Picking.
    &op_gather,
    &op_scatter,
    &op_scatter_add,
    &op_index_select,
    &op_nonzero,
    &op_sort,
    &op_topk,
    &op_multinomial,
    &op_bernoulli,
    // Comparing whole tensors.
    &op_equal,
    &op_allclose,
    NULL,
};

// The position of a name, by its hash. Made once; rpc finds the operator of every call here.
enum { SLOTS = 512 };
static const op *slots[SLOTS];
static pthread_once_t slots_once = PTHREAD_ONCE_INIT;

static const op **slot_of(const char *name) {
    uint64_t i = hash_bytes(name, strlen(name));
    while (slots[i % SLOTS] && strcmp(slots[i % SLOTS]->name, name) != 0) i++;
    return &slots[i % SLOTS];
}

static void fill_slots(void) {
    _Static_assert(sizeof op_table / sizeof *op_table < SLOTS / 2, "slots stay half empty");
    for (const op *const *o = op_table; *o; o++) *slot_of((*o)->name) = *o;
}

const op *op_find(const char *name) {
    pthread_once(&slots_once, fill_slots);
    return *slot_of(name);
}
