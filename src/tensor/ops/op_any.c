// Whether any number, or every one, is not 0. NaN is not.
#include "tensor/dtype.h"
#include "tensor/ops/ops.h"
#include "tensor/ops/reduction.h"
#include <gradwire/ops.h>

static void infer(op_call *c) {
    reduction_infer(c, GW_BOOL8);
}

// Whether a number of the row is 0, or, if |zero| is false, is not.
#define FIND(name, element)                                                                        \
    static bool find_##name(const element *row, int64_t n, bool zero) {                            \
        int64_t i = 0;                                                                             \
        while (i < n && (row[i] == 0) != zero) i++;                                                \
        return i < n;                                                                              \
    }
FIND(f32, float)
FIND(f64, double)
FIND(i64, int64_t)

static bool find(gw_dtype type, const void *rows, int64_t at, int64_t n, bool zero) {
    if (type == GW_F32) return find_f32((const float *)rows + at, n, zero);
    if (type == GW_F64) return find_f64((const double *)rows + at, n, zero);
    return find_i64((const int64_t *)rows + at, n, zero);
}

enum { ANY, ALL };  // variants

static void compute(op_call *c) {
    bool all = c->op->variant == ALL;
    reduction r = reduction_of(c->args);
    gw_dtype type = dtype_compute_wide((gw_dtype)arg_tensor(c->args, 0)->dtype);
    dense rows;
    if (!reduction_open_rows(c, &r, type, &rows)) return;
    uint8_t *out = (uint8_t *)tensor_bytes(c->outputs[0]);
    for (int64_t i = 0; i < r.outer * r.inner; i++)
        out[i] = find(type, rows.values, i * r.n, r.n, all) != all;
    dense_close(&rows);
}

REDUCTION_ROW(any, .infer = infer, .compute = compute, .variant = ANY)
REDUCTION_ROW(all, .infer = infer, .compute = compute, .variant = ALL)
