// Losses of each number by itself: mse, bce_with_logits, smooth_l1, l1.
#include "tensor/ops/op_loss.h"

#include "tensor/dense.h"
#include "tensor/dtype.h"
#include "tensor/kernels/kernels.h"
#include "tensor/ops/ops.h"

// ---- Common parts of losses -----------------------------------------------------------------
gw_reduction loss_reduction(const gw_value *args, int i) {
    return (gw_reduction)arg_int(args, i);
}

bool loss_reduction_check(op_call *c, int i) {
    int64_t r = loss_reduction(c->args, i);
    if (r >= GW_MEAN && r <= GW_NO_REDUCTION) return true;
    op_fail(c, GW_INVALID, "reduction %lld, but it must be 0 (mean), 1 (sum) or 2 (none)",
            (long long)r);
    return false;
}

// By how many a sum of |n| losses is divided.
static double divisor_of(const gw_value *args, double n) {
    switch (loss_reduction(args, 2)) {
    case GW_MEAN: return n;
    case GW_BATCH_MEAN:
        return arg_tensor(args, 0)->dims ? (double)arg_tensor(args, 0)->sizes[0] : 1;
    default: return 1;
    }
}

void loss_output(op_call *c, gw_dtype dtype, gw_reduction reduction, int dims,
                 const int64_t *sizes) {
    op_output(c, dtype, reduction == GW_NO_REDUCTION ? dims : 0, sizes);
}

// ---- A loss for each number ---------------------------------------------------------------------
enum { CHUNK = 1024 };

static bool broadcast_shape(op_call *c, int *dims, int64_t sizes[GW_DIMS_MAX]) {
    *dims = op_broadcast(c, arg_tensor(c->args, 0), arg_tensor(c->args, 1), sizes);
    return *dims >= 0;
}

void loss_infer(op_call *c) {
    const gw_tensor *x = arg_tensor(c->args, 0), *target = arg_tensor(c->args, 1);
    int64_t sizes[GW_DIMS_MAX];
    int dims;
    if (!dtype_is_float((gw_dtype)x->dtype) || !dtype_is_float((gw_dtype)target->dtype)) {
        op_fail(c, GW_INVALID, "%s and %s: both must be floats", gw_dtype_name(x->dtype),
                gw_dtype_name(target->dtype));
        return;
    }
    if (!broadcast_shape(c, &dims, sizes)) return;
    gw_dtype d = dtype_promote((gw_dtype)x->dtype, (gw_dtype)target->dtype);
    loss_output(c, d, loss_reduction(c->args, 2), dims, sizes);
}

static void infer(op_call *c) {
    if (loss_reduction_check(c, 2)) loss_infer(c);
}

// In chunks, each summed by the kernel, and the chunks' sums as doubles.
static double total_loss(gw_dtype type, loss_kernel *kernel, const void *x, const void *target,
                         int64_t n, double beta) {
    double total = 0, sum, chunk[CHUNK];
    for (int64_t i = 0; i < n; i += CHUNK) {
        int64_t count = n - i < CHUNK ? n - i : CHUNK;
        size_t at = (size_t)i * gw_dtype_size(type);
        kernel((const uint8_t *)x + at, (const uint8_t *)target + at, count, beta, chunk);
        kernels_get()->sum_rows[kernel_type_of(type)](chunk, 1, count, &sum);
        total += dtype_read(type, &sum);
    }
    return total;
}

