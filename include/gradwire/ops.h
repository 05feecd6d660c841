// Operators: the language of training programs.
//
// gw_<name> has the name, shapes and rules of torch.<name>, unless its entry names another source. Every operator is
// also a function that any worker serves as "gw.<name>".
//
//     gw_tensor *h = gw_relu(s, gw_linear(s, x, weight, bias));          // x: N F, weight: O F, bias: O
//     gw_tensor *p = gw_softmax(s, gw_mul(s, h, 0.5), -1);
//
// A gw_value operand is a tensor or a number. Operands broadcast and are promoted as in PyTorch. Operators compute f16
// and bf16 in f32 and round the result once, also for gradients. A negative |dim| counts from the end.
//
// In the entries below, y is the result and dy is its gradient. "dy b to a" means: the gradient of a is dy times b. The
// gradient of an operand that was broadcast is summed to the shape of the operand. If the entry of an operator has no
// line "Gradient", the result of the operator needs no gradient.
//
// Errors, of all functions: INVALID with the operator, the operands and the rule: "gw.matmul: 6x5 times 4x8: the 5
// columns of a must be the 4 rows of b"; NO_MEMORY.
// Ownership: results belong to |s|. Views share the storage of their operand.
// Threads: the same as for the scope.
#ifndef GRADWIRE_OPS_H
#define GRADWIRE_OPS_H

#include <gradwire/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

/// The value of an option that is not given, for options where every other number is possible.
#define GW_NOT_GIVEN INT64_MIN

// ---- Views and shapes ---------------------------------------------------------------------------

/// Gives |x| another shape: gw_reshape(s, x, 2, -1).
///
/// shape: as many elements as |x|. One size may be -1: it follows from the other sizes.
/// Returns: a view, or a copy if a view is impossible.
/// Gradient: dy in the shape of |x|.
GW_API gw_tensor *gw_reshape(gw_scope *s, gw_tensor *x, gw_shape shape) GW_CALLS(gw_reshape_with);
#define gw_reshape(...) GW_SIZES(gw_reshape, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_reshape) gw_reshape_with;

/// Gives |x| another shape without a copy: gw_view(s, x, 2, -1).
///
/// shape: as for gw_reshape.
/// Returns: a view.
/// Gradient: dy in the shape of |x|.
/// Errors: INVALID if a view of that shape is impossible.
/// Source: torch.Tensor.view.
GW_API gw_tensor *gw_view(gw_scope *s, gw_tensor *x, gw_shape shape) GW_CALLS(gw_view_with);
#define gw_view(...) GW_SIZES(gw_view, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_view) gw_view_with;

/// Broadcasts |x| to a shape: gw_expand(s, x, 4, -1).
///
/// shape: -1 keeps the size. Dimensions of size 1 may be repeated, and new dimensions may be added in front.
/// Returns: a view.
/// Gradient: the sum of dy over the repeated elements.
/// Source: torch.Tensor.expand.
GW_API gw_tensor *gw_expand(gw_scope *s, gw_tensor *x, gw_shape shape) GW_CALLS(gw_expand_with);
#define gw_expand(...) GW_SIZES(gw_expand, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_expand) gw_expand_with;

/// Reorders the dimensions of |x|: gw_permute(s, x, 1, 0).
///
/// dims: every dimension once.
/// Returns: a view.
/// Gradient: dy with its dimensions in the order of |x|.
GW_API gw_tensor *gw_permute(gw_scope *s, gw_tensor *x, gw_shape dims) GW_CALLS(gw_permute_with);
#define gw_permute(...) GW_SIZES(gw_permute, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_permute) gw_permute_with;

/// Swaps two dimensions of |x|.
/// Returns: a view.
/// Gradient: dy with the same swap.
GW_API gw_tensor *gw_transpose(gw_scope *s, gw_tensor *x, int dim0, int dim1);

/// Selects every |step|-th slice along |dim|, beginning at |start| and ending before |end|.
///
/// start, end: a negative number counts from the end. A number that is out of range stands for the nearest end.
/// Returns: a view.
/// Gradient: dy at the slices, 0 elsewhere.
GW_API gw_tensor *gw_slice(gw_scope *s, gw_tensor *x, int dim, int64_t start, int64_t end,
                           int64_t step);

/// Selects one slice along |dim|.
///
/// index: a negative index counts from the end.
/// Returns: a view without that dimension.
/// Gradient: dy at the slice, 0 elsewhere.
GW_API gw_tensor *gw_select(gw_scope *s, gw_tensor *x, int dim, int64_t index);

/// Splits |x| along |dim| into parts of |size|; the last part may be smaller.
/// Returns: a list of views.
/// Gradient: the parts' gradients joined; 0 for a part without a gradient.
GW_API gw_list *gw_split(gw_scope *s, gw_tensor *x, int64_t size, int dim);

/// Splits |x| along |dim| into at most 32 parts, of the sizes |sizes|.
/// Returns: a list of views.
/// Gradient: as gw_split.
/// Source: torch.split.
GW_API gw_list *gw_split_with_sizes(gw_scope *s, gw_tensor *x, gw_shape sizes, int dim);

/// Splits |x| along |dim| into at most |chunks| parts of one size; the last part may be smaller.
///
///     gw_list *gates = gw_chunk(s, x, 4, -1);
///     gw_tensor *input = gw_tensor_of(s, gw_list_get(s, gates, 0));
///
/// Returns: a list of views.
/// Gradient: as gw_split.
GW_API gw_list *gw_chunk(gw_scope *s, gw_tensor *x, int64_t chunks, int dim);

/// Removes dimension |dim| if its size is 1.
/// Returns: a view.
/// Gradient: dy in the shape of |x|.
GW_API gw_tensor *gw_squeeze(gw_scope *s, gw_tensor *x, int dim);

/// Inserts a dimension of size 1 at |dim|.
/// Returns: a view.
/// Gradient: dy in the shape of |x|.
GW_API gw_tensor *gw_unsqueeze(gw_scope *s, gw_tensor *x, int dim);

/// Makes a tensor whose elements are stored in order without gaps.
/// Returns: a copy, or a view if |x| is contiguous.
/// Gradient: dy.
/// Source: torch.Tensor.contiguous.
GW_API gw_tensor *gw_contiguous(gw_scope *s, gw_tensor *x);

/// Copies |x|.
/// Returns: a contiguous copy.
/// Gradient: dy.
GW_API gw_tensor *gw_clone(gw_scope *s, gw_tensor *x);

/// Converts |x| to |dtype|.
/// Returns: a copy.
/// Gradient: dy in the dtype of |x|.
/// Source: torch.Tensor.to.
GW_API gw_tensor *gw_to_dtype(gw_scope *s, gw_tensor *x, gw_dtype dtype);

/// Joins |count| tensors along |dim|.
///
/// xs: sizes are equal except along |dim|; dtypes are promoted.
/// Returns: a new tensor.
/// Gradient: each tensor gets its part of dy.
GW_API gw_tensor *gw_cat(gw_scope *s, gw_tensor *const *xs, int count, int dim);

/// Joins |count| tensors along a new dimension |dim|.
///
/// xs: of one shape; dtypes are promoted.
/// Returns: a new tensor.
/// Gradient: each tensor gets its part of dy.
GW_API gw_tensor *gw_stack(gw_scope *s, gw_tensor *const *xs, int count, int dim);

// ---- Arithmetic ---------------------------------------------------------------------------------

