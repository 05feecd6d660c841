// Operators: the language of training programs.
//
// Bare verbs with PyTorch's names, shapes and rules. Every one of them is also a function that any
// worker serves under the name "gw.<name>", and most have a derivative.
//
//     gw_tensor *h = gw_relu(s, gw_linear(s, x, weight, bias));          // x: N F, weight: O F, bias: O
//     gw_tensor *p = gw_softmax(s, gw_mul(s, h, 0.5), -1);
//
// Halves are computed in f32 and rounded once, also in derivatives, so that they overflow only where
// the result does.
//
// Operands written |a|, |b| may be tensors or numbers. Errors are INVALID with the operator, the
// operands and the rule: "gw.matmul: 6x5 times 4x8: the 5 columns of a must be the 4 rows of b".
// Ownership: results belong to |s|. Views share their operand's storage.
// Threads: as the scope.
#ifndef GRADWIRE_OPS_H
#define GRADWIRE_OPS_H

#include <gradwire/detail/options.h>
#include <gradwire/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

// What is not given, where every number would mean something.
#define GW_NOT_GIVEN INT64_MIN

// ---- Views and shapes ---------------------------------------------------------------------------
GW_API gw_tensor *gw_reshape(gw_scope *s, gw_tensor *x, gw_shape shape) GW_CALLS(gw_reshape_with);
#define gw_reshape(...) GW_SIZES(gw_reshape, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_reshape) gw_reshape_with;  // one size may be -1; copies if it must
GW_API gw_tensor *gw_view(gw_scope *s, gw_tensor *x, gw_shape shape) GW_CALLS(gw_view_with);
#define gw_view(...) GW_SIZES(gw_view, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_view) gw_view_with;  // the same, but never copies: INVALID
GW_API gw_tensor *gw_expand(gw_scope *s, gw_tensor *x, gw_shape shape) GW_CALLS(gw_expand_with);
#define gw_expand(...) GW_SIZES(gw_expand, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_expand) gw_expand_with;  // -1 keeps a size
GW_API gw_tensor *gw_permute(gw_scope *s, gw_tensor *x, gw_shape dims) GW_CALLS(gw_permute_with);
#define gw_permute(...) GW_SIZES(gw_permute, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_permute) gw_permute_with;
GW_API gw_tensor *gw_transpose(gw_scope *s, gw_tensor *x, int dim0, int dim1);
GW_API gw_tensor *gw_slice(gw_scope *s, gw_tensor *x, int dim, int64_t start, int64_t end,
                           int64_t step);
GW_API gw_tensor *gw_select(gw_scope *s, gw_tensor *x, int dim, int64_t index);

// The parts of x along |dim|, as views, in a list of tensors: of |size| each, of |sizes| (at most
// 32), or |chunks| of them, if so many are needed to have parts of one size; the last part may be
// smaller (torch.split, torch.chunk).
//
//     gw_list *gates = gw_chunk(s, x, 4, -1);
//     gw_tensor *input = gw_tensor_of(s, gw_list_get(s, gates, 0));
GW_API gw_list *gw_split(gw_scope *s, gw_tensor *x, int64_t size, int dim);
GW_API gw_list *gw_split_with_sizes(gw_scope *s, gw_tensor *x, gw_shape sizes, int dim);
GW_API gw_list *gw_chunk(gw_scope *s, gw_tensor *x, int64_t chunks, int dim);

GW_API gw_tensor *gw_squeeze(gw_scope *s, gw_tensor *x, int dim);
GW_API gw_tensor *gw_unsqueeze(gw_scope *s, gw_tensor *x, int dim);
GW_API gw_tensor *gw_contiguous(gw_scope *s, gw_tensor *x);
GW_API gw_tensor *gw_clone(gw_scope *s, gw_tensor *x);
GW_API gw_tensor *gw_to_dtype(gw_scope *s, gw_tensor *x, gw_dtype dtype);
GW_API gw_tensor *gw_cat(gw_scope *s, gw_tensor *const *xs, int count, int dim);
GW_API gw_tensor *gw_stack(gw_scope *s, gw_tensor *const *xs, int count, int dim);

// ---- Arithmetic, broadcast and promoted ---------------------------------------------------------
GW_API gw_tensor *gw_add(gw_scope *s, gw_value a, gw_value b) GW_CALLS(gw_add_with);
#define gw_add(s, a, b) gw_add_with((s), gw_value_of(a), gw_value_of(b))
GW_API GW_TYPE_OF(gw_add) gw_add_with;
GW_API gw_tensor *gw_sub(gw_scope *s, gw_value a, gw_value b) GW_CALLS(gw_sub_with);
#define gw_sub(s, a, b) gw_sub_with((s), gw_value_of(a), gw_value_of(b))
GW_API GW_TYPE_OF(gw_sub) gw_sub_with;
GW_API gw_tensor *gw_mul(gw_scope *s, gw_value a, gw_value b) GW_CALLS(gw_mul_with);
#define gw_mul(s, a, b) gw_mul_with((s), gw_value_of(a), gw_value_of(b))
GW_API GW_TYPE_OF(gw_mul) gw_mul_with;
GW_API gw_tensor *gw_div(gw_scope *s, gw_value a, gw_value b) GW_CALLS(gw_div_with);
#define gw_div(s, a, b) gw_div_with((s), gw_value_of(a), gw_value_of(b))
GW_API GW_TYPE_OF(gw_div) gw_div_with;  // true division
GW_API gw_tensor *gw_pow(gw_scope *s, gw_value a, gw_value b) GW_CALLS(gw_pow_with);
#define gw_pow(s, a, b) gw_pow_with((s), gw_value_of(a), gw_value_of(b))
GW_API GW_TYPE_OF(gw_pow) gw_pow_with;
// Of maximum and minimum: NaN if one is; equals share the gradient, and beside NaN both get it.
GW_API gw_tensor *gw_maximum(gw_scope *s, gw_value a, gw_value b) GW_CALLS(gw_maximum_with);
#define gw_maximum(s, a, b) gw_maximum_with((s), gw_value_of(a), gw_value_of(b))
GW_API GW_TYPE_OF(gw_maximum) gw_maximum_with;
GW_API gw_tensor *gw_minimum(gw_scope *s, gw_value a, gw_value b) GW_CALLS(gw_minimum_with);
#define gw_minimum(s, a, b) gw_minimum_with((s), gw_value_of(a), gw_value_of(b))
GW_API GW_TYPE_OF(gw_minimum) gw_minimum_with;

