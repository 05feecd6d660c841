// The largest number of each window: torch.nn.functional.max_pool1d and max_pool2d.
#include "tensor/dense.h"
#include "tensor/dtype.h"
#include "tensor/ops/ops.h"
#include "tensor/kernels/window.h"
#include <gradwire/ops.h>

#include <math.h>

// The variant of a row is how many dimensions its windows have.
static bool read_window(op_call *c, window *w) {
    int dims = c->op->variant;
    bool ceil = arg_bool(c->args, 5);
    return window_pool(c, dims, w) && window_read(c, 4, "dilation", dims, 1, 1, 1, w->dilation) &&
           window_count(c, dims, ceil, w);
}

// The second output is where the largest stands in its plane, for the derivative; -1 if the window
// sees nothing.
static void infer(op_call *c) {
    window w;
    if (!read_window(c, &w)) return;
    const gw_tensor *x = arg_tensor(c->args, 0);
    int64_t sizes[4];
    int dims = window_output_sizes(x, c->op->variant, &w, sizes);
    if (op_output(c, (gw_dtype)x->dtype, dims, sizes)) op_output(c, GW_I64, dims, sizes);
}

// NaN is larger than everything, and of several the last counts, as in PyTorch. Of equals the first
// does.
#define MAX_POOL(name, element)                                                                    \
    static void max_of_##name(const window *w, const element *x, window_span rows,                 \
                              window_span columns, element *out, int64_t *place) {                 \
        *place = -1;                                                                               \
        *out = (element)-INFINITY;                                                                 \
        for (int64_t i = rows.first; i < rows.end; i += w->dilation[0]) {                          \
            for (int64_t j = columns.first; j < columns.end; j += w->dilation[1]) {                \
                element v = x[i * w->size[1] + j];                                                 \
                if (*place >= 0 && !(v > *out) && v == v) continue;                                \
                *out = v;                                                                          \
                *place = i * w->size[1] + j;                                                       \
            }                                                                                      \
        }                                                                                          \
    }                                                                                              \
                                                                                                   \
    static void max_##name(const window *w, const element *x, element *out, int64_t *place) {      \
        for (int64_t i = 0; i < w->out[0]; i++) {                                                  \
            window_span rows = window_span_at(w, 0, i);                                            \
            for (int64_t j = 0; j < w->out[1]; j++)                                                \
                max_of_##name(w, x, rows, window_span_at(w, 1, j), out++, place++);                \
        }                                                                                          \
    }
MAX_POOL(f32, float)
MAX_POOL(f64, double)

static void compute(op_call *c) {
    window w;
    const gw_tensor *x = arg_tensor(c->args, 0);
    if (c->outputs[0]->numel == 0 || !read_window(c, &w)) return;
    gw_dtype type = dtype_compute((gw_dtype)x->dtype);
    int64_t plane = window_plane_size(&w), out_plane = window_out_size(&w);
    int64_t *place = (int64_t *)tensor_bytes(c->outputs[1]);
    dense values;
    result out;
    if (!dense_open(c, x, type, &values)) return;
    if (result_open(c, 0, type, &out)) {
        for (int64_t p = 0; p < x->numel / plane; p++, place += out_plane) {
            if (type == GW_F32)
                max_f32(&w, (const float *)values.values + p * plane,
                        (float *)out.values + p * out_plane, place);
            else
                max_f64(&w, (const double *)values.values + p * plane,
                        (double *)out.values + p * out_plane, place);
        }
        result_close(&out);
    }
    dense_close(&values);
}

// ---- The way back -------------------------------------------------------------------------------
// Arguments: d place sizes plane, the last how many numbers a plane of the input has. Not in the
// table.
static void infer_back(op_call *c) {
    int64_t sizes[GW_DIMS_MAX];
    int dims = arg_ints(c->args, 2, sizes);
    op_output(c, (gw_dtype)arg_tensor(c->args, 0)->dtype, dims, sizes);
}