/// Adds |b| to |a|.
/// Returns: a + b.
/// Gradient: dy to a, dy to b.
GW_API gw_tensor *gw_add(gw_scope *s, gw_value a, gw_value b) GW_CALLS(gw_add_with);
#define gw_add(s, a, b) gw_add_with((s), gw_value_of(a), gw_value_of(b))
GW_API GW_TYPE_OF(gw_add) gw_add_with;
/// Subtracts |b| from |a|.
/// Returns: a - b.
/// Gradient: dy to a, -dy to b.
GW_API gw_tensor *gw_sub(gw_scope *s, gw_value a, gw_value b) GW_CALLS(gw_sub_with);
#define gw_sub(s, a, b) gw_sub_with((s), gw_value_of(a), gw_value_of(b))
GW_API GW_TYPE_OF(gw_sub) gw_sub_with;
/// Multiplies |a| by |b|.
/// Returns: a b.
/// Gradient: dy b to a, dy a to b.
GW_API gw_tensor *gw_mul(gw_scope *s, gw_value a, gw_value b) GW_CALLS(gw_mul_with);
#define gw_mul(s, a, b) gw_mul_with((s), gw_value_of(a), gw_value_of(b))
GW_API GW_TYPE_OF(gw_mul) gw_mul_with;
/// Divides |a| by |b|. The result is floating, also for integers.
/// Returns: a / b.
/// Gradient: dy / b to a, -dy a / b^2 to b.
GW_API gw_tensor *gw_div(gw_scope *s, gw_value a, gw_value b) GW_CALLS(gw_div_with);
#define gw_div(s, a, b) gw_div_with((s), gw_value_of(a), gw_value_of(b))
GW_API GW_TYPE_OF(gw_div) gw_div_with;
/// Raises |a| to the power |b|.
/// Returns: a^b.
/// Gradient: dy b a^(b - 1) to a, dy y ln a to b.
GW_API gw_tensor *gw_pow(gw_scope *s, gw_value a, gw_value b) GW_CALLS(gw_pow_with);
#define gw_pow(s, a, b) gw_pow_with((s), gw_value_of(a), gw_value_of(b))
GW_API GW_TYPE_OF(gw_pow) gw_pow_with;
/// Takes the larger of |a| and |b|.
/// Returns: the maximum; NaN if an operand is NaN.
/// Gradient: dy to the larger operand; if both are equal, half of dy to each; if an operand is NaN, dy to both.
GW_API gw_tensor *gw_maximum(gw_scope *s, gw_value a, gw_value b) GW_CALLS(gw_maximum_with);
#define gw_maximum(s, a, b) gw_maximum_with((s), gw_value_of(a), gw_value_of(b))
GW_API GW_TYPE_OF(gw_maximum) gw_maximum_with;
/// Takes the smaller of |a| and |b|.
/// Returns: the minimum; NaN if an operand is NaN.
/// Gradient: dy to the smaller operand; if both are equal, half of dy to each; if an operand is NaN, dy to both.
GW_API gw_tensor *gw_minimum(gw_scope *s, gw_value a, gw_value b) GW_CALLS(gw_minimum_with);
#define gw_minimum(s, a, b) gw_minimum_with((s), gw_value_of(a), gw_value_of(b))
GW_API GW_TYPE_OF(gw_minimum) gw_minimum_with;
/// Computes the remainder of the division of |a| by |b|.
/// Returns: a - floor(a / b) b, with the sign of b.
/// Gradient: dy to a, -dy floor(a / b) to b.
/// Errors: INVALID for integers if an element of b is 0.
GW_API gw_tensor *gw_remainder(gw_scope *s, gw_value a, gw_value b) GW_CALLS(gw_remainder_with);
#define gw_remainder(s, a, b) gw_remainder_with((s), gw_value_of(a), gw_value_of(b))
GW_API GW_TYPE_OF(gw_remainder) gw_remainder_with;
/// Compares |a| with |b|.
/// Returns: a = b, bool.
GW_API gw_tensor *gw_eq(gw_scope *s, gw_value a, gw_value b) GW_CALLS(gw_eq_with);
#define gw_eq(s, a, b) gw_eq_with((s), gw_value_of(a), gw_value_of(b))
GW_API GW_TYPE_OF(gw_eq) gw_eq_with;
/// Compares |a| with |b|.
/// Returns: a != b, bool.
GW_API gw_tensor *gw_ne(gw_scope *s, gw_value a, gw_value b) GW_CALLS(gw_ne_with);
#define gw_ne(s, a, b) gw_ne_with((s), gw_value_of(a), gw_value_of(b))
GW_API GW_TYPE_OF(gw_ne) gw_ne_with;
/// Compares |a| with |b|.
/// Returns: a < b, bool.
GW_API gw_tensor *gw_lt(gw_scope *s, gw_value a, gw_value b) GW_CALLS(gw_lt_with);
#define gw_lt(s, a, b) gw_lt_with((s), gw_value_of(a), gw_value_of(b))
GW_API GW_TYPE_OF(gw_lt) gw_lt_with;
/// Compares |a| with |b|.
/// Returns: a <= b, bool.
GW_API gw_tensor *gw_le(gw_scope *s, gw_value a, gw_value b) GW_CALLS(gw_le_with);
#define gw_le(s, a, b) gw_le_with((s), gw_value_of(a), gw_value_of(b))
GW_API GW_TYPE_OF(gw_le) gw_le_with;
/// Compares |a| with |b|.
/// Returns: a > b, bool.
GW_API gw_tensor *gw_gt(gw_scope *s, gw_value a, gw_value b) GW_CALLS(gw_gt_with);
#define gw_gt(s, a, b) gw_gt_with((s), gw_value_of(a), gw_value_of(b))
GW_API GW_TYPE_OF(gw_gt) gw_gt_with;
/// Compares |a| with |b|.
/// Returns: a >= b, bool.
GW_API gw_tensor *gw_ge(gw_scope *s, gw_value a, gw_value b) GW_CALLS(gw_ge_with);
#define gw_ge(s, a, b) gw_ge_with((s), gw_value_of(a), gw_value_of(b))
GW_API GW_TYPE_OF(gw_ge) gw_ge_with;

/// Chooses between |a| and |b|.
///
/// condition: bool; broadcasts with |a| and |b|.
/// Returns: a where |condition| is true, b elsewhere.
/// Gradient: each operand gets dy where it was chosen, 0 elsewhere.
GW_API gw_tensor *gw_where(gw_scope *s, gw_tensor *condition, gw_value a, gw_value b)
    GW_CALLS(gw_where_with);
#define gw_where(s, condition, a, b) gw_where_with((s), (condition), gw_value_of(a), gw_value_of(b))
GW_API GW_TYPE_OF(gw_where) gw_where_with;

/// Replaces elements of |x| by |value|.
///
/// mask: bool; broadcasts with x.
/// value: a number, or a tensor with 0 dimensions.
/// Returns: |value| where |mask| is true, x elsewhere, in the dtype of x.
/// Gradient: dy to x where |mask| is false; to |value| the sum of dy where |mask| is true.
/// Source: torch.Tensor.masked_fill.
GW_API gw_tensor *gw_masked_fill(gw_scope *s, gw_tensor *x, gw_tensor *mask, gw_value value)
    GW_CALLS(gw_masked_fill_with);
#define gw_masked_fill(s, x, mask, value) gw_masked_fill_with((s), (x), (mask), gw_value_of(value))
GW_API GW_TYPE_OF(gw_masked_fill) gw_masked_fill_with;

// ---- Logic --------------------------------------------------------------------------------------
// Operands have any dtype: 0 is false; NaN and all other numbers are true.

/// Computes "and" of |a| and |b|.
/// Returns: bool.
GW_API gw_tensor *gw_logical_and(gw_scope *s, gw_value a, gw_value b) GW_CALLS(gw_logical_and_with);
#define gw_logical_and(s, a, b) gw_logical_and_with((s), gw_value_of(a), gw_value_of(b))
GW_API GW_TYPE_OF(gw_logical_and) gw_logical_and_with;
/// Computes "or" of |a| and |b|.
/// Returns: bool.
GW_API gw_tensor *gw_logical_or(gw_scope *s, gw_value a, gw_value b) GW_CALLS(gw_logical_or_with);
#define gw_logical_or(s, a, b) gw_logical_or_with((s), gw_value_of(a), gw_value_of(b))
GW_API GW_TYPE_OF(gw_logical_or) gw_logical_or_with;
/// Computes "exclusive or" of |a| and |b|.
/// Returns: bool.
GW_API gw_tensor *gw_logical_xor(gw_scope *s, gw_value a, gw_value b) GW_CALLS(gw_logical_xor_with);
#define gw_logical_xor(s, a, b) gw_logical_xor_with((s), gw_value_of(a), gw_value_of(b))
GW_API GW_TYPE_OF(gw_logical_xor) gw_logical_xor_with;
/// Computes "not" of |x|.
/// Returns: bool.
GW_API gw_tensor *gw_logical_not(gw_scope *s, gw_tensor *x);
/// Tests for numbers that are neither infinite nor NaN.
/// Returns: bool.
GW_API gw_tensor *gw_isfinite(gw_scope *s, gw_tensor *x);
/// Tests for NaN.
/// Returns: bool.
GW_API gw_tensor *gw_isnan(gw_scope *s, gw_tensor *x);
/// Tests for infinities of both signs.
/// Returns: bool.
GW_API gw_tensor *gw_isinf(gw_scope *s, gw_tensor *x);