void loss_run(op_call *c, const loss_kernels kernels, double beta) {
    gw_reduction reduction = loss_reduction(c->args, 2);
    gw_dtype type = dtype_compute((gw_dtype)c->outputs[0]->dtype);
    loss_kernel *kernel = kernels[kernel_type_of(type)];
    int64_t sizes[GW_DIMS_MAX], n = 1;
    int dims;
    if (!broadcast_shape(c, &dims, sizes)) return;
    for (int i = 0; i < dims; i++) n *= sizes[i];
    dense x, target;
    if (!dense_open_expanded(c, arg_tensor(c->args, 0), dims, sizes, type, &x)) return;
    if (!dense_open_expanded(c, arg_tensor(c->args, 1), dims, sizes, type, &target)) goto close_x;
    if (reduction != GW_NO_REDUCTION) {
        double total = total_loss(type, kernel, x.values, target.values, n, beta);
        total /= divisor_of(c->args, (double)n);
        dtype_write((gw_dtype)c->outputs[0]->dtype, (void *)tensor_bytes(c->outputs[0]), total);
    } else {
        result out;
        if (!result_open(c, 0, type, &out)) goto close_target;
        kernel(x.values, target.values, n, beta, out.values);
        result_close(&out);
    }
close_target:
    dense_close(&target);
close_x:
    dense_close(&x);
}

gw_tensor *loss_scaled(const op_grad *g, double factor) {
    const gw_tensor *x = arg_tensor(g->args, 0), *target = arg_tensor(g->args, 1);
    double n = 1;
    int dims = x->dims > target->dims ? x->dims : target->dims;
    for (int i = 0; i < dims; i++) {
        int ix = i - (dims - x->dims), it = i - (dims - target->dims);
        int64_t of_x = ix < 0 ? 1 : x->sizes[ix], of_target = it < 0 ? 1 : target->sizes[it];
        n *= (double)(of_x == 1 ? of_target : of_x);
    }
    factor /= divisor_of(g->args, n);
    gw_tensor *d = grad_wide_tensor(g->scope, g->d_outputs[0]);
    return factor == 1 ? d : gw_mul(g->scope, d, factor);
}

// How far x is from the target.
static gw_tensor *distance(const op_grad *g) {
    gw_scope *s = g->scope;
    return gw_sub(s, grad_wide(s, g->args[0]), grad_wide(s, g->args[1]));
}

// |d| is the derivative for x, and its opposite that for the target.
static void set_opposite(op_grad *g, gw_tensor *d) {
    gw_scope *s = g->scope;
    if (g->wanted[0]) g->d_inputs[0] = unbroadcast(s, d, arg_tensor(g->args, 0));
    if (g->wanted[1]) g->d_inputs[1] = gw_neg(s, unbroadcast(s, d, arg_tensor(g->args, 1)));
}

static gw_tensor *run_op(gw_scope *s, const op *o, gw_tensor *x, gw_tensor *target,
                         gw_loss_options options) {
    gw_value args[] = { gw_value_of(x), gw_value_of(target), gw_value_of((int)options.reduction) };
    return op_run(s, o, args, 3, NULL);
}

// ---- mse ----------------------------------------------------------------------------------------
static void compute_mse(op_call *c) {
    loss_run(c, kernels_get()->mse, 0);
}

static void grad_mse(op_grad *g) {
    set_opposite(g, gw_mul(g->scope, distance(g), loss_scaled(g, 2)));
}

const op op_mse = {
    .name = "mse",
    .params = "x:tensor target:tensor reduction:int?=0",
    .cast = OP_CAST_F32,
    .infer = infer,
    .compute = compute_mse,
    .grad = grad_mse,
    .saves = OP_SAVE_ARG(0) | OP_SAVE_ARG(1),
};

gw_tensor *gw_mse_with(gw_scope *s, gw_tensor *x, gw_tensor *target, gw_loss_options options) {
    return run_op(s, &op_mse, x, target, options);
}

// ---- bce_with_logits ----------------------------------------------------------------------------
static void infer_bce(op_call *c) {
    const gw_tensor *x = arg_tensor(c->args, 0), *target = arg_tensor(c->args, 1);
    if (tensor_has_shape_of(x, target))
        infer(c);
    else
        op_fail(c, GW_INVALID, "logits are %s and target %s, but the shapes must be equal",
                shape_text(x).text, shape_text(target).text);
}

static void compute_bce(op_call *c) {
    loss_run(c, kernels_get()->bce, 0);
}