// a - floor(a / b) b, with the sign of b, as torch.remainder. INVALID for integers if b is 0
// somewhere.
GW_API gw_tensor *gw_remainder(gw_scope *s, gw_value a, gw_value b) GW_CALLS(gw_remainder_with);
#define gw_remainder(s, a, b) gw_remainder_with((s), gw_value_of(a), gw_value_of(b))
GW_API GW_TYPE_OF(gw_remainder) gw_remainder_with;

GW_API gw_tensor *gw_eq(gw_scope *s, gw_value a, gw_value b) GW_CALLS(gw_eq_with);
#define gw_eq(s, a, b) gw_eq_with((s), gw_value_of(a), gw_value_of(b))
GW_API GW_TYPE_OF(gw_eq) gw_eq_with;  // comparisons give bool
GW_API gw_tensor *gw_ne(gw_scope *s, gw_value a, gw_value b) GW_CALLS(gw_ne_with);
#define gw_ne(s, a, b) gw_ne_with((s), gw_value_of(a), gw_value_of(b))
GW_API GW_TYPE_OF(gw_ne) gw_ne_with;
GW_API gw_tensor *gw_lt(gw_scope *s, gw_value a, gw_value b) GW_CALLS(gw_lt_with);
#define gw_lt(s, a, b) gw_lt_with((s), gw_value_of(a), gw_value_of(b))
GW_API GW_TYPE_OF(gw_lt) gw_lt_with;
GW_API gw_tensor *gw_le(gw_scope *s, gw_value a, gw_value b) GW_CALLS(gw_le_with);
#define gw_le(s, a, b) gw_le_with((s), gw_value_of(a), gw_value_of(b))
GW_API GW_TYPE_OF(gw_le) gw_le_with;
GW_API gw_tensor *gw_gt(gw_scope *s, gw_value a, gw_value b) GW_CALLS(gw_gt_with);
#define gw_gt(s, a, b) gw_gt_with((s), gw_value_of(a), gw_value_of(b))
GW_API GW_TYPE_OF(gw_gt) gw_gt_with;
GW_API gw_tensor *gw_ge(gw_scope *s, gw_value a, gw_value b) GW_CALLS(gw_ge_with);
#define gw_ge(s, a, b) gw_ge_with((s), gw_value_of(a), gw_value_of(b))
GW_API GW_TYPE_OF(gw_ge) gw_ge_with;
GW_API gw_tensor *gw_where(gw_scope *s, gw_tensor *condition, gw_value a, gw_value b)
    GW_CALLS(gw_where_with);
#define gw_where(s, condition, a, b) gw_where_with((s), (condition), gw_value_of(a), gw_value_of(b))
GW_API GW_TYPE_OF(gw_where) gw_where_with;

// x with |value|, a number or a scalar's tensor, where |mask| (bool) says so, in the dtype of x. x
// and mask broadcast.
GW_API gw_tensor *gw_masked_fill(gw_scope *s, gw_tensor *x, gw_tensor *mask, gw_value value)
    GW_CALLS(gw_masked_fill_with);
#define gw_masked_fill(s, x, mask, value) gw_masked_fill_with((s), (x), (mask), gw_value_of(value))
GW_API GW_TYPE_OF(gw_masked_fill) gw_masked_fill_with;

// ---- Truth --------------------------------------------------------------------------------------
// Of any dtype, NaN and everything that is not 0 is true; the result is bool.
GW_API gw_tensor *gw_logical_and(gw_scope *s, gw_value a, gw_value b) GW_CALLS(gw_logical_and_with);
#define gw_logical_and(s, a, b) gw_logical_and_with((s), gw_value_of(a), gw_value_of(b))
GW_API GW_TYPE_OF(gw_logical_and) gw_logical_and_with;
GW_API gw_tensor *gw_logical_or(gw_scope *s, gw_value a, gw_value b) GW_CALLS(gw_logical_or_with);
#define gw_logical_or(s, a, b) gw_logical_or_with((s), gw_value_of(a), gw_value_of(b))
GW_API GW_TYPE_OF(gw_logical_or) gw_logical_or_with;
GW_API gw_tensor *gw_logical_xor(gw_scope *s, gw_value a, gw_value b) GW_CALLS(gw_logical_xor_with);
#define gw_logical_xor(s, a, b) gw_logical_xor_with((s), gw_value_of(a), gw_value_of(b))
GW_API GW_TYPE_OF(gw_logical_xor) gw_logical_xor_with;
GW_API gw_tensor *gw_logical_not(gw_scope *s, gw_tensor *x);
GW_API gw_tensor *gw_isfinite(gw_scope *s, gw_tensor *x);
GW_API gw_tensor *gw_isnan(gw_scope *s, gw_tensor *x);
GW_API gw_tensor *gw_isinf(gw_scope *s, gw_tensor *x);