/// Computes "and" bit by bit, of integers or bools.
/// Returns: in the promoted dtype.
GW_API gw_tensor *gw_bitwise_and(gw_scope *s, gw_value a, gw_value b) GW_CALLS(gw_bitwise_and_with);
#define gw_bitwise_and(s, a, b) gw_bitwise_and_with((s), gw_value_of(a), gw_value_of(b))
GW_API GW_TYPE_OF(gw_bitwise_and) gw_bitwise_and_with;
/// Computes "or" bit by bit, of integers or bools.
/// Returns: in the promoted dtype.
GW_API gw_tensor *gw_bitwise_or(gw_scope *s, gw_value a, gw_value b) GW_CALLS(gw_bitwise_or_with);
#define gw_bitwise_or(s, a, b) gw_bitwise_or_with((s), gw_value_of(a), gw_value_of(b))
GW_API GW_TYPE_OF(gw_bitwise_or) gw_bitwise_or_with;
/// Computes "exclusive or" bit by bit, of integers or bools.
/// Returns: in the promoted dtype.
GW_API gw_tensor *gw_bitwise_xor(gw_scope *s, gw_value a, gw_value b) GW_CALLS(gw_bitwise_xor_with);
#define gw_bitwise_xor(s, a, b) gw_bitwise_xor_with((s), gw_value_of(a), gw_value_of(b))
GW_API GW_TYPE_OF(gw_bitwise_xor) gw_bitwise_xor_with;
/// Computes "not" bit by bit, of integers or bools.
/// Returns: in the dtype of x.
GW_API gw_tensor *gw_bitwise_not(gw_scope *s, gw_tensor *x);

// ---- Elementwise --------------------------------------------------------------------------------

/// Negates |x|.
/// Returns: -x.
/// Gradient: -dy.
GW_API gw_tensor *gw_neg(gw_scope *s, gw_tensor *x);
/// Takes the absolute value of |x|.
/// Returns: x, or -x below 0.
/// Gradient: dy sign(x), 0 at 0.
GW_API gw_tensor *gw_abs(gw_scope *s, gw_tensor *x);
/// Computes the exponential of |x|.
/// Returns: e^x.
/// Gradient: dy y.
GW_API gw_tensor *gw_exp(gw_scope *s, gw_tensor *x);
/// Computes the natural logarithm of |x|.
/// Returns: ln x.
/// Gradient: dy / x.
GW_API gw_tensor *gw_log(gw_scope *s, gw_tensor *x);
/// Computes the square root of |x|.
/// Returns: x^(1/2).
/// Gradient: dy / (2 y).
GW_API gw_tensor *gw_sqrt(gw_scope *s, gw_tensor *x);
/// Computes the inverse of the square root of |x|.
/// Returns: x^(-1/2).
/// Gradient: -dy y^3 / 2.
GW_API gw_tensor *gw_rsqrt(gw_scope *s, gw_tensor *x);
/// Computes the hyperbolic tangent of |x|.
/// Returns: tanh x.
/// Gradient: dy (1 - y^2).
GW_API gw_tensor *gw_tanh(gw_scope *s, gw_tensor *x);
/// Computes the logistic function of |x|.
/// Returns: 1 / (1 + e^-x).
/// Gradient: dy y (1 - y).
GW_API gw_tensor *gw_sigmoid(gw_scope *s, gw_tensor *x);
/// Replaces negative numbers by 0; NaN does not change.
/// Returns: max(x, 0).
/// Gradient: dy where x is above 0 or NaN, else 0.
GW_API gw_tensor *gw_relu(gw_scope *s, gw_tensor *x);
/// Multiplies negative numbers by |negative_slope|.
/// Returns: x, or |negative_slope| x below 0.
/// Gradient: dy, or |negative_slope| dy where x is not above 0.
/// Source: torch.nn.functional.leaky_relu.
GW_API gw_tensor *gw_leaky_relu(gw_scope *s, gw_tensor *x, double negative_slope);
/// Multiplies |x| by Phi(x), the normal distribution function of x, computed by erf.
/// Returns: x Phi(x).
/// Gradient: dy (Phi(x) + x phi(x)).
/// Source: torch.nn.functional.gelu; Hendrycks, Gimpel 2016.
GW_API gw_tensor *gw_gelu(gw_scope *s, gw_tensor *x);
/// Multiplies |x| by its logistic function.
/// Returns: x sigmoid(x).
/// Gradient: dy sigmoid(x) (1 + x (1 - sigmoid(x))).
/// Source: torch.nn.functional.silu.
GW_API gw_tensor *gw_silu(gw_scope *s, gw_tensor *x);
/// Bounds |x| to |min| and |max|.
/// Returns: x between the bounds; |max| if |min| is above |max|; NaN if x or a bound is NaN.
/// Gradient: dy where x is within the bounds, else 0.
GW_API gw_tensor *gw_clamp(gw_scope *s, gw_tensor *x, double min, double max);
/// Computes the sine of |x|, in radians.
/// Returns: sin x.
/// Gradient: dy cos x.
GW_API gw_tensor *gw_sin(gw_scope *s, gw_tensor *x);
/// Computes the cosine of |x|, in radians.
/// Returns: cos x.
/// Gradient: -dy sin x.
GW_API gw_tensor *gw_cos(gw_scope *s, gw_tensor *x);
/// Rounds down; integers do not change.
/// Returns: the largest integer not above x.
/// Gradient: 0.
GW_API gw_tensor *gw_floor(gw_scope *s, gw_tensor *x);
/// Rounds up; integers do not change.
/// Returns: the smallest integer not below x.
/// Gradient: 0.
GW_API gw_tensor *gw_ceil(gw_scope *s, gw_tensor *x);
/// Rounds to the nearest integer, and a half to the nearest even integer; integers do not change.
/// Returns: the rounded numbers.
/// Gradient: 0.
GW_API gw_tensor *gw_round(gw_scope *s, gw_tensor *x);
/// Rounds toward 0; integers do not change.
/// Returns: the rounded numbers.
/// Gradient: 0.
GW_API gw_tensor *gw_trunc(gw_scope *s, gw_tensor *x);

// ---- Products -----------------------------------------------------------------------------------

/// Multiplies matrices. A vector is a row if it is |a|, and a column if it is |b|. A tensor with more than two
/// dimensions is a batch of matrices; batches broadcast.
///
/// a: ... M K.
/// b: ... K N, of the dtype of |a|, which may be any dtype but bool. The products of integers wrap around.
/// Returns: ... M N.
/// Gradient: dy b^T to a, a^T dy to b.
/// Threads: if OpenBLAS is installed, it multiplies floats, with one thread or with GW_BLAS_THREADS threads. Without
/// OpenBLAS, or with GW_BLAS=plain in the environment, loops of the library multiply floats.
GW_API gw_tensor *gw_matmul(gw_scope *s, gw_tensor *a, gw_tensor *b);

/// Applies a linear layer.
///
/// x: ... F.
/// weight: O F.
/// bias: O or NULL.
/// Returns: x weight^T + bias: ... O.
/// Gradient: dy weight to x, dy^T x to weight, the sum of dy to bias.
/// Source: torch.nn.functional.linear.
GW_API gw_tensor *gw_linear(gw_scope *s, gw_tensor *x, gw_tensor *weight, gw_tensor *bias);

