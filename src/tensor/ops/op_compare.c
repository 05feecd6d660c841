// Whole tensors compared: equal and allclose.
#include <math.h>

#include "tensor/dense.h"
#include "tensor/dtype.h"
#include "tensor/ops/ops.h"
#include <gradwire/ops.h>

static void infer(op_call *c) {
    const gw_tensor *a = arg_tensor(c->args, 0), *b = arg_tensor(c->args, 1);
    if (a->dtype != b->dtype)
        op_fail(c, GW_INVALID, "%s and %s: both must have the same dtype", gw_dtype_name(a->dtype),
                gw_dtype_name(b->dtype));
    else
        op_output(c, GW_BOOL8, 0, NULL);
}

static void answer(op_call *c, bool yes) {
    *(uint8_t *)tensor_bytes(c->outputs[0]) = yes;
}

// ---- equal --------------------------------------------------------------------------------------
// Integers and bools are equal when their bytes are.
static bool all_equal(gw_dtype type, const void *a, const void *b, int64_t n) {
    if (!dtype_is_float(type)) return memcmp(a, b, (size_t)n * gw_dtype_size(type)) == 0;
    int64_t i = 0;
    if (type == GW_F32)
        while (i < n && ((const float *)a)[i] == ((const float *)b)[i]) i++;
    else
        while (i < n && ((const double *)a)[i] == ((const double *)b)[i]) i++;
    return i == n;
}

static void compute_equal(op_call *c) {
    const gw_tensor *a = arg_tensor(c->args, 0), *b = arg_tensor(c->args, 1);
    gw_dtype type = dtype_compute((gw_dtype)a->dtype);
    dense x, y = { 0 };
    if (!tensor_has_shape_of(a, b)) {
        answer(c, false);
        return;
    }
    if (dense_open(c, a, type, &x) && dense_open(c, b, type, &y))
        answer(c, all_equal(type, x.values, y.values, a->numel));
    dense_close(&y);
    dense_close(&x);
}

const op op_equal = {
    .name = "equal",
    .params = "a:tensor b:tensor",
    .infer = infer,
    .compute = compute_equal,
};

bool gw_equal(gw_scope *s, gw_tensor *a, gw_tensor *b) {
    gw_value args[] = { gw_value_of(a), gw_value_of(b) };
    return gw_item_int(s, op_run(s, &op_equal, args, 2, NULL)) != 0;
}

// ---- allclose -----------------------------------------------------------------------------------
static void infer_allclose(op_call *c) {
    const gw_tensor *a = arg_tensor(c->args, 0), *b = arg_tensor(c->args, 1);
    double relative = arg_number(c->args, 2), absolute = arg_number(c->args, 3);
    int64_t sizes[GW_DIMS_MAX];
    if (!(relative >= 0 && absolute >= 0))
        op_fail(c, GW_INVALID, "the tolerances are %g and %g, but both must be at least 0",
                relative, absolute);
    else if (op_broadcast(c, a, b, sizes) >= 0)
        infer(c);
}

// |x - y| <= absolute + relative |y|. Equal infinities are close, NaN is close to nothing.
static bool is_close(double x, double y, double relative, double absolute) {
    return x == y || (isfinite(x) && isfinite(y) && fabs(x - y) <= absolute + relative * fabs(y));
}

static void compute_allclose(op_call *c) {
    const gw_tensor *a = arg_tensor(c->args, 0), *b = arg_tensor(c->args, 1);
    double relative = arg_number(c->args, 2), absolute = arg_number(c->args, 3);
    int64_t sizes[GW_DIMS_MAX], n = 1;
    int dims = op_broadcast(c, a, b, sizes);
    for (int i = 0; i < dims; i++) n *= sizes[i];
    dense x = { 0 }, y = { 0 };
    if (dense_open_expanded(c, a, dims, sizes, GW_F64, &x) &&
        dense_open_expanded(c, b, dims, sizes, GW_F64, &y)) {
        const double *left = x.values, *right = y.values;
        bool close = true;
        for (int64_t i = 0; i < n && close; i++)
            close = is_close(left[i], right[i], relative, absolute);
        answer(c, close);
    }
    dense_close(&y);
    dense_close(&x);
}

const op op_allclose = {
    .name = "allclose",
    .params = "a:tensor b:tensor relative:float?=1e-5 absolute:float?=1e-8",
    .infer = infer_allclose,
    .compute = compute_allclose,
};

bool gw_allclose_with(gw_scope *s, gw_tensor *a, gw_tensor *b, gw_allclose_options options) {
    gw_value args[] = { gw_value_of(a), gw_value_of(b), gw_value_of(options.rtol),
                        gw_value_of(options.atol) };
    return gw_item_int(s, op_run(s, &op_allclose, args, 4, NULL)) != 0;
}
