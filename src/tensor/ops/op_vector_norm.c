// Norms of vectors: (sum of |x|^p)^(1/p), the largest |x| for p infinite, how many are not 0 for p
// 0.
#include <math.h>

#include "tensor/dtype.h"
#include "tensor/ops/ops.h"
#include "tensor/ops/reduction.h"
#include <gradwire/ops.h>

enum { DIMS_AT = 2 };

static void infer(op_call *c) {
    const gw_tensor *x = arg_tensor(c->args, 0);
    if (!op_check_float(c, (gw_dtype)x->dtype)) return;
    if (!reduction_infer_at(c, (gw_dtype)x->dtype, DIMS_AT)) return;
    double p = arg_number(c->args, 1);
    bool empty = reduction_of_at(c->args, DIMS_AT).n == 0 && c->outputs[0]->numel > 0;
    if (isnan(p) || (empty && (isinf(p) || p < 0)))
        op_fail(c, GW_INVALID,
                "p is %g and %s has no elements: there must be one if p is infinite or below 0", p,
                shape_text(x).text);
}

// Sums are taken in f64.
static double norm_of(const double *x, int64_t n, double p) {
    double y = p == -INFINITY ? INFINITY : 0;
    for (int64_t i = 0; i < n; i++) {
        double size = fabs(x[i]);
        if (isinf(p))
            y = isnan(size) || (p > 0 ? size > y : size < y) ? size : y;
        else
            y += p == 2 ? size * size : p == 1 ? size : p == 0 ? size != 0 : pow(size, p);
        if (isnan(y)) return y;
    }
    return isinf(p) || p == 1 || p == 0 ? y : p == 2 ? sqrt(y) : pow(y, 1 / p);
}

static void compute(op_call *c) {
    reduction r = reduction_of_at(c->args, DIMS_AT);
    double p = arg_number(c->args, 1);
    gw_dtype dtype = (gw_dtype)c->outputs[0]->dtype;
    dense rows;
    if (!reduction_open_rows(c, &r, GW_F64, &rows)) return;
    uint8_t *out = (uint8_t *)tensor_bytes(c->outputs[0]);
    for (int64_t i = 0; i < r.outer * r.inner; i++)
        dtype_write(dtype, out + (size_t)i * gw_dtype_size(dtype),
                    norm_of((const double *)rows.values + i * r.n, r.n, p));
    dense_close(&rows);
}

// ---- The derivative -----------------------------------------------------------------------------
static gw_tensor *sign_of(gw_scope *s, gw_tensor *x) {
    gw_tensor *above = gw_to_dtype(s, gw_gt(s, x, 0), (gw_dtype)x->dtype);
    return gw_sub(s, above, gw_to_dtype(s, gw_lt(s, x, 0), (gw_dtype)x->dtype));
}

static gw_tensor *zero_where(gw_scope *s, gw_tensor *zero, gw_tensor *x) {
    return gw_masked_fill(s, x, gw_eq(s, zero, 0), 0);
}

// Numbers that are as large as the norm share the gradient.
static gw_tensor *d_extreme(op_grad *g, gw_tensor *y, gw_tensor *d) {
    gw_scope *s = g->scope;
    gw_tensor *x = arg_tensor(g->args, 0), *chosen = gw_eq(s, gw_abs(s, x), y);
    gw_value args[] = { gw_value_of(chosen), g->args[DIMS_AT], gw_value_of(true) };
    gw_tensor *count = op_run(s, &op_sum, args, 3, NULL);
    return gw_mul(s, sign_of(s, x), gw_mul(s, chosen, gw_div(s, d, count)));
}

// x |x|^(p-2) / y^(p-1), and 0 where that has no limit.
static gw_tensor *d_power(op_grad *g, gw_tensor *y, gw_tensor *d, double p) {
    gw_scope *s = g->scope;
    gw_tensor *x = grad_wide_tensor(s, arg_tensor(g->args, 0));
    if (p == 2) return gw_mul(s, x, zero_where(s, y, gw_div(s, d, y)));
    gw_tensor *powers = gw_mul(s, sign_of(s, x), gw_pow(s, gw_abs(s, x), p - 1));
    if (p < 1) powers = zero_where(s, x, powers);
    gw_tensor *scale = gw_div(s, d, gw_pow(s, y, p - 1));
    return gw_mul(s, powers, p < 1 ? scale : zero_where(s, y, scale));
}

static void grad(op_grad *g) {
    if (!g->wanted[0]) return;
    gw_scope *s = g->scope;
    gw_tensor *x = arg_tensor(g->args, 0);
    gw_tensor *y = reduction_widen_at(g, grad_wide_tensor(s, g->outputs[0]), DIMS_AT);
    gw_tensor *d = reduction_widen_at(g, g->d_outputs[0], DIMS_AT);
    double p = arg_number(g->args, 1);
    if (p == 0)
        g->d_inputs[0] = gw_zeros_like(s, x);
    else if (p == 1)
        g->d_inputs[0] = gw_mul(s, sign_of(s, x), d);
    else
        g->d_inputs[0] =
            gw_to_dtype(s, isinf(p) ? d_extreme(g, y, d) : d_power(g, y, d, p), (gw_dtype)x->dtype);
}

const op op_norm = {
    .name = "norm",
    .params = "x:tensor p:number?=2 dims:ints? keepdim:bool?",
    .cast = OP_CAST_F32_FROM_F16,
    .infer = infer,
    .compute = compute,
    .grad = grad,
    .saves = OP_SAVE_ARG(0) | OP_SAVE_OUT(0),
};

gw_tensor *gw_norm_with(gw_scope *s, gw_tensor *x, double p, gw_dims_options options) {
    const gw_value args[] = { gw_value_of(x), gw_value_of(p), reduction_dims(s, &op_norm, options),
                              gw_value_of(options.keepdim) };
    return op_run(s, &op_norm, args, 4, NULL);
}