// Of integers, bit by bit, and of bools; promoted as in arithmetic.
GW_API gw_tensor *gw_bitwise_and(gw_scope *s, gw_value a, gw_value b) GW_CALLS(gw_bitwise_and_with);
#define gw_bitwise_and(s, a, b) gw_bitwise_and_with((s), gw_value_of(a), gw_value_of(b))
GW_API GW_TYPE_OF(gw_bitwise_and) gw_bitwise_and_with;
GW_API gw_tensor *gw_bitwise_or(gw_scope *s, gw_value a, gw_value b) GW_CALLS(gw_bitwise_or_with);
#define gw_bitwise_or(s, a, b) gw_bitwise_or_with((s), gw_value_of(a), gw_value_of(b))
GW_API GW_TYPE_OF(gw_bitwise_or) gw_bitwise_or_with;
GW_API gw_tensor *gw_bitwise_xor(gw_scope *s, gw_value a, gw_value b) GW_CALLS(gw_bitwise_xor_with);
#define gw_bitwise_xor(s, a, b) gw_bitwise_xor_with((s), gw_value_of(a), gw_value_of(b))
GW_API GW_TYPE_OF(gw_bitwise_xor) gw_bitwise_xor_with;
GW_API gw_tensor *gw_bitwise_not(gw_scope *s, gw_tensor *x);

// ---- One number at a time -----------------------------------------------------------------------
GW_API gw_tensor *gw_neg(gw_scope *s, gw_tensor *x);
GW_API gw_tensor *gw_abs(gw_scope *s, gw_tensor *x);
GW_API gw_tensor *gw_exp(gw_scope *s, gw_tensor *x);
GW_API gw_tensor *gw_log(gw_scope *s, gw_tensor *x);
GW_API gw_tensor *gw_sqrt(gw_scope *s, gw_tensor *x);
GW_API gw_tensor *gw_rsqrt(gw_scope *s, gw_tensor *x);
GW_API gw_tensor *gw_tanh(gw_scope *s, gw_tensor *x);
GW_API gw_tensor *gw_sigmoid(gw_scope *s, gw_tensor *x);
GW_API gw_tensor *gw_relu(gw_scope *s, gw_tensor *x);  // NaN stays, and so does its gradient
GW_API gw_tensor *gw_leaky_relu(gw_scope *s, gw_tensor *x, double negative_slope);
GW_API gw_tensor *gw_gelu(gw_scope *s, gw_tensor *x);  // exact, by erf (Hendrycks, Gimpel 2016)
GW_API gw_tensor *gw_silu(gw_scope *s, gw_tensor *x);
// Where |min| is above |max| all is |max|, where a bound is NaN all is NaN, and NaN stays NaN.
GW_API gw_tensor *gw_clamp(gw_scope *s, gw_tensor *x, double min, double max);
GW_API gw_tensor *gw_sin(gw_scope *s, gw_tensor *x);
GW_API gw_tensor *gw_cos(gw_scope *s, gw_tensor *x);
GW_API gw_tensor *gw_floor(gw_scope *s, gw_tensor *x);  // these four leave integers as they are
GW_API gw_tensor *gw_ceil(gw_scope *s, gw_tensor *x);
GW_API gw_tensor *gw_round(gw_scope *s, gw_tensor *x);  // halves to the even neighbour
GW_API gw_tensor *gw_trunc(gw_scope *s, gw_tensor *x);

// ---- Products -----------------------------------------------------------------------------------
// The product of a and b as torch.matmul takes it: a vector is a row on the left and a column on
// the right, more than two dimensions are a batch of matrices, and batches broadcast. a: ... M K,
// b: ... K N, result: ... M N. Both have the same dtype, any but bool; integers wrap around. Floats
// are multiplied by OpenBLAS if it is there (GW_BLAS=plain: by our own loops), with one thread or
// as many as GW_BLAS_THREADS says.
GW_API gw_tensor *gw_matmul(gw_scope *s, gw_tensor *a, gw_tensor *b);

// x W^T + b. x: ... F, weight: O F, bias: O or NULL, result: ... O.
GW_API gw_tensor *gw_linear(gw_scope *s, gw_tensor *x, gw_tensor *weight, gw_tensor *bias);

// The lower and the upper triangle of each matrix, 0 elsewhere. x: ... M N. |diagonal| is the last
// one of tril and the first one of triu: 0 the main one, 1 the one above.
GW_API gw_tensor *gw_tril(gw_scope *s, gw_tensor *x, int64_t diagonal);
GW_API gw_tensor *gw_triu(gw_scope *s, gw_tensor *x, int64_t diagonal);

// ---- Reductions ---------------------------------------------------------------------------------
// gw_sum(s, x, .dim = -1, .keepdim = true): over everything, which gives a scalar; or along one
// dimension, which goes away, or stays as size 1 with .keepdim; or over several, .dims = GW_SHAPE(0,
// -1), none of them twice. A negative dimension counts from the end. Numbers are always added in the
// same order: the same tensor gives the same bits.
typedef struct GW_BY_NAME gw_dims_options {
    int64_t dim GW_DEFAULT(GW_NOT_GIVEN);  // or
    gw_shape dims GW_DEFAULT({});          // none: everything
    bool keepdim GW_DEFAULT(false);
} gw_dims_options;

typedef struct GW_BY_NAME gw_dim_options {
    int64_t dim GW_DEFAULT(GW_NOT_GIVEN);  // then everything
    bool keepdim GW_DEFAULT(false);
} gw_dim_options;

// Integers and bools add up as i64.
GW_API gw_tensor *gw_sum(gw_scope *s, gw_tensor *x, gw_dims_options options GW_DEFAULT({}))
    GW_CALLS(gw_sum_with);
