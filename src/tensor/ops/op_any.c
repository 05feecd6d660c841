// Whether any number, or every one, is not 0. NaN is not.
#include "tensor/dtype.h"
#include "tensor/ops/op_sample.h"
#include "tensor/ops/ops.h"
#include "tensor/ops/reduction.h"
#include <gradwire/ops.h>

static void infer(op_call *c) {
    reduction_infer(c, GW_BOOL8);
}

static gw_dtype compute_type(gw_dtype d) {
    return dtype_is_float(d) ? dtype_compute(d) : GW_I64;
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

static void compute(op_call *c, bool all) {
    reduction r = reduction_of(c->args);
    gw_dtype type = compute_type((gw_dtype)arg_tensor(c->args, 0)->dtype);
    dense rows;
    if (!reduction_open_rows(c, &r, type, &rows)) return;
    uint8_t *out = (uint8_t *)tensor_bytes(c->outputs[0]);
    for (int64_t i = 0; i < r.outer * r.inner; i++)
        out[i] = find(type, rows.values, i * r.n, r.n, all) != all;
    dense_close(&rows);
}

static void compute_any(op_call *c) {
    compute(c, false);
}
static void compute_all(op_call *c) {
    compute(c, true);
}

static void samples(op_sampler *p) {
    reduction_samples_over(p);
    sample_call(p, sample_tensor(p, GW_BOOL8, 0, 2, 3, 4), gw_value_of(0));
    sample_call(p, sample_tensor(p, GW_I16, 0, 3, 3, 4), gw_value_of(1), gw_value_of_bool(true));
}

#define ROW(verb)                                                                                  \
    const op op_##verb = {                                                                         \
        .name = #verb,                                                                             \
        .params = "x:tensor dims:ints? keepdim:bool?",                                             \
        .infer = infer,                                                                            \
        .compute = compute_##verb,                                                                 \
        .samples = samples,                                                                        \
    };                                                                                             \
    gw_tensor *gw_##verb##_with(gw_scope *s, gw_tensor *x, gw_dims_options options) {              \
        return reduction_run_dims(s, &op_##verb, x, options);                                      \
    }
ROW(any)
ROW(all)