static void grad_bce(op_grad *g) {
    gw_scope *s = g->scope;
    gw_tensor *x = arg_tensor(g->args, 0), *target = arg_tensor(g->args, 1), *d = loss_scaled(g, 1);
    if (g->wanted[0]) {
        gw_tensor *dx = gw_mul(s, gw_sub(s, gw_sigmoid(s, x), target), d);
        g->d_inputs[0] = gw_to_dtype(s, dx, (gw_dtype)x->dtype);
    }
    if (g->wanted[1])
        g->d_inputs[1] = gw_to_dtype(s, gw_neg(s, gw_mul(s, x, d)), (gw_dtype)target->dtype);
}

const op op_bce_with_logits = {
    .name = "bce_with_logits",
    .params = "x:tensor target:tensor reduction:int?=0",
    .cast = OP_CAST_F32,
    .infer = infer_bce,
    .compute = compute_bce,
    .grad = grad_bce,
    .saves = OP_SAVE_ARG(0) | OP_SAVE_ARG(1),
};

gw_tensor *gw_bce_with_logits_with(gw_scope *s, gw_tensor *x, gw_tensor *target,
                                   gw_loss_options options) {
    return run_op(s, &op_bce_with_logits, x, target, options);
}

// ---- smooth_l1 ----------------------------------------------------------------------------------
static double beta_of(const gw_value *args) {
    return arg_number(args, 3);
}

static void infer_smooth_l1(op_call *c) {
    if (beta_of(c->args) > 0)
        infer(c);
    else
        op_fail(c, GW_INVALID, "beta is %g, but must be above 0", beta_of(c->args));
}

static void compute_smooth_l1(op_call *c) {
    loss_run(c, kernels_get()->smooth_l1, beta_of(c->args));
}

static void grad_smooth_l1(op_grad *g) {
    gw_scope *s = g->scope;
    gw_tensor *slope = gw_clamp(s, gw_div(s, distance(g), beta_of(g->args)), -1, 1);
    set_opposite(g, gw_mul(s, slope, loss_scaled(g, 1)));
}

const op op_smooth_l1 = {
    .name = "smooth_l1",
    .params = "x:tensor target:tensor reduction:int?=0 beta:float?=1.0",
    .cast = OP_CAST_F32,
    .infer = infer_smooth_l1,
    .compute = compute_smooth_l1,
    .grad = grad_smooth_l1,
    .saves = OP_SAVE_ARG(0) | OP_SAVE_ARG(1),
};

gw_tensor *gw_smooth_l1_with(gw_scope *s, gw_tensor *x, gw_tensor *target,
                             gw_loss_options options) {
    gw_value args[] = { gw_value_of(x), gw_value_of(target), gw_value_of((int)options.reduction),
                        gw_value_of(options.beta) };
    return op_run(s, &op_smooth_l1, args, 4, NULL);
}

// ---- l1 -----------------------------------------------------------------------------------------
static void compute_l1(op_call *c) {
    loss_run(c, kernels_get()->l1, 0);
}

// The sign of the difference, and 0 for equal numbers.
static void grad_l1(op_grad *g) {
    gw_scope *s = g->scope;
    gw_tensor *x = arg_tensor(g->args, 0), *target = arg_tensor(g->args, 1), *d = loss_scaled(g, 1);
    gw_tensor *above = gw_mul(s, d, gw_gt(s, x, target)),
              *below = gw_mul(s, d, gw_lt(s, x, target));
    set_opposite(g, gw_sub(s, above, below));
}

const op op_l1 = {
    .name = "l1",
    .params = "x:tensor target:tensor reduction:int?=0",
    .cast = OP_CAST_F32,
    .infer = infer,
    .compute = compute_l1,
    .grad = grad_l1,
    .saves = OP_SAVE_ARG(0) | OP_SAVE_ARG(1),
};

gw_tensor *gw_l1_with(gw_scope *s, gw_tensor *x, gw_tensor *target, gw_loss_options options) {
    return run_op(s, &op_l1, x, target, options);
}