#define gw_sum(...) GW_FORM_2(gw_sum, gw_dims_options, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_sum) gw_sum_with;

// Of floats only. The variance is unbiased (over n - 1), NaN for a single number, and the deviation
// its root.
GW_API gw_tensor *gw_mean(gw_scope *s, gw_tensor *x, gw_dims_options options GW_DEFAULT({}))
    GW_CALLS(gw_mean_with);
#define gw_mean(...) GW_FORM_2(gw_mean, gw_dims_options, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_mean) gw_mean_with;
GW_API gw_tensor *gw_var(gw_scope *s, gw_tensor *x, gw_dims_options options GW_DEFAULT({}))
    GW_CALLS(gw_var_with);
#define gw_var(...) GW_FORM_2(gw_var, gw_dims_options, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_var) gw_var_with;
GW_API gw_tensor *gw_std(gw_scope *s, gw_tensor *x, gw_dims_options options GW_DEFAULT({}))
    GW_CALLS(gw_std_with);
#define gw_std(...) GW_FORM_2(gw_std, gw_dims_options, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_std) gw_std_with;

// The largest and smallest numbers, NaN if there is one, and where the first of them stands (i64;
// over everything: counted through all dimensions). INVALID if there is nothing to choose from.
GW_API gw_tensor *gw_max(gw_scope *s, gw_tensor *x, gw_dim_options options GW_DEFAULT({}))
    GW_CALLS(gw_max_with);
#define gw_max(...) GW_FORM_2(gw_max, gw_dim_options, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_max) gw_max_with;
GW_API gw_tensor *gw_min(gw_scope *s, gw_tensor *x, gw_dim_options options GW_DEFAULT({}))
    GW_CALLS(gw_min_with);
#define gw_min(...) GW_FORM_2(gw_min, gw_dim_options, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_min) gw_min_with;
GW_API gw_tensor *gw_argmax(gw_scope *s, gw_tensor *x, gw_dim_options options GW_DEFAULT({}))
    GW_CALLS(gw_argmax_with);
#define gw_argmax(...) GW_FORM_2(gw_argmax, gw_dim_options, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_argmax) gw_argmax_with;
GW_API gw_tensor *gw_argmin(gw_scope *s, gw_tensor *x, gw_dim_options options GW_DEFAULT({}))
    GW_CALLS(gw_argmin_with);
#define gw_argmin(...) GW_FORM_2(gw_argmin, gw_dim_options, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_argmin) gw_argmin_with;

// The largest and smallest numbers over several dimensions. Equals share the gradient, and so do
// several NaN.
GW_API gw_tensor *gw_amax(gw_scope *s, gw_tensor *x, gw_dims_options options GW_DEFAULT({}))
    GW_CALLS(gw_amax_with);
#define gw_amax(...) GW_FORM_2(gw_amax, gw_dims_options, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_amax) gw_amax_with;
GW_API gw_tensor *gw_amin(gw_scope *s, gw_tensor *x, gw_dims_options options GW_DEFAULT({}))
    GW_CALLS(gw_amin_with);
#define gw_amin(...) GW_FORM_2(gw_amin, gw_dims_options, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_amin) gw_amin_with;

// Products; those of integers and bools are i64.
GW_API gw_tensor *gw_prod(gw_scope *s, gw_tensor *x, gw_dims_options options GW_DEFAULT({}))
    GW_CALLS(gw_prod_with);
#define gw_prod(...) GW_FORM_2(gw_prod, gw_dims_options, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_prod) gw_prod_with;

// ln of the sum of e^x, of floats.
GW_API gw_tensor *gw_logsumexp(gw_scope *s, gw_tensor *x, gw_dims_options options GW_DEFAULT({}))
    GW_CALLS(gw_logsumexp_with);
#define gw_logsumexp(...) GW_FORM_2(gw_logsumexp, gw_dims_options, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_logsumexp) gw_logsumexp_with;

// gw_norm(s, x, p, .dim = -1, ...): (sum of |x|^p)^(1/p), of floats; the largest and smallest |x|
// for p infinite, and how many numbers are not 0 for p 0.
GW_API gw_tensor *gw_norm(gw_scope *s, gw_tensor *x, double p,
                          gw_dims_options options GW_DEFAULT({})) GW_CALLS(gw_norm_with);
#define gw_norm(...) GW_FORM_3(gw_norm, gw_dims_options, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_norm) gw_norm_with;

// Whether any number, or every one, is not 0: bool.
GW_API gw_tensor *gw_any(gw_scope *s, gw_tensor *x, gw_dims_options options GW_DEFAULT({}))
    GW_CALLS(gw_any_with);
#define gw_any(...) GW_FORM_2(gw_any, gw_dims_options, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_any) gw_any_with;
GW_API gw_tensor *gw_all(gw_scope *s, gw_tensor *x, gw_dims_options options GW_DEFAULT({}))
    GW_CALLS(gw_all_with);
#define gw_all(...) GW_FORM_2(gw_all, gw_dims_options, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_all) gw_all_with;

// Running sums, in the shape of x.
GW_API gw_tensor *gw_cumsum(gw_scope *s, gw_tensor *x, int dim);

// ---- Probabilities and losses -------------------------------------------------------------------
// gw_nll(s, logp, target, .reduction = GW_SUM_REDUCTION, ...), gw_cross_entropy, gw_mse, gw_bce_with_logits,
// gw_smooth_l1, gw_l1 and gw_kl_div take options by name, and give the mean without.
typedef enum gw_reduction {
    GW_MEAN = 0,
    GW_SUM_REDUCTION,
    GW_NO_REDUCTION,
    GW_BATCH_MEAN  // kl_div: the sum over the size of dimension 0
} gw_reduction;

