// Means of windows: torch.nn.functional.avg_pool1d, avg_pool2d, adaptive_avg_pool1d and
// adaptive_avg_pool2d.
#include "tensor/dense.h"
#include "tensor/dtype.h"
#include "tensor/kernels/kernels.h"
#include "tensor/ops/ops.h"
#include "tensor/kernels/window.h"
#include <gradwire/ops.h>

// How means are taken. Adaptive windows follow from the sizes of the plane and of the result alone.
typedef struct average {
    window window;
    bool is_adaptive, exclude_padding;
    int64_t divisor;  // 0: the size of the window
} average;

// The variant of a row is how many dimensions its windows have.
static bool read_average(op_call *c, average *a) {
    *a = (average){ .window.dilation = { 1, 1 } };
    int dims = c->op->variant;
    bool ceil = arg_bool(c->args, 4);
    a->exclude_padding = !arg_bool(c->args, 5);
    if (!arg_is_none(c->args, 6)) {
        a->divisor = arg_int(c->args, 6);
        if (a->divisor == 0) {
            op_fail(c, GW_INVALID, "divisor_override is 0, but must not be 0");
            return false;
        }
    }
    return window_pool(c, dims, &a->window) && window_count(c, dims, ceil, &a->window);
}

static bool read_adaptive(op_call *c, average *a) {
    *a = (average){ .is_adaptive = true };
    int dims = c->op->variant;
    return window_pooled(c, dims, &a->window) &&
           window_read(c, 1, "size", dims, 1, 1, 1, a->window.out);
}

static bool read_args(op_call *c, average *a) {
    return c->op->name[1] == 'd' ? read_adaptive(c, a) : read_average(c, a);
}

static void infer(op_call *c) {
    average a;
    if (!read_args(c, &a)) return;
    const gw_tensor *x = arg_tensor(c->args, 0);
    int64_t sizes[4];
    int dims = window_output_sizes(x, c->op->variant, &a.window, sizes);
    op_output(c, (gw_dtype)x->dtype, dims, sizes);
}

// ---- Windows ------------------------------------------------------------------------------------
// The inputs of position |o| along dimension |d|, and their count for the divisor.
typedef struct extent {
    int64_t first, end, count;
} extent;

static inline extent extent_at(const average *a, int d, int64_t o) {
    const window *w = &a->window;
    extent e;
    if (a->is_adaptive) {
        e.first = o * w->size[d] / w->out[d];
        e.end = ((o + 1) * w->size[d] + w->out[d] - 1) / w->out[d];
        e.count = e.end - e.first;
        return e;
    }
    e.first = o * w->stride[d] - w->padding[d];
    e.end = e.first + w->kernel[d];
    if (e.end > w->size[d] + w->padding[d]) e.end = w->size[d] + w->padding[d];
    e.count = e.end - e.first;
    if (e.first < 0) e.first = 0;
    if (e.end > w->size[d]) e.end = w->size[d];
    if (a->exclude_padding) e.count = e.end - e.first;
    return e;
}

#define AVERAGE(name, element)                                                                     \
    static element sum_##name(const window *w, const element *x, extent rows, extent columns) {    \
        element sum = 0;                                                                           \
        if (columns.end - columns.first == w->size[1]) {                                           \
            int64_t n = (rows.end - rows.first) * w->size[1];                                      \
            kernels_get()->sum_rows[kernel_of_##name](x + rows.first * w->size[1], 1, n, &sum);    \
            return sum;                                                                            \
        }                                                                                          \
        for (int64_t i = rows.first; i < rows.end; i++)                                            \
            for (int64_t j = columns.first; j < columns.end; j++) sum += x[i * w->size[1] + j];    \
        return sum;                                                                                \
    }                                                                                              \
                                                                                                   \
    static void average_##name(const average *a, const element *x, element *out) {                 \
        const window *w = &a->window;                                                              \
        for (int64_t i = 0; i < w->out[0]; i++) {                                                  \
            extent rows = extent_at(a, 0, i);                                                      \
            for (int64_t j = 0; j < w->out[1]; j++, out++) {                                       \
                extent columns = extent_at(a, 1, j);                                               \
                int64_t divisor = a->divisor ? a->divisor : rows.count * columns.count;            \
                *out = sum_##name(w, x, rows, columns) / (element)divisor;                         \
            }                                                                                      \
        }                                                                                          \
    }                                                                                              \
                                                                                                   \
    static void spread_##name(const average *a, const element *d, element *dx) {                   \
        const window *w = &a->window;                                                              \
        for (int64_t i = 0; i < w->out[0]; i++) {                                                  \
            extent rows = extent_at(a, 0, i);                                                      \
            for (int64_t j = 0; j < w->out[1]; j++, d++) {                                         \
                extent columns = extent_at(a, 1, j);                                               \
                int64_t divisor = a->divisor ? a->divisor : rows.count * columns.count;            \
                element share = *d / (element)divisor;                                             \
                for (int64_t y = rows.first; y < rows.end; y++)                                    \
                    for (int64_t x = columns.first; x < columns.end; x++)                          \
                        dx[y * w->size[1] + x] += share;                                           \
            }                                                                                      \
        }                                                                                          \
    }
enum { kernel_of_f32 = KERNEL_F32, kernel_of_f64 = KERNEL_F64 };
AVERAGE(f32, float)
AVERAGE(f64, double)

