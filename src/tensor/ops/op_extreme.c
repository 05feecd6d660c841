// The largest and smallest numbers, and where they stand: max, min, amax, amin, argmax, argmin.
//
// NaN is larger and smaller than everything, so that it is not overlooked.
#include "tensor/dense.h"
#include "tensor/dtype.h"
#include "tensor/kernels/kernels.h"
#include "tensor/ops/ops.h"
#include "tensor/ops/reduction.h"
#include <gradwire/ops.h>

enum { SMALLEST, LARGEST };  // variants

static void infer_as(op_call *c, gw_dtype dtype) {
    const gw_tensor *x = arg_tensor(c->args, 0);
    if (!reduction_infer(c, dtype)) return;
    if (reduction_of(c->args).n == 0 && c->outputs[0]->numel > 0)
        op_fail(c, GW_INVALID,
                "%s has no elements along the reduced dimensions: there must be at least one",
                shape_text(x).text);
}

static void infer_value(op_call *c) {
    infer_as(c, (gw_dtype)arg_tensor(c->args, 0)->dtype);
}

static void infer_place(op_call *c) {
    infer_as(c, GW_I64);
}

static void find_values(gw_dtype type, const void *x, reduction r, bool largest, void *out) {
    kernels_get()->extreme_rows[kernel_type_of(type)](x, r.outer * r.inner, r.n, largest, out);
}

static int last_dim(const op_call *c, reduction r) {
    return r.dim < 0 ? arg_tensor(c->args, 0)->dims - 1 : r.dim;
}

static void compute_value(op_call *c) {
    bool largest = c->op->variant == LARGEST;
    reduction r = reduction_of(c->args);
    const gw_tensor *x = arg_tensor(c->args, 0);
    gw_dtype type = dtype_compute_wide((gw_dtype)x->dtype);
    if (c->outputs[0]->numel == 0) return;
    dense values;
    result out;
    if (!reduction_open(c, &r, type, &values)) return;
    if (result_open(c, 0, type, &out)) {
        if (r.inner == 1)
            find_values(type, values.values, r, largest, out.values);
        else
            kernels_get()->extreme_columns[kernel_type_of(type)](values.values, r.outer, r.n,
                                                                 r.inner, largest, out.values);
        result_close(&out);
    }
    dense_close(&values);
}

// The first position of |best| in a row of |n|; NaN is equal to NaN. A row in memory of another process may have
// changed since, and not contain it any more (LEND-8).
#define FIND(name, element)                                                                        \
    static int64_t find_##name(const element *row, int64_t n, element best) {                      \
        int64_t i = 0;                                                                             \
        while (i < n - 1 && row[i] != best && (best == best || row[i] == row[i])) i++;             \
        return i;                                                                                  \
    }
FIND(f32, float)
FIND(f64, double)

static int64_t find_i64(const int64_t *row, int64_t n, int64_t best) {
    int64_t i = 0;
    while (i < n - 1 && row[i] != best) i++;
    return i;
}

static int64_t find(gw_dtype type, const void *rows, int64_t row, int64_t n, const void *best) {
    if (type == GW_F32)
        return find_f32((const float *)rows + row * n, n, ((const float *)best)[row]);
    if (type == GW_F64)
        return find_f64((const double *)rows + row * n, n, ((const double *)best)[row]);
    return find_i64((const int64_t *)rows + row * n, n, ((const int64_t *)best)[row]);
}

static void compute_place(op_call *c) {
    reduction r = reduction_of(c->args);
    const gw_tensor *x = arg_tensor(c->args, 0);
    gw_dtype type = dtype_compute_wide((gw_dtype)x->dtype);
    int64_t count = r.outer * r.inner, *places = (int64_t *)tensor_bytes(c->outputs[0]);
    if (count == 0) return;
    dense rows;
    if (!dense_open_rows(c, x, last_dim(c, r), type, &rows)) return;
    block *best = scratch_open(c, count, gw_dtype_size(type));
    if (best) {
        find_values(type, rows.values, r, c->op->variant == LARGEST, best->bytes);
        for (int64_t i = 0; i < count; i++)
            places[i] = find(type, rows.values, i, r.n, best->bytes);
        block_release(best);
    }
    dense_close(&rows);
}