typedef struct GW_BY_NAME gw_loss_options {
    gw_reduction reduction GW_DEFAULT(GW_MEAN);
    int64_t ignore_index GW_DEFAULT(-100);  // nll, cross_entropy: a target that counts for nothing
    double label_smoothing GW_DEFAULT(0);   // cross_entropy: in [0, 1]
    gw_tensor *
        weight GW_DEFAULT(NULL);  // nll, cross_entropy: what each class counts, of size C; NULL: 1
    bool log_target GW_DEFAULT(false);  // kl_div: the targets are logarithms, too
    double beta GW_DEFAULT(1.0);        // smooth_l1: where the parabola ends and the lines begin
} gw_loss_options;

// e^x over its sum along |dim|, and the logarithm of that.
GW_API gw_tensor *gw_softmax(gw_scope *s, gw_tensor *x, int dim);
GW_API gw_tensor *gw_log_softmax(gw_scope *s, gw_tensor *x, int dim);

// What the classes |target| cost, given the logarithms of their probabilities, or unnormalised
// ones. logp, logits: N C, or C, or N C and more dimensions; target: i64 or i32 of the same shape
// without C. INVALID if a target is no class. The mean is over the targets that are not ignored,
// and NaN if all are; with a weight it is the sum over the sum of their weights.
GW_API gw_tensor *gw_nll(gw_scope *s, gw_tensor *logp, gw_tensor *target,
                         gw_loss_options options GW_DEFAULT({})) GW_CALLS(gw_nll_with);
#define gw_nll(...) GW_FORM_3(gw_nll, gw_loss_options, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_nll) gw_nll_with;
GW_API gw_tensor *gw_cross_entropy(gw_scope *s, gw_tensor *logits, gw_tensor *target,
                                   gw_loss_options options GW_DEFAULT({}))
    GW_CALLS(gw_cross_entropy_with);
#define gw_cross_entropy(...) GW_FORM_3(gw_cross_entropy, gw_loss_options, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_cross_entropy) gw_cross_entropy_with;

// Losses of each number beside its target. x and target broadcast, but for bce_with_logits, where
// they have one shape; its targets are probabilities.
GW_API gw_tensor *gw_mse(gw_scope *s, gw_tensor *x, gw_tensor *target,
                         gw_loss_options options GW_DEFAULT({})) GW_CALLS(gw_mse_with);
#define gw_mse(...) GW_FORM_3(gw_mse, gw_loss_options, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_mse) gw_mse_with;
GW_API gw_tensor *gw_bce_with_logits(gw_scope *s, gw_tensor *x, gw_tensor *target,
                                     gw_loss_options options GW_DEFAULT({}))
    GW_CALLS(gw_bce_with_logits_with);
#define gw_bce_with_logits(...) GW_FORM_3(gw_bce_with_logits, gw_loss_options, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_bce_with_logits) gw_bce_with_logits_with;
GW_API gw_tensor *gw_smooth_l1(gw_scope *s, gw_tensor *x, gw_tensor *target,
                               gw_loss_options options GW_DEFAULT({})) GW_CALLS(gw_smooth_l1_with);
#define gw_smooth_l1(...) GW_FORM_3(gw_smooth_l1, gw_loss_options, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_smooth_l1) gw_smooth_l1_with;
GW_API gw_tensor *gw_l1(gw_scope *s, gw_tensor *x, gw_tensor *target,
                        gw_loss_options options GW_DEFAULT({})) GW_CALLS(gw_l1_with);
#define gw_l1(...) GW_FORM_3(gw_l1, gw_loss_options, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_l1) gw_l1_with;

// target (ln target - x), how far the probabilities e^x are from the target's (Kullback, Leibler
// 1951). The divergence of whole distributions is the GW_SUM_REDUCTION or the GW_BATCH_MEAN of it.
GW_API gw_tensor *gw_kl_div(gw_scope *s, gw_tensor *x, gw_tensor *target,
                            gw_loss_options options GW_DEFAULT({})) GW_CALLS(gw_kl_div_with);
#define gw_kl_div(...) GW_FORM_3(gw_kl_div, gw_loss_options, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_kl_div) gw_kl_div_with;

// ---- Layers' arithmetic -------------------------------------------------------------------------
// Indices are i64 or i32.

// gw_dropout(s, x, .p = 0.1, ...): in training, sets numbers to 0 with probability |p| and divides
// the others by 1 - p (Srivastava et al. 2014); else a view of x.
typedef struct GW_BY_NAME gw_dropout_options {
    double p GW_DEFAULT(0.5);
    bool training GW_DEFAULT(true);
} gw_dropout_options;

GW_API gw_tensor *gw_dropout(gw_scope *s, gw_tensor *x, gw_dropout_options options GW_DEFAULT({}))
    GW_CALLS(gw_dropout_with);
#define gw_dropout(...) (GW_DRAWS, GW_FORM_2(gw_dropout, gw_dropout_options, __VA_ARGS__))
GW_API GW_TYPE_OF(gw_dropout) gw_dropout_with;

typedef struct GW_BY_NAME gw_embedding_options {
    bool sparse GW_DEFAULT(
        false);  // the gradient of the table is sparse by rows (gradwire/tensor.h), so costs what is used
    int64_t padding_idx
        GW_DEFAULT(GW_NOT_GIVEN);  // a row that gets no gradient; from the end if negative
} gw_embedding_options;

// gw_embedding(s, weight, indices, .padding_idx = 0, ...): rows of a table. weight: V F, indices:
// any shape, result: that shape and F. INVALID if an index is no row.
GW_API gw_tensor *gw_embedding(gw_scope *s, gw_tensor *weight, gw_tensor *indices,
                               gw_embedding_options options GW_DEFAULT({}))
    GW_CALLS(gw_embedding_with);