/// Keeps the lower triangle of each matrix.
///
/// x: ... M N.
/// diagonal: the number of the last diagonal that is kept; 0 is the main diagonal, 1 is the diagonal above the main
/// diagonal.
/// Returns: x in the triangle, 0 elsewhere.
/// Gradient: dy in the triangle, 0 elsewhere.
GW_API gw_tensor *gw_tril(gw_scope *s, gw_tensor *x, int64_t diagonal);

/// Keeps the upper triangle of each matrix.
///
/// x: ... M N.
/// diagonal: the number of the first diagonal that is kept; 0 is the main diagonal, 1 is the diagonal above the main
/// diagonal.
/// Returns: x in the triangle, 0 elsewhere.
/// Gradient: dy in the triangle, 0 elsewhere.
GW_API gw_tensor *gw_triu(gw_scope *s, gw_tensor *x, int64_t diagonal);

// ---- Reductions ---------------------------------------------------------------------------------
// gw_sum(s, x) reduces all dimensions to a scalar, gw_sum(s, x, .dim = -1) reduces one dimension, and gw_sum(s, x,
// .dims = GW_SHAPE(0, -1)) reduces several. The order of additions is fixed: the same tensor gives the same bits.

/// Options of reductions over any dimensions.
typedef struct GW_BY_NAME gw_dims_options {
    int64_t dim GW_DEFAULT(GW_NOT_GIVEN);  ///< one dimension; not given: see |dims|
    gw_shape dims GW_DEFAULT({});          ///< several, none of them twice; empty: all
    bool keepdim GW_DEFAULT(false);        ///< keep the reduced dimensions with size 1
} gw_dims_options;

/// Options of reductions over one dimension or all dimensions.
typedef struct GW_BY_NAME gw_dim_options {
    int64_t dim GW_DEFAULT(GW_NOT_GIVEN);  ///< not given: all
    bool keepdim GW_DEFAULT(false);        ///< keep the reduced dimension with size 1
} gw_dim_options;

/// Adds the elements of |x|.
/// Returns: the sums; i64 if |x| is of integers or bools.
/// Gradient: dy to every element.
GW_API gw_tensor *gw_sum(gw_scope *s, gw_tensor *x, gw_dims_options options GW_DEFAULT({}))
    GW_CALLS(gw_sum_with);
#define gw_sum(...) GW_FORM_2(gw_sum, gw_dims_options, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_sum) gw_sum_with;

/// Averages the elements of |x|.
///
/// x: floating.
/// Returns: the means.
/// Gradient: dy / n to each of the n elements.
GW_API gw_tensor *gw_mean(gw_scope *s, gw_tensor *x, gw_dims_options options GW_DEFAULT({}))
    GW_CALLS(gw_mean_with);
#define gw_mean(...) GW_FORM_2(gw_mean, gw_dims_options, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_mean) gw_mean_with;

/// Computes the unbiased variance: the sum of squares is divided by n - 1.
///
/// x: floating.
/// Returns: the variances; NaN for a single element.
/// Gradient: dy 2 (x - mean) / (n - 1).
GW_API gw_tensor *gw_var(gw_scope *s, gw_tensor *x, gw_dims_options options GW_DEFAULT({}))
    GW_CALLS(gw_var_with);
#define gw_var(...) GW_FORM_2(gw_var, gw_dims_options, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_var) gw_var_with;

/// Computes the standard deviation, the root of gw_var.
///
/// x: floating.
/// Returns: the deviations; NaN for a single element.
/// Gradient: dy (x - mean) / ((n - 1) y).
GW_API gw_tensor *gw_std(gw_scope *s, gw_tensor *x, gw_dims_options options GW_DEFAULT({}))
    GW_CALLS(gw_std_with);
#define gw_std(...) GW_FORM_2(gw_std, gw_dims_options, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_std) gw_std_with;

/// Finds the largest element.
/// Returns: the maxima; NaN if one element is NaN.
/// Gradient: dy to the first of the largest elements; if all dimensions are reduced, all largest elements share dy
/// equally.
/// Errors: INVALID without elements.
GW_API gw_tensor *gw_max(gw_scope *s, gw_tensor *x, gw_dim_options options GW_DEFAULT({}))
    GW_CALLS(gw_max_with);
#define gw_max(...) GW_FORM_2(gw_max, gw_dim_options, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_max) gw_max_with;

/// Finds the smallest element.
/// Returns: the minima; NaN if one element is NaN.
/// Gradient: dy to the first of the smallest elements; if all dimensions are reduced, all smallest elements share dy
/// equally.
/// Errors: INVALID without elements.
GW_API gw_tensor *gw_min(gw_scope *s, gw_tensor *x, gw_dim_options options GW_DEFAULT({}))
    GW_CALLS(gw_min_with);
#define gw_min(...) GW_FORM_2(gw_min, gw_dim_options, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_min) gw_min_with;

/// Finds the index of the first largest element.
/// Returns: i64; if all dimensions are reduced, an index into the flattened |x|.
/// Errors: INVALID without elements.
GW_API gw_tensor *gw_argmax(gw_scope *s, gw_tensor *x, gw_dim_options options GW_DEFAULT({}))
    GW_CALLS(gw_argmax_with);
#define gw_argmax(...) GW_FORM_2(gw_argmax, gw_dim_options, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_argmax) gw_argmax_with;

/// Finds the index of the first smallest element.
/// Returns: i64; if all dimensions are reduced, an index into the flattened |x|.
/// Errors: INVALID without elements.
GW_API gw_tensor *gw_argmin(gw_scope *s, gw_tensor *x, gw_dim_options options GW_DEFAULT({}))
    GW_CALLS(gw_argmin_with);
#define gw_argmin(...) GW_FORM_2(gw_argmin, gw_dim_options, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_argmin) gw_argmin_with;

/// Finds the largest element over any dimensions.
/// Returns: the maxima; NaN if one element is NaN.
/// Gradient: the largest elements share dy equally. If elements are NaN, these elements share dy.
/// Errors: INVALID without elements.
GW_API gw_tensor *gw_amax(gw_scope *s, gw_tensor *x, gw_dims_options options GW_DEFAULT({}))
    GW_CALLS(gw_amax_with);
#define gw_amax(...) GW_FORM_2(gw_amax, gw_dims_options, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_amax) gw_amax_with;

/// Finds the smallest element over any dimensions.
/// Returns: the minima; NaN if one element is NaN.
/// Gradient: the smallest elements share dy equally. If elements are NaN, these elements share dy.
/// Errors: INVALID without elements.
GW_API gw_tensor *gw_amin(gw_scope *s, gw_tensor *x, gw_dims_options options GW_DEFAULT({}))
    GW_CALLS(gw_amin_with);
#define gw_amin(...) GW_FORM_2(gw_amin, gw_dims_options, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_amin) gw_amin_with;

/// Multiplies the elements of |x|.
/// Returns: the products; i64 if |x| is of integers or bools.
/// Gradient: dy times the product of the other elements.
GW_API gw_tensor *gw_prod(gw_scope *s, gw_tensor *x, gw_dims_options options GW_DEFAULT({}))
    GW_CALLS(gw_prod_with);
#define gw_prod(...) GW_FORM_2(gw_prod, gw_dims_options, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_prod) gw_prod_with;

/// Computes the logarithm of the sum of exponentials.
///
/// x: floating.
/// Returns: ln of the sum of e^x.
/// Gradient: dy softmax(x).
GW_API gw_tensor *gw_logsumexp(gw_scope *s, gw_tensor *x, gw_dims_options options GW_DEFAULT({}))
    GW_CALLS(gw_logsumexp_with);
#define gw_logsumexp(...) GW_FORM_2(gw_logsumexp, gw_dims_options, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_logsumexp) gw_logsumexp_with;