#define SCATTER(name, element)                                                                     \
    static void scatter_##name(const element *d, const int64_t *place, int64_t n, element *dx) {   \
        for (int64_t i = 0; i < n; i++)                                                            \
            if (place[i] >= 0) dx[place[i]] += d[i];                                               \
    }
SCATTER(f32, float)
SCATTER(f64, double)

static void compute_back(op_call *c) {
    const gw_tensor *d = arg_tensor(c->args, 0), *dx = c->outputs[0];
    const int64_t *place = (const int64_t *)tensor_bytes(arg_tensor(c->args, 1));
    int64_t plane = arg_int(c->args, 3);
    gw_dtype type = dtype_compute((gw_dtype)d->dtype);
    if (dx->numel == 0) return;
    dense grad;
    result out;
    if (!dense_open(c, d, type, &grad)) return;
    if (result_open(c, 0, type, &out)) {
        int64_t planes = dx->numel / plane, n = d->numel / planes;
        memset(out.values, 0, (size_t)dx->numel * gw_dtype_size(type));
        for (int64_t p = 0; p < planes; p++, place += n) {
            if (type == GW_F32)
                scatter_f32((const float *)grad.values + p * n, place, n,
                            (float *)out.values + p * plane);
            else
                scatter_f64((const double *)grad.values + p * n, place, n,
                            (double *)out.values + p * plane);
        }
        result_close(&out);
    }
    dense_close(&grad);
}

static const op op_max_pool_back = {
    .name = "max_pool_backward",
    .params = "d:tensor place:tensor sizes:ints plane:int",
    .infer = infer_back,
    .compute = compute_back,
};

static void grad(op_grad *g) {
    const gw_tensor *x = arg_tensor(g->args, 0);
    int64_t plane = x->sizes[x->dims - 1] * (g->op->variant == 2 ? x->sizes[x->dims - 2] : 1);
    gw_value args[] = { gw_value_of(g->d_outputs[0]), gw_value_of(g->outputs[1]),
                        value_of_ints((gw_shape){ x->dims, x->sizes }), gw_value_of(plane) };
    if (g->wanted[0]) g->d_inputs[0] = op_run(g->scope, &op_max_pool_back, args, 4, NULL);
}

#define PARAMS                                                                                     \
    "x:tensor kernel:ints stride:ints? padding:ints? dilation:ints? ceil_mode:bool?=false"
const op op_max_pool1d = {
    .name = "max_pool1d",
    .params = PARAMS,
    .infer = infer,
    .compute = compute,
    .variant = 1,
    .grad = grad,
    .saves = OP_SAVE_OUT(1),
};
const op op_max_pool2d = {
    .name = "max_pool2d",
    .params = PARAMS,
    .infer = infer,
    .compute = compute,
    .variant = 2,
    .grad = grad,
    .saves = OP_SAVE_OUT(1),
};

static gw_tensor *run(gw_scope *s, const op *o, int dims, gw_tensor *x, gw_pool_options options) {
    gw_value args[] = { gw_value_of(x),
                        value_of_ints((gw_shape){ dims, options.kernel }),
                        options.stride[0] != GW_NOT_GIVEN
                            ? value_of_ints((gw_shape){ dims, options.stride })
                            : gw_none(),
                        value_of_ints((gw_shape){ dims, options.padding }),
                        value_of_ints((gw_shape){ dims, options.dilation }),
                        gw_value_of_bool(options.ceil_mode) };
    return op_run(s, o, args, 6, NULL);
}

gw_tensor *gw_max_pool1d_with(gw_scope *s, gw_tensor *x, gw_pool_options options) {
    return run(s, &op_max_pool1d, 1, x, options);
}
gw_tensor *gw_max_pool2d_with(gw_scope *s, gw_tensor *x, gw_pool_options options) {
    return run(s, &op_max_pool2d, 2, x, options);
}