#define gw_embedding(...) GW_FORM_3(gw_embedding, gw_embedding_options, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_embedding) gw_embedding_with;

// (x - mean) / sqrt(variance + eps) * weight + bias over the last dimensions, whose sizes are
// |normalized| (Ba, Kiros, Hinton 2016). weight, bias: that shape, or NULL.
GW_API gw_tensor *gw_layer_norm(gw_scope *s, gw_tensor *x, gw_shape normalized, gw_tensor *weight,
                                gw_tensor *bias, double eps);

// (x - mean) / sqrt(variance + eps) * weight + bias for each channel, which is dimension 1 of x
// (Ioffe, Szegedy 2015). In training by the mean and variance of x, which the running ones follow:
// running = (1 - momentum) running + momentum value, the variance unbiased; else by the running
// ones. weight, bias, running_mean, running_var: C, or NULL. The running ones have no derivative.
typedef struct GW_BY_NAME gw_batch_norm_options {
    gw_tensor *running_mean GW_DEFAULT(NULL), *running_var GW_DEFAULT(NULL);
    bool training GW_DEFAULT(false);
    double momentum GW_DEFAULT(0.1);
    double eps GW_DEFAULT(1e-5);
} gw_batch_norm_options;

GW_API gw_tensor *gw_batch_norm(gw_scope *s, gw_tensor *x, gw_tensor *weight, gw_tensor *bias,
                                gw_batch_norm_options options GW_DEFAULT({}))
    GW_CALLS(gw_batch_norm_with);
#define gw_batch_norm(...) GW_FORM_4(gw_batch_norm, gw_batch_norm_options, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_batch_norm) gw_batch_norm_with;

// Each index as a row of zeros and a one, i64. |classes| -1: one more than the largest index.
GW_API gw_tensor *gw_one_hot(gw_scope *s, gw_tensor *indices, int64_t classes);

// ---- Convolutions, pools ------------------------------------------------------------------------
// Of pairs the first number is for height, the second for width; in one dimension only the first
// counts.
typedef struct GW_BY_NAME gw_conv_options {
    int64_t stride[2] GW_DEFAULT({ 1, 1 });
    int64_t padding[2] GW_DEFAULT({ 0, 0 });   // zeros around the input
    int64_t dilation[2] GW_DEFAULT({ 1, 1 });  // how far apart the window's numbers are
    int64_t groups GW_DEFAULT(1);              // of channels, each with outputs of its own
} gw_conv_options;

// torch.nn.functional.conv1d and conv2d. x: N C L, weight: O C/groups K, bias: O or NULL, result: N
// O L'; and x: N C H W, weight: O C/groups K K'. Without N, one image.
GW_API gw_tensor *gw_conv1d(gw_scope *s, gw_tensor *x, gw_tensor *weight, gw_tensor *bias,
                            gw_conv_options options GW_DEFAULT({})) GW_CALLS(gw_conv1d_with);
#define gw_conv1d(...) GW_FORM_4(gw_conv1d, gw_conv_options, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_conv1d) gw_conv1d_with;
GW_API gw_tensor *gw_conv2d(gw_scope *s, gw_tensor *x, gw_tensor *weight, gw_tensor *bias,
                            gw_conv_options options GW_DEFAULT({})) GW_CALLS(gw_conv2d_with);
#define gw_conv2d(...) GW_FORM_4(gw_conv2d, gw_conv_options, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_conv2d) gw_conv2d_with;

typedef struct GW_BY_NAME gw_pool_options {
    int64_t kernel[2] GW_DEFAULT({ 0, 0 });                        // to be given
    int64_t stride[2] GW_DEFAULT({ GW_NOT_GIVEN, GW_NOT_GIVEN });  // then the kernel
    int64_t padding[2] GW_DEFAULT({ 0, 0 });                       // at most half of the kernel
    int64_t dilation[2] GW_DEFAULT({ 1, 1 });                      // of means always
    bool ceil_mode GW_DEFAULT(false);                   // the last window may reach over the end
    bool count_include_pad GW_DEFAULT(true);            // of means
    int64_t divisor_override GW_DEFAULT(GW_NOT_GIVEN);  // of sums, in place of the window's size
} gw_pool_options;

// The largest number of each window, and the mean: torch.nn.functional.max_pool1d and so on. x: N C
// L or C L, result: N C L'; and N C H W or C H W. NaN is larger than everything.
GW_API gw_tensor *gw_max_pool1d(gw_scope *s, gw_tensor *x, gw_pool_options options GW_DEFAULT({}))
    GW_CALLS(gw_max_pool1d_with);
#define gw_max_pool1d(...) GW_FORM_2(gw_max_pool1d, gw_pool_options, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_max_pool1d) gw_max_pool1d_with;
GW_API gw_tensor *gw_max_pool2d(gw_scope *s, gw_tensor *x, gw_pool_options options GW_DEFAULT({}))
    GW_CALLS(gw_max_pool2d_with);
#define gw_max_pool2d(...) GW_FORM_2(gw_max_pool2d, gw_pool_options, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_max_pool2d) gw_max_pool2d_with;
GW_API gw_tensor *gw_avg_pool1d(gw_scope *s, gw_tensor *x, gw_pool_options options GW_DEFAULT({}))
    GW_CALLS(gw_avg_pool1d_with);
#define gw_avg_pool1d(...) GW_FORM_2(gw_avg_pool1d, gw_pool_options, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_avg_pool1d) gw_avg_pool1d_with;
GW_API gw_tensor *gw_avg_pool2d(gw_scope *s, gw_tensor *x, gw_pool_options options GW_DEFAULT({}))
    GW_CALLS(gw_avg_pool2d_with);