// ---- max, min -----------------------------------------------------------------------------------
// The numbers that are as large as the result |y|, or NaN where that is.
static gw_tensor *chosen_by(gw_scope *s, gw_tensor *x, gw_tensor *y) {
    return gw_logical_or(s, gw_eq(s, x, y), gw_isnan(s, x));
}

// Along a dimension the first of equals gets the gradient; of everything, equals share it. Both as
// in PyTorch.
static void grad_value(op_grad *g) {
    if (!g->wanted[0]) return;
    gw_scope *s = g->scope;
    gw_tensor *x = arg_tensor(g->args, 0), *d = g->d_outputs[0];
    reduction r = reduction_of(g->args);
    if (r.dim < 0) {
        gw_tensor *chosen = chosen_by(s, x, g->outputs[0]);
        g->d_inputs[0] = gw_mul(s, chosen, gw_div(s, d, gw_sum(s, chosen)));
        return;
    }
    gw_tensor *place = g->op->variant == LARGEST ? gw_argmax(s, x, .dim = r.dim, .keepdim = true)
                                                 : gw_argmin(s, x, .dim = r.dim, .keepdim = true);
    gw_tensor *zeros = tensor_full_like(s, x, 0);
    g->d_inputs[0] = gw_scatter_add(s, zeros, r.dim, place, reduction_widen(g, d));
}

// A row along one dimension, and its public function.
#define ROW(verb, ...)                                                                             \
    const op op_##verb = { .name = #verb,                                                          \
                           .params = "x:tensor dim:int? keepdim:bool?",                            \
                           __VA_ARGS__ };                                                          \
    gw_tensor *gw_##verb##_with(gw_scope *s, gw_tensor *x, gw_dim_options options) {               \
        return reduction_run(s, &op_##verb, x, options);                                           \
    }

ROW(max, .infer = infer_value, .compute = compute_value, .variant = LARGEST, .grad = grad_value,
    .saves = OP_SAVE_ARG(0) | OP_SAVE_OUT(0))
ROW(min, .infer = infer_value, .compute = compute_value, .variant = SMALLEST, .grad = grad_value,
    .saves = OP_SAVE_ARG(0) | OP_SAVE_OUT(0))

// ---- amax, amin ---------------------------------------------------------------------------------
// Equals share the gradient; of NaN too, where PyTorch's is NaN everywhere.
static void grad_shared(op_grad *g) {
    if (!g->wanted[0]) return;
    gw_scope *s = g->scope;
    gw_tensor *chosen = chosen_by(s, arg_tensor(g->args, 0), reduction_widen(g, g->outputs[0]));
    gw_value args[] = { gw_value_of(chosen), g->args[1], gw_value_of(true) };
    gw_tensor *count = op_run(s, &op_sum, args, 3, NULL);
    gw_tensor *share = gw_div(s, reduction_widen(g, g->d_outputs[0]), count);
    g->d_inputs[0] = gw_mul(s, chosen, share);
}

REDUCTION_ROW(amax, .infer = infer_value, .compute = compute_value, .variant = LARGEST,
              .grad = grad_shared, .saves = OP_SAVE_ARG(0) | OP_SAVE_OUT(0))
REDUCTION_ROW(amin, .infer = infer_value, .compute = compute_value, .variant = SMALLEST,
              .grad = grad_shared, .saves = OP_SAVE_ARG(0) | OP_SAVE_OUT(0))

// ---- argmax, argmin -----------------------------------------------------------------------------
ROW(argmax, .infer = infer_place, .compute = compute_place, .variant = LARGEST)
ROW(argmin, .infer = infer_place, .compute = compute_place, .variant = SMALLEST)
