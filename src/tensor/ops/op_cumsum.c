// Running sums along a dimension.
#include "tensor/dense.h"
#include "tensor/dtype.h"
#include "tensor/ops/ops.h"
#include <gradwire/ops.h>

static void infer(op_call *c) {
    const gw_tensor *x = arg_tensor(c->args, 0);
    if (op_dim(c, x, arg_int(c->args, 1)) < 0) return;
    gw_dtype d = dtype_is_float((gw_dtype)x->dtype) ? (gw_dtype)x->dtype : GW_I64;
    op_output(c, d, x->dims, x->sizes);
}

// Floats are added as doubles: a running sum cannot be taken by halves.
static void add_up(gw_dtype type, const void *x, void *out, int64_t n, bool backward) {
    double real = 0;
    uint64_t whole = 0;  // integers wrap around
    for (int64_t k = 0; k < n; k++) {
        int64_t i = backward ? n - 1 - k : k;
        if (type == GW_F32)
            ((float *)out)[i] = (float)(real += (double)((const float *)x)[i]);
        else if (type == GW_F64)
            ((double *)out)[i] = real += ((const double *)x)[i];
        else
            ((uint64_t *)out)[i] = whole += ((const uint64_t *)x)[i];
    }
}

enum { FORWARD, BACKWARD };  // variants

static void compute(op_call *c) {
    const gw_tensor *x = arg_tensor(c->args, 0);
    gw_dtype type = dtype_compute((gw_dtype)c->outputs[0]->dtype);
    if (x->numel == 0) return;
    int last = arg_dim(c->args, 1, x);
    int64_t n = last < 0 ? 1 : x->sizes[last];
    dense rows;
    result out;
    if (!dense_open_rows(c, x, last, type, &rows)) return;
    if (result_open_rows(c, 0, last, type, &out)) {
        size_t bytes = (size_t)n * gw_dtype_size(type);
        for (int64_t r = 0; r < x->numel / n; r++)
            add_up(type, (const uint8_t *)rows.values + (size_t)r * bytes,
                   (uint8_t *)out.values + (size_t)r * bytes, n, c->op->variant == BACKWARD);
        result_close(&out);
    }
    dense_close(&rows);
}

// The way back, from the last to the first. Not in the table: only the derivative uses it.
static const op op_cumsum_backward = {
    .name = "cumsum_backward",
    .params = "d:tensor dim:int",
    .infer = infer,
    .compute = compute,
    .variant = BACKWARD,
};

static void grad(op_grad *g) {
    gw_value args[] = { gw_value_of(g->d_outputs[0]), g->args[1] };
    if (g->wanted[0]) g->d_inputs[0] = op_run(g->scope, &op_cumsum_backward, args, 2, NULL);
}

const op op_cumsum = {
    .name = "cumsum",
    .params = "x:tensor dim:int",
    .cast = OP_CAST_F32_FROM_F16,
    .infer = infer,
    .compute = compute,
    .variant = FORWARD,
    .grad = grad,
};

gw_tensor *gw_cumsum(gw_scope *s, gw_tensor *x, int dim) {
    gw_value args[] = { gw_value_of(x), gw_value_of(dim) };
    return op_run(s, &op_cumsum, args, 2, NULL);
}