/// Computes the p-norm: gw_norm(s, x, 2, .dim = -1).
///
/// x: floating.
/// p: any number. For infinity the norm is the largest absolute value; for minus infinity it is the smallest absolute
/// value; for 0 it is the number of elements that are not 0.
/// Returns: (sum of abs(x)^p)^(1/p).
/// Gradient: dy sign(x) abs(x)^(p-1) / y^(p-1). For an infinite p, the elements whose absolute value is the norm share
/// dy equally. For p = 0, the gradient is 0.
/// Source: torch.linalg.vector_norm.
GW_API gw_tensor *gw_norm(gw_scope *s, gw_tensor *x, double p,
                          gw_dims_options options GW_DEFAULT({})) GW_CALLS(gw_norm_with);
#define gw_norm(...) GW_FORM_3(gw_norm, gw_dims_options, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_norm) gw_norm_with;

/// Tests whether at least one element is not 0.
/// Returns: bool.
GW_API gw_tensor *gw_any(gw_scope *s, gw_tensor *x, gw_dims_options options GW_DEFAULT({}))
    GW_CALLS(gw_any_with);
#define gw_any(...) GW_FORM_2(gw_any, gw_dims_options, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_any) gw_any_with;

/// Tests whether no element is 0.
/// Returns: bool.
GW_API gw_tensor *gw_all(gw_scope *s, gw_tensor *x, gw_dims_options options GW_DEFAULT({}))
    GW_CALLS(gw_all_with);
#define gw_all(...) GW_FORM_2(gw_all, gw_dims_options, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_all) gw_all_with;

/// Computes running sums along |dim|.
/// Returns: the sums, in the shape of |x|; i64 if |x| is of integers or bools.
/// Gradient: the running sums of dy, added from the end.
GW_API gw_tensor *gw_cumsum(gw_scope *s, gw_tensor *x, int dim);

// ---- Probabilities and losses -------------------------------------------------------------------
// Losses are the operators of torch.nn.functional: gw_mse is mse_loss, and gw_bce_with_logits is
// binary_cross_entropy_with_logits. gw_mse(s, x, target) returns the mean; gw_mse(s, x, target, .reduction =
// GW_SUM_REDUCTION) returns the sum.

/// How the losses of the elements are combined.
typedef enum gw_reduction {
    GW_MEAN = 0,
    GW_SUM_REDUCTION,
    GW_NO_REDUCTION,
    GW_BATCH_MEAN  ///< of gw_kl_div: the sum divided by the size of dimension 0
} gw_reduction;

/// Options of losses.
typedef struct GW_BY_NAME gw_loss_options {
    gw_reduction reduction GW_DEFAULT(GW_MEAN);
    int64_t ignore_index
        GW_DEFAULT(-100);  ///< gw_nll, gw_cross_entropy: targets of this class are left out
    double label_smoothing GW_DEFAULT(0);  ///< gw_cross_entropy: in [0, 1]
    /// For gw_nll and gw_cross_entropy: the weights of the C classes. NULL: each weight is 1.
    gw_tensor *weight GW_DEFAULT(NULL);
    bool log_target GW_DEFAULT(false);  ///< gw_kl_div: the targets are logarithms, too
    double beta GW_DEFAULT(1.0);        ///< gw_smooth_l1: errors below |beta| are squared
} gw_loss_options;

/// Computes probabilities of |x| along |dim|.
/// Returns: e^x divided by the sum of e^x along |dim|.
/// Gradient: y (dy - the sum of dy y along |dim|).
GW_API gw_tensor *gw_softmax(gw_scope *s, gw_tensor *x, int dim);

/// Computes the logarithm of gw_softmax.
/// Returns: x - ln of the sum of e^x along |dim|.
/// Gradient: dy - e^y times the sum of dy along |dim|.
GW_API gw_tensor *gw_log_softmax(gw_scope *s, gw_tensor *x, int dim);

/// Computes the negative log likelihood of classes.
///
/// logp: logarithms of probabilities, N C, or C, or N C and more dimensions.
/// target: classes, i64 or i32, in the shape of |logp| without C.
/// Returns: -logp[target]. The mean is over the targets that are not ignored, and weighted by .weight; it is NaN if all
/// targets are ignored.
/// Gradient: -dy to |logp| at the targets, scaled for weight and reduction.
/// Errors: INVALID for a target that is no class.
/// Source: torch.nn.functional.nll_loss.
GW_API gw_tensor *gw_nll(gw_scope *s, gw_tensor *logp, gw_tensor *target,
                         gw_loss_options options GW_DEFAULT({})) GW_CALLS(gw_nll_with);
#define gw_nll(...) GW_FORM_3(gw_nll, gw_loss_options, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_nll) gw_nll_with;

/// Computes the cross entropy of classes.
///
/// logits: unnormalised logarithms of probabilities, in a shape as for gw_nll.
/// target: as for gw_nll.
/// Returns: gw_nll of gw_log_softmax(logits).
/// Gradient: dy (softmax(logits) - the targets' distribution) to |logits|, scaled for weight and reduction.
/// Errors: INVALID for a target that is no class.
GW_API gw_tensor *gw_cross_entropy(gw_scope *s, gw_tensor *logits, gw_tensor *target,
                                   gw_loss_options options GW_DEFAULT({}))
    GW_CALLS(gw_cross_entropy_with);
#define gw_cross_entropy(...) GW_FORM_3(gw_cross_entropy, gw_loss_options, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_cross_entropy) gw_cross_entropy_with;

/// Computes squared errors; |x| and |target| broadcast.
/// Returns: (x - target)^2.
/// Gradient: 2 dy (x - target) to x, -2 dy (x - target) to |target|, scaled for the reduction.
GW_API gw_tensor *gw_mse(gw_scope *s, gw_tensor *x, gw_tensor *target,
                         gw_loss_options options GW_DEFAULT({})) GW_CALLS(gw_mse_with);
#define gw_mse(...) GW_FORM_3(gw_mse, gw_loss_options, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_mse) gw_mse_with;

/// Computes the binary cross entropy of logits.
///
/// target: probabilities, in the shape of x.
/// Returns: -(target ln sigmoid(x) + (1 - target) ln(1 - sigmoid(x))).
/// Gradient: dy (sigmoid(x) - target) to x, -dy x to |target|, scaled for the reduction.
GW_API gw_tensor *gw_bce_with_logits(gw_scope *s, gw_tensor *x, gw_tensor *target,
                                     gw_loss_options options GW_DEFAULT({}))
    GW_CALLS(gw_bce_with_logits_with);
#define gw_bce_with_logits(...) GW_FORM_3(gw_bce_with_logits, gw_loss_options, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_bce_with_logits) gw_bce_with_logits_with;

/// Computes errors that are squared near 0 and absolute beyond .beta; |x| and |target| broadcast.
/// Returns: d^2 / (2 beta) for abs(d) < beta, else abs(d) - beta / 2, with d = x - target.
/// Gradient: g to x, -g to |target|, scaled for the reduction, with g = dy d / beta for abs(d) < beta, else dy sign(d).
GW_API gw_tensor *gw_smooth_l1(gw_scope *s, gw_tensor *x, gw_tensor *target,
                               gw_loss_options options GW_DEFAULT({})) GW_CALLS(gw_smooth_l1_with);
#define gw_smooth_l1(...) GW_FORM_3(gw_smooth_l1, gw_loss_options, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_smooth_l1) gw_smooth_l1_with;

/// Computes absolute errors; |x| and |target| broadcast.
/// Returns: abs(x - target).
/// Gradient: dy sign(x - target) to x, -dy sign(x - target) to |target|, scaled for the reduction.
GW_API gw_tensor *gw_l1(gw_scope *s, gw_tensor *x, gw_tensor *target,
                        gw_loss_options options GW_DEFAULT({})) GW_CALLS(gw_l1_with);
#define gw_l1(...) GW_FORM_3(gw_l1, gw_loss_options, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_l1) gw_l1_with;