#define gw_avg_pool2d(...) GW_FORM_2(gw_avg_pool2d, gw_pool_options, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_avg_pool2d) gw_avg_pool2d_with;

// Means of as many windows as are asked for, which together cover the input: of all of it with size
// 1.
GW_API gw_tensor *gw_adaptive_avg_pool1d(gw_scope *s, gw_tensor *x, int64_t length);
GW_API gw_tensor *gw_adaptive_avg_pool2d(gw_scope *s, gw_tensor *x, int64_t height, int64_t width);
// ---- Recurrent layers ---------------------------------------------------------------------------
// One layer over a sequence, in one direction; gw_nn_lstm and its like put several together. f32 or
// f64.
//
// gw_gru(s, x, h0, weights, .reverse = true, ...). x: T N E, h0, c0: N H, result: T N H, the state
// after each step.
typedef struct gw_recurrent_weights {
    gw_tensor *weight_ih;          // G H by E; the gates in PyTorch's order
    gw_tensor *weight_hh;          // G H by H
    gw_tensor *bias_ih, *bias_hh;  // G H, or NULL
} gw_recurrent_weights;

typedef struct GW_BY_NAME gw_recurrent_options {
    // N (i64), at which time each ends, NULL if none does before T: from there on its state stays
    // what it was.
    gw_tensor *lengths GW_DEFAULT(NULL);
    bool reverse GW_DEFAULT(false);      // from the end to the beginning
    bool relu GW_DEFAULT(false);         // of gw_rnn, in place of tanh
    gw_tensor **out_c GW_DEFAULT(NULL);  // of gw_lstm: receives the cells, T N H
} gw_recurrent_options;

// Hochreiter, Schmidhuber 1997; G is 4: i f g o.
GW_API gw_tensor *gw_lstm(gw_scope *s, gw_tensor *x, gw_tensor *h0, gw_tensor *c0,
                          gw_recurrent_weights w, gw_recurrent_options options GW_DEFAULT({}))
    GW_CALLS(gw_lstm_with);
#define gw_lstm(...) GW_FORM_5(gw_lstm, gw_recurrent_options, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_lstm) gw_lstm_with;

// Cho et al. 2014; G is 3: r z n.
GW_API gw_tensor *gw_gru(gw_scope *s, gw_tensor *x, gw_tensor *h0, gw_recurrent_weights w,
                         gw_recurrent_options options GW_DEFAULT({})) GW_CALLS(gw_gru_with);
#define gw_gru(...) GW_FORM_4(gw_gru, gw_recurrent_options, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_gru) gw_gru_with;

// Elman 1990; G is 1. h = tanh(...), or relu.
GW_API gw_tensor *gw_rnn(gw_scope *s, gw_tensor *x, gw_tensor *h0, gw_recurrent_weights w,
                         gw_recurrent_options options GW_DEFAULT({})) GW_CALLS(gw_rnn_with);
#define gw_rnn(...) GW_FORM_4(gw_rnn, gw_recurrent_options, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_rnn) gw_rnn_with;

// ---- Picking ------------------------------------------------------------------------------------
// Indices are i64 or i32. INVALID if one is out of range.

// result[i, j] = x[index[i, j], j] for dimension 0, and so on. index: the dimensions of x, none
// longer but |dim|.
GW_API gw_tensor *gw_gather(gw_scope *s, gw_tensor *x, int dim, gw_tensor *index);

// gw_scatter(s, x, dim, index, source): a copy of x with result[index[i, j], j] = source[i, j] for
// dimension 0, and so on; the last one if a place is named twice. source: no shorter than the
// index, or a number.
GW_API gw_tensor *gw_scatter(gw_scope *s, gw_tensor *x, int dim, gw_tensor *index, gw_value source)
    GW_CALLS(gw_scatter_with);
#define gw_scatter(s, x, dim, index, source)                                                       \
    gw_scatter_with((s), (x), (dim), (index), gw_value_of(source))
GW_API GW_TYPE_OF(gw_scatter) gw_scatter_with;

// A copy of x with result[index[i, j], j] += source[i, j] for dimension 0, and so on, in the order
// of the index.
GW_API gw_tensor *gw_scatter_add(gw_scope *s, gw_tensor *x, int dim, gw_tensor *index,
                                 gw_tensor *source);

// The slices of x along |dim| that |index| (one dimension) names.
GW_API gw_tensor *gw_index_select(gw_scope *s, gw_tensor *x, int dim, gw_tensor *index);

// Where the numbers that are not 0 stand, in order: one row of indices for each. result: N,
// dimensions of x; i64.
GW_API gw_tensor *gw_nonzero(gw_scope *s, gw_tensor *x);

// gw_sort(s, x, .descending = true, ...): the numbers along a dimension in order, the smallest first
// if not said otherwise, and where each stood (i64). Equals keep their order. NaN is larger than
// everything.
typedef struct gw_sorted {
    gw_tensor *values, *indices;
} gw_sorted;

typedef struct GW_BY_NAME gw_sort_options {
    int dim GW_DEFAULT(-1);
    bool descending GW_DEFAULT(false);
} gw_sort_options;

GW_API gw_sorted gw_sort(gw_scope *s, gw_tensor *x, gw_sort_options options GW_DEFAULT({}))
    GW_CALLS(gw_sort_with);
#define gw_sort(...) GW_FORM_2(gw_sort, gw_sort_options, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_sort) gw_sort_with;

// gw_topk(s, x, k, .largest = false, ...): the first |k| of them only, in order: the largest, or the
// smallest. INVALID if there are fewer.
typedef struct GW_BY_NAME gw_topk_options {
    int dim GW_DEFAULT(-1);
    bool largest GW_DEFAULT(true);
} gw_topk_options;