static void compute(op_call *c) {
    average a;
    const gw_tensor *x = arg_tensor(c->args, 0);
    if (c->outputs[0]->numel == 0 || !read_args(c, &a)) return;
    gw_dtype type = dtype_compute((gw_dtype)x->dtype);
    int64_t plane = window_plane_size(&a.window), out_plane = window_out_size(&a.window);
    dense values;
    result out;
    if (!dense_open(c, x, type, &values)) return;
    if (result_open(c, 0, type, &out)) {
        for (int64_t p = 0; p < x->numel / plane; p++) {
            if (type == GW_F32)
                average_f32(&a, (const float *)values.values + p * plane,
                            (float *)out.values + p * out_plane);
            else
                average_f64(&a, (const double *)values.values + p * plane,
                            (double *)out.values + p * out_plane);
        }
        result_close(&out);
    }
    dense_close(&values);
}

// ---- The way back -------------------------------------------------------------------------------
// The forward's arguments and the gradient behind them. Not in the table.
static void compute_back(op_call *c) {
    average a;
    const gw_tensor *dx = c->outputs[0];
    if (dx->numel == 0 || !read_args(c, &a)) return;
    gw_dtype type = dtype_compute((gw_dtype)dx->dtype);
    int64_t plane = window_plane_size(&a.window), out_plane = window_out_size(&a.window);
    dense d;
    result out;
    if (!dense_open(c, arg_tensor(c->args, c->arg_count - 1), type, &d)) return;
    if (result_open(c, 0, type, &out)) {
        memset(out.values, 0, (size_t)dx->numel * gw_dtype_size(type));
        for (int64_t p = 0; p < dx->numel / plane; p++) {
            if (type == GW_F32)
                spread_f32(&a, (const float *)d.values + p * out_plane,
                           (float *)out.values + p * plane);
            else
                spread_f64(&a, (const double *)d.values + p * out_plane,
                           (double *)out.values + p * plane);
        }
        result_close(&out);
    }
    dense_close(&d);
}

static void grad(op_grad *g, const op *back) {
    gw_value args[OP_ARGS_MAX];
    memcpy(args, g->args, (size_t)g->arg_count * sizeof *args);
    args[g->arg_count] = gw_value_of(g->d_outputs[0]);
    if (g->wanted[0]) g->d_inputs[0] = op_run(g->scope, back, args, g->arg_count + 1, NULL);
}

#define ROW(row, dims, arguments)                                                                  \
    static const op op_##row##_backward = {                                                        \
        .name = #row "_backward",                                                                  \
        .params = arguments " d:tensor",                                                           \
        .infer = op_infer_first,                                                                   \
        .compute = compute_back,                                                                   \
        .variant = dims,                                                                           \
    };                                                                                             \
    static void grad_##row(op_grad *g) {                                                           \
        grad(g, &op_##row##_backward);                                                             \
    }                                                                                              \
    const op op_##row = {                                                                          \
        .name = #row,                                                                              \
        .params = arguments,                                                                       \
        .infer = infer,                                                                            \
        .compute = compute,                                                                        \
        .variant = dims,                                                                           \
        .grad = grad_##row,                                                                        \
    };
#define AVERAGE_PARAMS                                                                             \
    "x:tensor kernel:ints stride:ints? padding:ints? ceil_mode:bool?=false "                       \
    "count_include_pad:bool?=true "                                                                \
    "divisor:int?"
ROW(avg_pool1d, 1, AVERAGE_PARAMS)
ROW(avg_pool2d, 2, AVERAGE_PARAMS)
ROW(adaptive_avg_pool1d, 1, "x:tensor size:ints")
ROW(adaptive_avg_pool2d, 2, "x:tensor size:ints")

static gw_tensor *run(gw_scope *s, const op *o, int dims, gw_tensor *x, gw_pool_options options) {
    gw_value args[] = {
        gw_value_of(x),
        value_of_ints((gw_shape){ dims, options.kernel }),
        options.stride[0] != GW_NOT_GIVEN ? value_of_ints((gw_shape){ dims, options.stride })
                                          : gw_none(),
        value_of_ints((gw_shape){ dims, options.padding }),
        gw_value_of_bool(options.ceil_mode),
        gw_value_of_bool(options.count_include_pad),
        options.divisor_override != GW_NOT_GIVEN ? gw_value_of(options.divisor_override) : gw_none()
    };
    if (gw_ok(s) && (options.dilation[0] != 1 || options.dilation[1] != 1))
        scope_fail(s, GW_INVALID, "gw.%s: .dilation cannot be used with average pools", o->name);
    return op_run(s, o, args, 7, NULL);
}

gw_tensor *gw_avg_pool1d_with(gw_scope *s, gw_tensor *x, gw_pool_options options) {
    return run(s, &op_avg_pool1d, 1, x, options);
}
gw_tensor *gw_avg_pool2d_with(gw_scope *s, gw_tensor *x, gw_pool_options options) {
    return run(s, &op_avg_pool2d, 2, x, options);
}
gw_tensor *gw_adaptive_avg_pool1d(gw_scope *s, gw_tensor *x, int64_t length) {
    gw_value args[] = { gw_value_of(x), value_of_ints(GW_SHAPE(length)) };
    return op_run(s, &op_adaptive_avg_pool1d, args, 2, NULL);
}
gw_tensor *gw_adaptive_avg_pool2d(gw_scope *s, gw_tensor *x, int64_t height, int64_t width) {
    gw_value args[] = { gw_value_of(x), value_of_ints(GW_SHAPE(height, width)) };
    return op_run(s, &op_adaptive_avg_pool2d, args, 2, NULL);
}