/// Computes the Kullback-Leibler divergence of e^x from |target| for each element; x and |target| broadcast. With
/// GW_SUM_REDUCTION the result is the divergence of two distributions; with GW_BATCH_MEAN it is the mean of such
/// divergences over the batch.
/// Returns: t (ln t - x), where t is |target|, or e^target with .log_target.
/// Gradient: -dy t to x; dy (ln t + 1 - x) to |target|, times t with .log_target. Both are scaled for the reduction.
/// Source: torch.nn.functional.kl_div; Kullback, Leibler 1951.
GW_API gw_tensor *gw_kl_div(gw_scope *s, gw_tensor *x, gw_tensor *target,
                            gw_loss_options options GW_DEFAULT({})) GW_CALLS(gw_kl_div_with);
#define gw_kl_div(...) GW_FORM_3(gw_kl_div, gw_loss_options, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_kl_div) gw_kl_div_with;

// ---- Layers' arithmetic -------------------------------------------------------------------------
// The operators of torch.nn.functional. Indices are i64 or i32.

/// Options of gw_dropout.
typedef struct GW_BY_NAME gw_dropout_options {
    double p GW_DEFAULT(0.5);        ///< the probability that an element is set to 0
    bool training GW_DEFAULT(true);  ///< false: nothing is dropped
} gw_dropout_options;

/// Sets elements to 0 with probability .p and divides the others by 1 - p.
/// Returns: a new tensor; in evaluation a view of x.
/// Gradient: dy / (1 - p) where the element was kept, else 0.
/// Source: Srivastava et al. 2014.
GW_API gw_tensor *gw_dropout(gw_scope *s, gw_tensor *x, gw_dropout_options options GW_DEFAULT({}))
    GW_CALLS(gw_dropout_with);
#define gw_dropout(...) (GW_DRAWS, GW_FORM_2(gw_dropout, gw_dropout_options, __VA_ARGS__))
GW_API GW_TYPE_OF(gw_dropout) gw_dropout_with;

/// Options of gw_embedding.
typedef struct GW_BY_NAME gw_embedding_options {
    bool sparse GW_DEFAULT(false);  ///< the gradient is sparse by rows (gw_rows)
    /// The index of a row that gets no gradient; a negative index counts from the end.
    int64_t padding_idx GW_DEFAULT(GW_NOT_GIVEN);
} gw_embedding_options;

/// Looks up rows of a table.
///
/// weight: V F.
/// indices: any shape, each at least 0 and below V.
/// Returns: the rows, in the shape of |indices| followed by F.
/// Gradient: each row of |weight| gets the sum of dy over the uses of the row.
/// Errors: INVALID for an index out of range.
GW_API gw_tensor *gw_embedding(gw_scope *s, gw_tensor *weight, gw_tensor *indices,
                               gw_embedding_options options GW_DEFAULT({}))
    GW_CALLS(gw_embedding_with);
#define gw_embedding(...) GW_FORM_3(gw_embedding, gw_embedding_options, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_embedding) gw_embedding_with;

/// Normalises |x| over its last dimensions.
///
/// normalized: the sizes of these dimensions.
/// weight, bias: of the shape |normalized|, or NULL.
/// Returns: (x - mean) / sqrt(variance + eps) weight + bias.
/// Gradient: to x, weight and bias.
/// Source: Ba, Kiros, Hinton 2016.
GW_API gw_tensor *gw_layer_norm(gw_scope *s, gw_tensor *x, gw_shape normalized, gw_tensor *weight,
                                gw_tensor *bias, double eps);

/// Options of gw_batch_norm.
typedef struct GW_BY_NAME gw_batch_norm_options {
    /// C, or NULL. With .training the running statistics are updated in place: running = (1 - momentum) running +
    /// momentum value, with the unbiased variance. Without .training, |x| is normalised by the running statistics.
    gw_tensor *running_mean GW_DEFAULT(NULL), *running_var GW_DEFAULT(NULL);
    bool training GW_DEFAULT(false);  ///< normalise by the mean and variance of |x|
    double momentum GW_DEFAULT(0.1);
    double eps GW_DEFAULT(1e-5);
} gw_batch_norm_options;

/// Normalises each channel of |x|, which is dimension 1.
///
/// x: N C, or N C and more dimensions.
/// weight, bias: C, or NULL.
/// Returns: (x - mean) / sqrt(variance + eps) weight + bias.
/// Gradient: to x, weight and bias; none to the running statistics.
/// Source: Ioffe, Szegedy 2015.
GW_API gw_tensor *gw_batch_norm(gw_scope *s, gw_tensor *x, gw_tensor *weight, gw_tensor *bias,
                                gw_batch_norm_options options GW_DEFAULT({}))
    GW_CALLS(gw_batch_norm_with);
#define gw_batch_norm(...) GW_FORM_4(gw_batch_norm, gw_batch_norm_options, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_batch_norm) gw_batch_norm_with;

/// Encodes each index as a row of zeros in which the element at the index is 1.
///
/// classes: the length of a row; -1: one more than the largest index.
/// Returns: i64, in the shape of |indices| followed by |classes|.
/// Errors: INVALID for an index out of range.
GW_API gw_tensor *gw_one_hot(gw_scope *s, gw_tensor *indices, int64_t classes);

// ---- Convolutions, pools ------------------------------------------------------------------------
// In a pair the first number is for height, and the second number is for width. In one dimension only the first number
// is used. Write both numbers of a pair: C fills a pair with zeros, so that {1} is {1, 0}.

/// Options of convolutions.
typedef struct GW_BY_NAME gw_conv_options {
    int64_t stride[2] GW_DEFAULT({ 1, 1 });
    int64_t padding[2] GW_DEFAULT({ 0, 0 });   ///< zeros around the input
    int64_t dilation[2] GW_DEFAULT({ 1, 1 });  ///< the distance between elements of the window
    int64_t groups GW_DEFAULT(1);              ///< groups of channels; each has its own outputs
} gw_conv_options;

/// Convolves |x| in one dimension.
///
/// x: N C L, or C L.
/// weight: O C/groups K.
/// bias: O or NULL.
/// Returns: N O L', or O L'.
/// Gradient: to x, weight and bias.
GW_API gw_tensor *gw_conv1d(gw_scope *s, gw_tensor *x, gw_tensor *weight, gw_tensor *bias,
                            gw_conv_options options GW_DEFAULT({})) GW_CALLS(gw_conv1d_with);
#define gw_conv1d(...) GW_FORM_4(gw_conv1d, gw_conv_options, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_conv1d) gw_conv1d_with;

/// Convolves |x| in two dimensions.
///
/// x: N C H W, or C H W.
/// weight: O C/groups K K'.
/// bias: O or NULL.
/// Returns: N O H' W', or O H' W'.
/// Gradient: to x, weight and bias.
GW_API gw_tensor *gw_conv2d(gw_scope *s, gw_tensor *x, gw_tensor *weight, gw_tensor *bias,
                            gw_conv_options options GW_DEFAULT({})) GW_CALLS(gw_conv2d_with);
#define gw_conv2d(...) GW_FORM_4(gw_conv2d, gw_conv_options, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_conv2d) gw_conv2d_with;

/// Options of pools.
typedef struct GW_BY_NAME gw_pool_options {
    int64_t kernel[2] GW_DEFAULT({ 0, 0 });                        ///< required
    int64_t stride[2] GW_DEFAULT({ GW_NOT_GIVEN, GW_NOT_GIVEN });  ///< not given: the kernel
    int64_t padding[2] GW_DEFAULT({ 0, 0 });                       ///< at most half of the kernel
    int64_t dilation[2] GW_DEFAULT({ 1, 1 });                      ///< for gw_max_pool only
    bool ceil_mode GW_DEFAULT(false);         ///< the last window may exceed the end
    bool count_include_pad GW_DEFAULT(true);  ///< for gw_avg_pool
    int64_t divisor_override
        GW_DEFAULT(GW_NOT_GIVEN);  ///< for gw_avg_pool; not given: the window's size
} gw_pool_options;

/// Takes the largest element of each window; NaN counts as the largest.
///
/// x: N C L, or C L.
/// Returns: N C L', or C L'.
/// Gradient: dy to the largest element.
GW_API gw_tensor *gw_max_pool1d(gw_scope *s, gw_tensor *x, gw_pool_options options GW_DEFAULT({}))
    GW_CALLS(gw_max_pool1d_with);
