// Triangles of matrices, and where numbers that are not 0 stand: tril, triu, nonzero.
#include "tensor/copy.h"
#include "tensor/dense.h"
#include "tensor/dtype.h"
#include "tensor/ops/ops.h"
#include <gradwire/ops.h>

// ---- tril, triu ---------------------------------------------------------------------------------
static void infer_triangle(op_call *c) {
    const gw_tensor *x = arg_tensor(c->args, 0);
    if (x->dims >= 2)
        op_output_like(c, x);
    else
        op_fail(c, GW_INVALID, "%s is not a matrix: it must have 2 dimensions or more",
                shape_text(x).text);
}

static int64_t within(int64_t low, int64_t x, int64_t high) {
    return x < low ? low : x > high ? high : x;
}

enum { UPPER, LOWER };  // variants

// Row i keeps the columns up to i + diagonal, or those from there on.
static void compute_triangle(op_call *c) {
    bool lower = c->op->variant == LOWER;
    const gw_tensor *x = arg_tensor(c->args, 0);
    if (x->numel == 0) return;
    int64_t rows = x->sizes[x->dims - 2], columns = x->sizes[x->dims - 1];
    int64_t diagonal = within(-rows - 1, arg_int(c->args, 1), columns + 1);
    size_t size = gw_dtype_size((gw_dtype)x->dtype), width = (size_t)columns * size;
    uint8_t *row = (uint8_t *)tensor_bytes(c->outputs[0]);
    copy_packed((gw_dtype)x->dtype, row, x);
    for (int64_t r = 0; r < x->numel / columns; r++, row += width) {
        size_t first = (size_t)within(0, r % rows + diagonal + lower, columns) * size;
        memset(lower ? row + first : row, 0, lower ? width - first : first);
    }
}

static void grad_triangle(op_grad *g) {
    const gw_value args[] = { gw_value_of(g->d_outputs[0]), g->args[1] };
    g->d_inputs[0] = op_run(g->scope, g->op, args, 2, NULL);
}

#define ROW(verb, which)                                                                           \
    const op op_##verb = {                                                                         \
        .name = #verb,                                                                             \
        .params = "x:tensor diagonal:int?=0",                                                      \
        .infer = infer_triangle,                                                                   \
        .compute = compute_triangle,                                                               \
        .variant = which,                                                                          \
        .grad = grad_triangle,                                                                     \
    };                                                                                             \
    gw_tensor *gw_##verb(gw_scope *s, gw_tensor *x, int64_t diagonal) {                            \
        const gw_value args[] = { gw_value_of(x), gw_value_of(diagonal) };                         \
        return op_run(s, &op_##verb, args, 2, NULL);                                               \
    }
ROW(tril, LOWER)
ROW(triu, UPPER)

// ---- nonzero ------------------------------------------------------------------------------------
static bool is_nonzero(gw_dtype type, const void *values, int64_t i) {
    return type == GW_I64 ? ((const int64_t *)values)[i] != 0 : ((const double *)values)[i] != 0;
}

// How many there are decides the shape, so the output is made and filled at once.
static void infer_nonzero(op_call *c) {
    const gw_tensor *x = arg_tensor(c->args, 0);
    gw_dtype type = dtype_is_float((gw_dtype)x->dtype) ? GW_F64 : GW_I64;
    dense values;
    if (!dense_open(c, x, type, &values)) return;
    int64_t count = 0, at[GW_DIMS_MAX] = { 0 };
    for (int64_t i = 0; i < x->numel; i++) count += is_nonzero(type, values.values, i);
    gw_tensor *out = op_output(c, GW_I64, 2, (int64_t[]){ count, x->dims });
    int64_t *row = out && out->numel ? (int64_t *)tensor_bytes(out) : NULL;
    for (int64_t i = 0; row && i < x->numel; i++) {
        if (is_nonzero(type, values.values, i)) {
            memcpy(row, at, x->dims * sizeof *at);
            row += x->dims;
        }
        for (int d = x->dims; d-- > 0 && ++at[d] == x->sizes[d];) at[d] = 0;
    }
    dense_close(&values);
}

const op op_nonzero = {
    .name = "nonzero",
    .params = "x:tensor",
    .infer = infer_nonzero,
};

gw_tensor *gw_nonzero(gw_scope *s, gw_tensor *x) {
    return op_run(s, &op_nonzero, (const gw_value[]){ gw_value_of(x) }, 1, NULL);
}
