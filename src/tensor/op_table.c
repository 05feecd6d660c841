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
    NULL,
};

const op *op_find(const char *name) {
    for (const op *const *o = op_table; *o; o++)
        if (strcmp((*o)->name, name) == 0) return *o;
    return NULL;
}