#define gw_max_pool1d(...) GW_FORM_2(gw_max_pool1d, gw_pool_options, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_max_pool1d) gw_max_pool1d_with;

/// Takes the largest element of each window; NaN counts as the largest.
///
/// x: N C H W, or C H W.
/// Returns: N C H' W', or C H' W'.
/// Gradient: dy to the largest element.
GW_API gw_tensor *gw_max_pool2d(gw_scope *s, gw_tensor *x, gw_pool_options options GW_DEFAULT({}))
    GW_CALLS(gw_max_pool2d_with);
#define gw_max_pool2d(...) GW_FORM_2(gw_max_pool2d, gw_pool_options, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_max_pool2d) gw_max_pool2d_with;

/// Averages each window.
///
/// x: N C L, or C L.
/// Returns: N C L', or C L'.
/// Gradient: dy / divisor to each element.
GW_API gw_tensor *gw_avg_pool1d(gw_scope *s, gw_tensor *x, gw_pool_options options GW_DEFAULT({}))
    GW_CALLS(gw_avg_pool1d_with);
#define gw_avg_pool1d(...) GW_FORM_2(gw_avg_pool1d, gw_pool_options, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_avg_pool1d) gw_avg_pool1d_with;

/// Averages each window.
///
/// x: N C H W, or C H W.
/// Returns: N C H' W', or C H' W'.
/// Gradient: dy / divisor to each element.
GW_API gw_tensor *gw_avg_pool2d(gw_scope *s, gw_tensor *x, gw_pool_options options GW_DEFAULT({}))
    GW_CALLS(gw_avg_pool2d_with);
#define gw_avg_pool2d(...) GW_FORM_2(gw_avg_pool2d, gw_pool_options, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_avg_pool2d) gw_avg_pool2d_with;

/// Averages |length| windows that together cover the input.
///
/// x: N C L, or C L.
/// Returns: N C |length|, or C |length|.
/// Gradient: dy / the window's size to each element.
GW_API gw_tensor *gw_adaptive_avg_pool1d(gw_scope *s, gw_tensor *x, int64_t length);

/// Averages |height| by |width| windows that together cover the input.
///
/// x: N C H W, or C H W.
/// Returns: N C |height| |width|, or C |height| |width|.
/// Gradient: dy / the window's size to each element.
GW_API gw_tensor *gw_adaptive_avg_pool2d(gw_scope *s, gw_tensor *x, int64_t height, int64_t width);

// ---- Recurrent layers ---------------------------------------------------------------------------
// The functions below compute one layer in one direction over sequences of f32 or f64. gw_nn_lstm and similar modules
// compute several layers.

/// Parameters of a recurrent layer of hidden size H, with G gates in PyTorch's order.
typedef struct gw_recurrent_weights {
    gw_tensor *weight_ih;          ///< G H by E
    gw_tensor *weight_hh;          ///< G H by H
    gw_tensor *bias_ih, *bias_hh;  ///< G H, or NULL
} gw_recurrent_weights;

/// Options of recurrent layers.
typedef struct GW_BY_NAME gw_recurrent_options {
    /// The length of each sequence: N, i64. The state of a sequence does not change in steps beyond its length. NULL: T
    /// for all sequences.
    gw_tensor *lengths GW_DEFAULT(NULL);
    bool reverse GW_DEFAULT(false);      ///< from the end to the beginning
    bool relu GW_DEFAULT(false);         ///< for gw_rnn: relu in place of tanh
    gw_tensor **out_c GW_DEFAULT(NULL);  ///< for gw_lstm: receives the cell states, T N H
} gw_recurrent_options;

/// Runs a long short-term memory; 4 gates: i f g o.
///
/// x: T N E.
/// h0, c0: N H.
/// Returns: T N H, the state after each step.
/// Gradient: to x, h0, c0 and the weights.
/// Source: torch.nn.LSTM; Hochreiter, Schmidhuber 1997.
GW_API gw_tensor *gw_lstm(gw_scope *s, gw_tensor *x, gw_tensor *h0, gw_tensor *c0,
                          gw_recurrent_weights w, gw_recurrent_options options GW_DEFAULT({}))
    GW_CALLS(gw_lstm_with);
#define gw_lstm(...) GW_FORM_5(gw_lstm, gw_recurrent_options, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_lstm) gw_lstm_with;

/// Runs a gated recurrent unit; 3 gates: r z n.
///
/// x: T N E.
/// h0: N H.
/// Returns: T N H, the state after each step.
/// Gradient: to x, h0 and the weights.
/// Source: torch.nn.GRU; Cho et al. 2014.
GW_API gw_tensor *gw_gru(gw_scope *s, gw_tensor *x, gw_tensor *h0, gw_recurrent_weights w,
                         gw_recurrent_options options GW_DEFAULT({})) GW_CALLS(gw_gru_with);
#define gw_gru(...) GW_FORM_4(gw_gru, gw_recurrent_options, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_gru) gw_gru_with;

/// Runs a recurrent layer h = tanh(...), or relu; 1 gate.
///
/// x: T N E.
/// h0: N H.
/// Returns: T N H, the state after each step.
/// Gradient: to x, h0 and the weights.
/// Source: torch.nn.RNN; Elman 1990.
GW_API gw_tensor *gw_rnn(gw_scope *s, gw_tensor *x, gw_tensor *h0, gw_recurrent_weights w,
                         gw_recurrent_options options GW_DEFAULT({})) GW_CALLS(gw_rnn_with);
#define gw_rnn(...) GW_FORM_4(gw_rnn, gw_recurrent_options, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_rnn) gw_rnn_with;

// ---- Indexing -----------------------------------------------------------------------------------
// Indices are i64 or i32; a call fails with INVALID if an index is out of range.

/// Picks elements along |dim| by |index|: result[i, j] = x[index[i, j], j] for dimension 0.
///
/// index: as many dimensions as x. A size may be larger than in x only along |dim|.
/// Returns: in the shape of |index|.
/// Gradient: the picked elements of x get dy.
GW_API gw_tensor *gw_gather(gw_scope *s, gw_tensor *x, int dim, gw_tensor *index);

/// Writes elements along |dim| by |index|: result[index[i, j], j] = source[i, j] for dimension 0. If an element is
/// written several times, the last value is kept.
///
/// index: as for gw_gather.
/// source: no shorter than |index|, or a number.
/// Returns: a changed copy of x.
/// Gradient: dy to x where no element was written; dy at the index to |source|.
GW_API gw_tensor *gw_scatter(gw_scope *s, gw_tensor *x, int dim, gw_tensor *index, gw_value source)
    GW_CALLS(gw_scatter_with);
#define gw_scatter(s, x, dim, index, source)                                                       \
    gw_scatter_with((s), (x), (dim), (index), gw_value_of(source))
GW_API GW_TYPE_OF(gw_scatter) gw_scatter_with;

/// Adds elements along |dim| by |index|: result[index[i, j], j] += source[i, j] for dimension 0. Elements are added in
/// the order of |index|.
///
/// index: as for gw_gather.
/// source: no shorter than |index|.
/// Returns: a changed copy of x.
/// Gradient: dy to x; dy at the index to |source|.
GW_API gw_tensor *gw_scatter_add(gw_scope *s, gw_tensor *x, int dim, gw_tensor *index,
                                 gw_tensor *source);

/// Picks slices along |dim|.
///
/// index: N.
/// Returns: x with N slices along |dim|.
/// Gradient: the picked slices of x get dy.
GW_API gw_tensor *gw_index_select(gw_scope *s, gw_tensor *x, int dim, gw_tensor *index);

/// Finds the elements that are not 0.
/// Returns: for N elements that are not 0, a matrix of N rows, i64. A row has the indices of one element, one for each
/// dimension of x.
GW_API gw_tensor *gw_nonzero(gw_scope *s, gw_tensor *x);

/// The results of gw_sort and gw_topk: elements, and the index of each element in the operand (i64).
typedef struct gw_sorted {
    gw_tensor *values, *indices;
} gw_sorted;

