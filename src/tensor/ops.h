// The rows of the table, by the file that holds them.
#ifndef TENSOR_OPS_H
#define TENSOR_OPS_H

#include "tensor/op.h"

// op_create.c
extern const op op_zeros, op_ones, op_full, op_arange, op_rand, op_randn;

// op_view.c, op_slice.c, op_copy.c
extern const op op_reshape, op_view, op_expand, op_permute, op_transpose, op_squeeze, op_unsqueeze;
extern const op op_slice, op_select;
extern const op op_contiguous, op_clone, op_to_dtype, op_cat, op_stack;

// op_binary.c
extern const op op_add, op_sub, op_mul, op_div, op_pow, op_maximum, op_minimum;
extern const op op_eq, op_ne, op_lt, op_le, op_gt, op_ge, op_where;

// op_unary.c
extern const op op_neg, op_abs, op_exp, op_log, op_sqrt, op_rsqrt, op_tanh, op_sigmoid;
extern const op op_relu, op_leaky_relu, op_gelu, op_silu, op_clamp;

#endif