GW_API gw_sorted gw_topk(gw_scope *s, gw_tensor *x, int64_t k,
                         gw_topk_options options GW_DEFAULT({})) GW_CALLS(gw_topk_with);
#define gw_topk(...) GW_FORM_3(gw_topk, gw_topk_options, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_topk) gw_topk_with;

// gw_multinomial(s, p, samples, .replacement = true): draws classes by their weights. p: C or N C, none negative, infinite or NaN, not all 0; result:
// i64, |samples| for each row. Without replacement no class comes twice, so there must be as many
// with a weight above 0.
typedef struct GW_BY_NAME gw_multinomial_options {
    bool replacement GW_DEFAULT(false);
} gw_multinomial_options;

GW_API gw_tensor *gw_multinomial(gw_scope *s, gw_tensor *p, int64_t samples,
                                 gw_multinomial_options options GW_DEFAULT({}))
    GW_CALLS(gw_multinomial_with);
#define gw_multinomial(...)                                                                        \
    (GW_DRAWS, GW_FORM_3(gw_multinomial, gw_multinomial_options, __VA_ARGS__))
GW_API GW_TYPE_OF(gw_multinomial) gw_multinomial_with;

// 1 with probability p, else 0, in the dtype of p.
GW_API gw_tensor *gw_bernoulli(gw_scope *s, gw_tensor *p);

// ---- In place -----------------------------------------------------------------------------------
// Written into x, which is returned, and seen through every view of it: gw_add_(s, x, other) is x
// += other. What relies on the old values (saved for backward, being sent) keeps them.
//
// The result must have the shape of x, so that only the other operand broadcasts, and go into its
// dtype without going down a kind (float, int, bool). INVALID too for a leaf that needs a gradient,
// unless gradients are off (gw_no_grad): then nothing is recorded, and x keeps its history. Where
// they are on, x becomes a result of what was written. That is INVALID if another tensor shares the
// values of x and a gradient would have to find its way through both, as with a slice of a result.
// Not served by name.
GW_API gw_tensor *gw_add_(gw_scope *s, gw_tensor *x, gw_value other) GW_CALLS(gw_add_with_);
#define gw_add_(s, x, other) gw_add_with_((s), (x), gw_value_of(other))
GW_API GW_TYPE_OF(gw_add_) gw_add_with_;
GW_API gw_tensor *gw_sub_(gw_scope *s, gw_tensor *x, gw_value other) GW_CALLS(gw_sub_with_);
#define gw_sub_(s, x, other) gw_sub_with_((s), (x), gw_value_of(other))
GW_API GW_TYPE_OF(gw_sub_) gw_sub_with_;
GW_API gw_tensor *gw_mul_(gw_scope *s, gw_tensor *x, gw_value other) GW_CALLS(gw_mul_with_);
#define gw_mul_(s, x, other) gw_mul_with_((s), (x), gw_value_of(other))
GW_API GW_TYPE_OF(gw_mul_) gw_mul_with_;
GW_API gw_tensor *gw_div_(gw_scope *s, gw_tensor *x, gw_value other) GW_CALLS(gw_div_with_);
#define gw_div_(s, x, other) gw_div_with_((s), (x), gw_value_of(other))
GW_API GW_TYPE_OF(gw_div_) gw_div_with_;

// The values of |source|, broadcast and converted to any dtype.
GW_API gw_tensor *gw_copy_(gw_scope *s, gw_tensor *x, gw_tensor *source);

// One number: gw_fill_(s, x, value). Or 0.
GW_API gw_tensor *gw_fill_(gw_scope *s, gw_tensor *x, gw_value value) GW_CALLS(gw_fill_with_);
#define gw_fill_(s, x, value) gw_fill_with_((s), (x), gw_value_of(value))
GW_API GW_TYPE_OF(gw_fill_) gw_fill_with_;
GW_API gw_tensor *gw_zero_(gw_scope *s, gw_tensor *x);

// Random numbers from the scope's generator: integers from |from| to below |to|, in any dtype that
// holds them; floats from |from| to |to|; normal ones; 1 with probability p, else 0, in any dtype.
GW_API gw_tensor *gw_random_(gw_scope *s, gw_tensor *x, int64_t from, int64_t to);
GW_API gw_tensor *gw_uniform_(gw_scope *s, gw_tensor *x, double from, double to);
GW_API gw_tensor *gw_normal_(gw_scope *s, gw_tensor *x, double mean, double std);
GW_API gw_tensor *gw_bernoulli_(gw_scope *s, gw_tensor *x, double p);

// ---- Comparing whole tensors --------------------------------------------------------------------
// Both have the same dtype. False in a failed scope.

// Whether shape and every value are the same. NaN is equal to nothing.
GW_API bool gw_equal(gw_scope *s, gw_tensor *a, gw_tensor *b);

// gw_allclose(s, a, b, .rtol = 1e-3, ...): whether |a - b| <= atol + rtol |b| everywhere, after
// broadcasting.
typedef struct GW_BY_NAME gw_allclose_options {
    double rtol GW_DEFAULT(1e-5), atol GW_DEFAULT(1e-8);
} gw_allclose_options;

GW_API bool gw_allclose(gw_scope *s, gw_tensor *a, gw_tensor *b,
                        gw_allclose_options options GW_DEFAULT({})) GW_CALLS(gw_allclose_with);
#define gw_allclose(...) GW_FORM_3(gw_allclose, gw_allclose_options, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_allclose) gw_allclose_with;

#ifdef __cplusplus
}
#endif
#include <gradwire/detail/ops.h>
#endif
