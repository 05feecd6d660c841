// Sums and derived operators: sum, mean, var, std.
#include "tensor/ops/reduction.h"

#include <math.h>

#include "tensor/dense.h"
#include "tensor/dtype.h"
#include "tensor/kernels/kernels.h"
#include "tensor/ops/ops.h"
#include <gradwire/ops.h>

// ---- sum, mean ----------------------------------------------------------------------------------
static void divide(gw_dtype type, void *values, int64_t n, int64_t by) {
    float *f = values;
    double *d = values;
    for (int64_t i = 0; type == GW_F32 && i < n; i++) f[i] /= (float)by;
    for (int64_t i = 0; type == GW_F64 && i < n; i++) d[i] /= (double)by;
}

// Rows of small integers, widened a piece at a time instead of all at once: counting a mask needs
// no memory.
static void sum_narrow_rows(const gw_tensor *x, reduction r, int64_t *out) {
    enum { PIECE = 1024 };
    int64_t wide[PIECE], sum;
    const uint8_t *bytes = tensor_bytes(x);
    size_t size = gw_dtype_size((gw_dtype)x->dtype);
    for (int64_t row = 0; row < r.outer; row++) {
        uint64_t total = 0;
        for (int64_t i = 0; i < r.n; i += PIECE) {
            int64_t count = r.n - i < PIECE ? r.n - i : PIECE;
            dtype_gather(GW_I64, wide, (gw_dtype)x->dtype, bytes + (size_t)(row * r.n + i) * size,
                         1, count);
            kernels_get()->sum_rows[KERNEL_I64](wide, 1, count, &sum);
            total += (uint64_t)sum;
        }
        out[row] = (int64_t)total;
    }
}

enum { SUM, MEAN };  // variants

static void sum_up(op_call *c) {
    reduction r = reduction_of(c->args);
    gw_dtype type = dtype_compute((gw_dtype)c->outputs[0]->dtype);
    kernel_type k = kernel_type_of(type);
    const gw_tensor *given = arg_tensor(c->args, 0);
    if (type == GW_I64 && given->dtype != GW_I64 && given->contiguous && r.inner == 1 &&
        !r.scattered) {
        sum_narrow_rows(given, r, (int64_t *)tensor_bytes(c->outputs[0]));
        return;
    }
    dense x;
    result out;
    if (!reduction_open(c, &r, type, &x)) return;
    if (!result_open(c, 0, type, &out)) goto close_x;
    if (r.inner == 1)
        kernels_get()->sum_rows[k](x.values, r.outer, r.n, out.values);
    else
        kernels_get()->sum_columns[k](x.values, r.outer, r.n, r.inner, out.values);
    if (c->op->variant == MEAN) divide(type, out.values, r.outer * r.inner, r.n);
    result_close(&out);
close_x:
    dense_close(&x);
}

static void grad_sum(op_grad *g) {
    if (g->wanted[0]) g->d_inputs[0] = reduction_spread(g, g->d_outputs[0]);
}

REDUCTION_ROW(sum, .cast = OP_CAST_F32_FROM_F16, .infer = reduction_infer_wide, .compute = sum_up,
              .variant = SUM, .grad = grad_sum)

static void grad_mean(op_grad *g) {
    if (!g->wanted[0]) return;
    gw_tensor *each = gw_div(g->scope, g->d_outputs[0], reduction_of(g->args).n);
    g->d_inputs[0] = reduction_spread(g, each);
}

REDUCTION_ROW(mean, .infer = reduction_infer_float, .compute = sum_up, .variant = MEAN,
              .grad = grad_mean)

// ---- var, std -----------------------------------------------------------------------------------
// The variance of row |i|, or its root. NaN for fewer than two numbers.
static double spread_of(gw_dtype type, const uint8_t *row, int64_t n, bool root) {
    moments m;
    kernels_get()->moments[kernel_type_of(type)](row, n, &m);
    double variance = n > 1 ? m.squares / (double)(n - 1) : NAN;
    return root ? sqrt(variance) : variance;
}

enum { VARIANCE, ROOT };  // variants

static void compute_spread(op_call *c) {
    reduction r = reduction_of(c->args);
    const gw_tensor *x = arg_tensor(c->args, 0);
    gw_dtype type = dtype_compute((gw_dtype)x->dtype), out = (gw_dtype)x->dtype;
    dense rows;
    if (!reduction_open_rows(c, &r, type, &rows)) return;
    uint8_t *values = (uint8_t *)tensor_bytes(c->outputs[0]);
    for (int64_t i = 0; i < r.outer * r.inner; i++) {
        const uint8_t *row = (const uint8_t *)rows.values + i * r.n * (int64_t)gw_dtype_size(type);
        dtype_write(out, values + i * (int64_t)gw_dtype_size(out),
                    spread_of(type, row, r.n, c->op->variant == ROOT));
    }
    dense_close(&rows);
}

// d variance = 2 (x - mean) / (n - 1).
static gw_tensor *d_variance(op_grad *g, gw_tensor *d) {
    gw_scope *s = g->scope;
    reduction r = reduction_of(g->args);
    gw_tensor *x = arg_tensor(g->args, 0);
    gw_value args[] = { g->args[0], g->args[1], gw_value_of(true) };
    gw_tensor *mean = op_run(s, &op_mean, args, 3, NULL);
    d = gw_mul(s, reduction_widen(g, d), 2.0 / (double)(r.n - 1));
    return gw_mul(s, gw_sub(s, x, mean), d);
}

static void grad_var(op_grad *g) {
    if (g->wanted[0]) g->d_inputs[0] = d_variance(g, g->d_outputs[0]);
}

REDUCTION_ROW(var, .infer = reduction_infer_float, .compute = compute_spread, .variant = VARIANCE,
              .grad = grad_var, .saves = OP_SAVE_ARG(0))

// d std = d variance / (2 std), and 0 where all numbers are the same, as in PyTorch.
static void grad_std(op_grad *g) {
    if (!g->wanted[0]) return;
    gw_scope *s = g->scope;
    gw_tensor *y = g->outputs[0], *d = gw_div(s, g->d_outputs[0], gw_mul(s, y, 2.0));
    g->d_inputs[0] = d_variance(g, gw_where(s, gw_eq(s, y, 0.0), 0.0, d));
}

REDUCTION_ROW(std, .infer = reduction_infer_float, .compute = compute_spread, .variant = ROOT,
              .grad = grad_std, .saves = OP_SAVE_ARG(0) | OP_SAVE_OUT(0))
