// Products of many numbers.
#include "tensor/dtype.h"
#include "tensor/ops/ops.h"
#include "tensor/ops/reduction.h"
#include <gradwire/ops.h>

#define PRODUCT(name, element)                                                                     \
    static void product_##name(const void *values, int64_t rows, int64_t n, void *products) {      \
        const element *x = values;                                                                 \
        element *out = products;                                                                   \
        for (int64_t r = 0; r < rows; r++, x += n) {                                               \
            element product = 1;                                                                   \
            for (int64_t i = 0; i < n; i++) product *= x[i];                                       \
            out[r] = product;                                                                      \
        }                                                                                          \
    }
PRODUCT(f32, float)
PRODUCT(f64, double)
PRODUCT(i64, uint64_t)  // wraps around

static void compute(op_call *c) {
    reduction r = reduction_of(c->args);
    gw_dtype type = dtype_compute((gw_dtype)c->outputs[0]->dtype);
    dense x;
    result out;
    if (!reduction_open_rows(c, &r, type, &x)) return;
    if (result_open(c, 0, type, &out)) {
        (type == GW_F32   ? product_f32
         : type == GW_F64 ? product_f64
                          : product_i64)(x.values, r.outer * r.inner, r.n, out.values);
        result_close(&out);
    }
    dense_close(&x);
}

// ---- The derivative -----------------------------------------------------------------------------
// For each number the product of the others of its row, without a division, which would fail
// where one is 0: the product before it times the product behind it. Not in the table.
#define OTHERS(name, element)                                                                      \
    static void others_##name(const void *values, int64_t rows, int64_t n, void *products) {       \
        const element *x = values;                                                                 \
        element *out = products;                                                                   \
        for (int64_t r = 0; r < rows; r++, x += n, out += n) {                                     \
            element before = 1, behind = 1;                                                        \
            for (int64_t i = 0; i < n; i++) {                                                      \
                out[i] = before;                                                                   \
                before *= x[i];                                                                    \
            }                                                                                      \
            for (int64_t i = n; i-- > 0;) {                                                        \
                out[i] *= behind;                                                                  \
                behind *= x[i];                                                                    \
            }                                                                                      \
        }                                                                                          \
    }
OTHERS(f32, float)
OTHERS(f64, double)

static void compute_others(op_call *c) {
    const gw_tensor *x = arg_tensor(c->args, 0);
    gw_dtype type = dtype_compute((gw_dtype)x->dtype);
    int64_t n = arg_int(c->args, 1);
    dense values;
    result out;
    if (!dense_open(c, x, type, &values)) return;
    if (result_open(c, 0, type, &out)) {
        if (n)
            (type == GW_F32 ? others_f32 : others_f64)(values.values, x->numel / n, n, out.values);
        result_close(&out);
    }
    dense_close(&values);
}

static const op op_others = {
    .name = "prod_of_others",
    .params = "x:tensor n:int",
    .infer = op_infer_first,
    .compute = compute_others,
};

// The dimensions that stay, then those that are reduced.
static int order(const gw_tensor *x, uint32_t reduced, int64_t out[GW_DIMS_MAX]) {
    int count = 0;
    for (int last = 0; last < 2; last++)
        for (int i = 0; i < x->dims; i++)
            if ((int)(reduced >> i & 1) == last) out[count++] = i;
    return count;
}

static void grad(op_grad *g) {
    if (!g->wanted[0]) return;
    gw_scope *s = g->scope;
    gw_tensor *x = arg_tensor(g->args, 0);
    reduction r = reduction_of(g->args);
    int64_t dims[GW_DIMS_MAX], back[GW_DIMS_MAX] = { 0 };
    int count = order(x, r.dims, dims);
    for (int i = 0; i < count; i++) back[dims[i]] = i;
    gw_tensor *rows = gw_permute_with(s, grad_wide_tensor(s, x), (gw_shape){ count, dims });
    const gw_value args[] = { gw_value_of(rows), gw_value_of(r.n) };
    gw_tensor *others = op_run(s, &op_others, args, 2, NULL);
    others = gw_permute_with(s, others, (gw_shape){ count, back });
    others = gw_mul(s, others, reduction_widen(g, g->d_outputs[0]));
    g->d_inputs[0] = gw_to_dtype(s, others, (gw_dtype)x->dtype);
}

REDUCTION_ROW(prod, .cast = OP_CAST_F32, .infer = reduction_infer_wide, .compute = compute,
              .grad = grad, .saves = OP_SAVE_ARG(0))