/// Options of gw_sort.
typedef struct GW_BY_NAME gw_sort_options {
    int dim GW_DEFAULT(-1);
    bool descending GW_DEFAULT(false);
} gw_sort_options;

/// Sorts along a dimension. Equal elements keep their order; NaN counts as the largest.
/// Returns: values and indices in the shape of x.
/// Gradient: dy of a value to the element from which the value was taken.
GW_API gw_sorted gw_sort(gw_scope *s, gw_tensor *x, gw_sort_options options GW_DEFAULT({}))
    GW_CALLS(gw_sort_with);
#define gw_sort(...) GW_FORM_2(gw_sort, gw_sort_options, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_sort) gw_sort_with;

/// Options of gw_topk.
typedef struct GW_BY_NAME gw_topk_options {
    int dim GW_DEFAULT(-1);
    bool largest GW_DEFAULT(true);  ///< false: the smallest
} gw_topk_options;

/// Finds the |k| largest elements along a dimension, in order.
/// Returns: |k| values and indices along the dimension.
/// Gradient: dy of a value to the element from which the value was taken.
/// Errors: INVALID if the dimension has fewer than |k| elements.
GW_API gw_sorted gw_topk(gw_scope *s, gw_tensor *x, int64_t k,
                         gw_topk_options options GW_DEFAULT({})) GW_CALLS(gw_topk_with);
#define gw_topk(...) GW_FORM_3(gw_topk, gw_topk_options, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_topk) gw_topk_with;

/// Options of gw_multinomial.
typedef struct GW_BY_NAME gw_multinomial_options {
    bool replacement GW_DEFAULT(false);  ///< a class may be drawn more than once
} gw_multinomial_options;

/// Draws classes by their weights from the generator of |s|.
///
/// p: the weights, C or N C; no weight is negative, infinite or NaN, and at least one weight of a row is not 0.
/// samples: the number of draws for each row; without replacement at most the number of weights above 0.
/// Returns: |samples|, or N |samples|; i64.
GW_API gw_tensor *gw_multinomial(gw_scope *s, gw_tensor *p, int64_t samples,
                                 gw_multinomial_options options GW_DEFAULT({}))
    GW_CALLS(gw_multinomial_with);
#define gw_multinomial(...)                                                                        \
    (GW_DRAWS, GW_FORM_3(gw_multinomial, gw_multinomial_options, __VA_ARGS__))
GW_API GW_TYPE_OF(gw_multinomial) gw_multinomial_with;

/// Draws 1 with probability |p|, else 0, from the generator of |s|.
///
/// p: floating, from 0 to 1.
/// Returns: a tensor of the shape and dtype of |p|.
/// Gradient: 0.
GW_API gw_tensor *gw_bernoulli(gw_scope *s, gw_tensor *p);

// ---- In place -----------------------------------------------------------------------------------
// The functions below write into |x| and return |x|. Other workers cannot call these functions. Every view of |x| has
// the new values. A backward pass or a message that needs the old values keeps the old values.
//
// The result has the shape of |x|: only the other operand broadcasts. The kinds of dtypes are, from high to low, float,
// int and bool. The dtype of the other operand must not be of a higher kind than the dtype of |x|. With gradients on,
// |x| becomes the result of the operator in the graph. A call then fails with INVALID if |x| is a leaf that needs a
// gradient. It also fails with INVALID if |x| shares values with another tensor and gradients would flow through both,
// for example if |x| is a slice of a result. With gradients off (gw_no_grad) no operation is recorded, and the graph of
// |x| does not change.

/// Adds |other| to |x| in place: gw_add_(s, x, other).
/// Returns: |x|.
/// Gradient: as gw_add.
GW_API gw_tensor *gw_add_(gw_scope *s, gw_tensor *x, gw_value other) GW_CALLS(gw_add_with_);
#define gw_add_(s, x, other) gw_add_with_((s), (x), gw_value_of(other))
GW_API GW_TYPE_OF(gw_add_) gw_add_with_;
/// Subtracts |other| from |x| in place.
/// Returns: |x|.
/// Gradient: as gw_sub.
GW_API gw_tensor *gw_sub_(gw_scope *s, gw_tensor *x, gw_value other) GW_CALLS(gw_sub_with_);
#define gw_sub_(s, x, other) gw_sub_with_((s), (x), gw_value_of(other))
GW_API GW_TYPE_OF(gw_sub_) gw_sub_with_;
/// Multiplies |x| by |other| in place.
/// Returns: |x|.
/// Gradient: as gw_mul.
GW_API gw_tensor *gw_mul_(gw_scope *s, gw_tensor *x, gw_value other) GW_CALLS(gw_mul_with_);
#define gw_mul_(s, x, other) gw_mul_with_((s), (x), gw_value_of(other))
GW_API GW_TYPE_OF(gw_mul_) gw_mul_with_;
/// Divides |x| by |other| in place.
/// Returns: |x|.
/// Gradient: as gw_div.
GW_API gw_tensor *gw_div_(gw_scope *s, gw_tensor *x, gw_value other) GW_CALLS(gw_div_with_);
#define gw_div_(s, x, other) gw_div_with_((s), (x), gw_value_of(other))
GW_API GW_TYPE_OF(gw_div_) gw_div_with_;
/// Copies |source| into |x|. |source| broadcasts, and may have any dtype.
/// Returns: |x|.
/// Gradient: dy to |source|.
GW_API gw_tensor *gw_copy_(gw_scope *s, gw_tensor *x, gw_tensor *source);
/// Sets all elements of |x| to one number.
/// Returns: |x|.
GW_API gw_tensor *gw_fill_(gw_scope *s, gw_tensor *x, gw_value value) GW_CALLS(gw_fill_with_);
#define gw_fill_(s, x, value) gw_fill_with_((s), (x), gw_value_of(value))
GW_API GW_TYPE_OF(gw_fill_) gw_fill_with_;
/// Sets all elements of |x| to 0.
/// Returns: |x|.
GW_API gw_tensor *gw_zero_(gw_scope *s, gw_tensor *x);
/// Draws integers n, with |from| <= n < |to|, into |x|, from the generator of |s|.
///
/// x: of a dtype that holds these integers.
/// Returns: |x|.
GW_API gw_tensor *gw_random_(gw_scope *s, gw_tensor *x, int64_t from, int64_t to);
/// Draws numbers uniform from |from| to |to| into |x|, from the generator of |s|.
///
/// x: floating.
/// Returns: |x|.
GW_API gw_tensor *gw_uniform_(gw_scope *s, gw_tensor *x, double from, double to);
/// Draws normal numbers into |x|, from the generator of |s|.
///
/// x: floating.
/// Returns: |x|.
GW_API gw_tensor *gw_normal_(gw_scope *s, gw_tensor *x, double mean, double std);
/// Draws 1 with probability |p|, else 0, into |x|, from the generator of |s|.
///
/// x: of any dtype.
/// Returns: |x|.
GW_API gw_tensor *gw_bernoulli_(gw_scope *s, gw_tensor *x, double p);

// ---- Comparing whole tensors --------------------------------------------------------------------

/// Compares the shapes and all values of two tensors of one dtype. NaN is not equal to any value.
/// Returns: whether the shapes and all values are equal; false in a scope that has failed.
GW_API bool gw_equal(gw_scope *s, gw_tensor *a, gw_tensor *b);

/// Options of gw_allclose.
typedef struct GW_BY_NAME gw_allclose_options {
    double rtol GW_DEFAULT(1e-5), atol GW_DEFAULT(1e-8);
} gw_allclose_options;

/// Compares two tensors of one dtype after broadcasting.
/// Returns: whether abs(a - b) <= atol + rtol abs(b) everywhere; false in a scope that has failed.
GW_API bool gw_allclose(gw_scope *s, gw_tensor *a, gw_tensor *b,
                        gw_allclose_options options GW_DEFAULT({})) GW_CALLS(gw_allclose_with);
#define gw_allclose(...) GW_FORM_3(gw_allclose, gw_allclose_options, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_allclose) gw_allclose_with;

#ifdef __cplusplus
}
#endif
#include <gradwire/detail/ops.h>
#endif
