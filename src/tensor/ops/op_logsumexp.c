// The logarithm of a sum of powers of e, without their range.
#include <math.h>

#include "tensor/dtype.h"
#include "tensor/kernels/kernels.h"
#include "tensor/ops/ops.h"
#include "tensor/ops/reduction.h"
#include <gradwire/ops.h>

// An infinite largest number is the result: others add nothing to it.
static double combine(double largest, double sum) {
    return isfinite(largest) ? largest + log(sum) : largest;
}

static void run_rows(gw_dtype type, const void *x, int64_t rows, int64_t n, void *out) {
    size_t size = gw_dtype_size(type);
    for (int64_t i = 0; i < rows; i++) {
        const uint8_t *row = (const uint8_t *)x + (size_t)(i * n) * size;
        uint8_t largest[8], sum[8];
        double y = -INFINITY;
        if (n) {
            kernels_get()->exp_sum_rows[kernel_type_of(type)](row, 1, n, largest, sum);
            y = combine(dtype_read(type, largest), dtype_read(type, sum));
        }
        dtype_write(type, (uint8_t *)out + (size_t)i * size, y);
    }
}

static void compute(op_call *c) {
    reduction r = reduction_of(c->args);
    gw_dtype type = dtype_compute((gw_dtype)c->outputs[0]->dtype);
    dense x;
    result out;
    if (!reduction_open_rows(c, &r, type, &x)) return;
    if (result_open(c, 0, type, &out)) {
        run_rows(type, x.values, r.outer * r.inner, r.n, out.values);
        result_close(&out);
    }
    dense_close(&x);
}

// d e^(x - y), which are the shares of the sum.
static void grad(op_grad *g) {
    if (!g->wanted[0]) return;
    gw_scope *s = g->scope;
    gw_tensor *shares = gw_exp(s, gw_sub(s, g->args[0], reduction_widen(g, g->outputs[0])));
    g->d_inputs[0] = gw_mul(s, shares, reduction_widen(g, g->d_outputs[0]));
}

REDUCTION_ROW(logsumexp, .cast = OP_CAST_F32_FROM_F16, .infer = reduction_infer_float,
              .compute = compute, .grad = grad, .saves = OP_SAVE_ARG(0) | OP_SAVE_OUT(0))
