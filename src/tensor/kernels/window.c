#include "tensor/kernels/window.h"

#include "tensor/dtype.h"

#include <string.h>

// Beyond this, products of two numbers and sums of a few would have to be checked one by one.
#define NUMBER_MAX INT32_MAX

// ---- Arguments ----------------------------------------------------------------------------------
bool window_read(op_call *c, int i, const char *name, int dims, int64_t least, int64_t standard,
                 int64_t idle, int64_t out[2]) {
    int64_t given[GW_DIMS_MAX] = { standard };
    int count = arg_is_none(c->args, i) ? 1 : arg_ints(c->args, i, given);
    if (count != 1 && count != dims) {
        op_fail(c, GW_INVALID, "%d numbers were given for %s, but there must be 1 or %d", count,
                name, dims);
        return false;
    }
    for (int k = 0; k < count; k++) {
        if (given[k] >= least && given[k] <= NUMBER_MAX) continue;
        op_fail(c, GW_INVALID, "%s is %lld, but must be %lld to %d", name, (long long)given[k],
                (long long)least, NUMBER_MAX);
        return false;
    }
    out[0] = dims == 2 ? given[0] : idle;
    out[1] = given[count - 1];
    return true;
}

bool window_plane(op_call *c, const gw_tensor *x, int dims, window *w) {
    w->size[0] = dims == 2 ? x->sizes[x->dims - 2] : 1;
    w->size[1] = x->sizes[x->dims - 1];
    if (w->size[0] <= NUMBER_MAX && w->size[1] <= NUMBER_MAX) return true;
    op_fail(c, GW_UNSUPPORTED, "planes of %s are too large", shape_text(x).text);
    return false;
}

// ---- Positions ----------------------------------------------------------------------------------
static int64_t reach(const window *w, int d) {
    return w->dilation[d] * (w->kernel[d] - 1) + 1;
}

bool window_count(op_call *c, int dims, bool ceil, window *w) {
    for (int d = 0; d < 2; d++) {
        int64_t room = w->size[d] + 2 * w->padding[d] - reach(w, d);
        bool reaches_over = ceil && room < 0 && room > -w->stride[d];
        if (room < 0 && !reaches_over) {
            op_fail(c, GW_INVALID, "a window of %s must fit into %s with padding %s, but does not",
                    shape_text_of(dims, (int64_t[]){ reach(w, 0), reach(w, 1) } + 2 - dims).text,
                    shape_text_of(dims, w->size + 2 - dims).text,
                    shape_text_of(dims, w->padding + 2 - dims).text);
            return false;
        }
        w->out[d] = reaches_over ? 1 : room / w->stride[d] + 1;
        // A window that begins behind the plane and the padding before it would see nothing.
        if (ceil && !reaches_over && room % w->stride[d] &&
            w->out[d] * w->stride[d] < w->size[d] + w->padding[d])
            w->out[d]++;
    }
    return true;
}

// ---- Pools --------------------------------------------------------------------------------------
bool window_pooled(op_call *c, int dims, window *w) {
    const gw_tensor *x = arg_tensor(c->args, 0);
    if (!op_check_float(c, (gw_dtype)x->dtype)) return false;
    if (x->dims != dims + 1 && x->dims != dims + 2) {
        op_fail(c, GW_INVALID, "input %s has %d dimensions, but must have %d or %d",
                shape_text(x).text, x->dims, dims + 1, dims + 2);
        return false;
    }
    if (!window_plane(c, x, dims, w)) return false;
    if (window_plane_size(w) > 0) return true;
    op_fail(c, GW_INVALID, "planes of %s have no elements to pool: they must have some",
            shape_text(x).text);
    return false;
}

bool window_pool(op_call *c, int dims, window *w) {
    if (!window_pooled(c, dims, w) || !window_read(c, 1, "kernel", dims, 1, 1, 1, w->kernel) ||
        !window_read(c, 3, "padding", dims, 0, 0, 0, w->padding))
        return false;
    if (arg_is_none(c->args, 2))
        memcpy(w->stride, w->kernel, sizeof w->stride);
    else if (!window_read(c, 2, "stride", dims, 1, 1, 1, w->stride))
        return false;
    for (int d = 0; d < 2; d++) {
        if (w->padding[d] <= w->kernel[d] / 2) continue;
        op_fail(c, GW_INVALID, "padding is %lld, but must be at most half of the kernel of %lld",
                (long long)w->padding[d], (long long)w->kernel[d]);
        return false;
    }
    return true;
}

int window_output_sizes(const gw_tensor *x, int dims, const window *w, int64_t sizes[4]) {
    for (int i = 0; i < x->dims; i++)
        sizes[i] = i < x->dims - dims ? x->sizes[i] : w->out[i - x->dims + 2];
    return x->dims;
}

window_span window_span_at(const window *w, int d, int64_t o) {
    int64_t dilation = w->dilation[d];
    window_span s = { .first = o * w->stride[d] - w->padding[d] };
    s.end = s.first + reach(w, d);
    if (s.first < 0) s.first += (-s.first + dilation - 1) / dilation * dilation;
    if (s.end > w->size[d]) s.end = w->size[d];
    return s;
}

// ---- Columns ------------------------------------------------------------------------------------
// The positions from |first| to before |end| see x[position * stride + offset], which is in the
// plane.
typedef struct span {
    int64_t first, end, offset;
} span;

static span span_of(const window *w, int64_t k) {
    int64_t offset = k * w->dilation[1] - w->padding[1], stride = w->stride[1];
    span s = { .offset = offset };
    s.first = offset < 0 ? (-offset + stride - 1) / stride : 0;
    s.end = offset < w->size[1] ? (w->size[1] - 1 - offset) / stride + 1 : 0;
    if (s.end > w->out[1]) s.end = w->out[1];
    if (s.first > s.end) s.first = s.end;
    return s;
}

// The row of the plane that row |k| of the window sees at row |position|; -1 outside.
static int64_t row_seen(const window *w, int64_t position, int64_t k) {
    int64_t y = position * w->stride[0] - w->padding[0] + k * w->dilation[0];
    return y < w->size[0] ? y : -1;
}

#define ELEMENT float
#define NAMED(name) name##_f32
#include "tensor/kernels/window_loops.h"

#define ELEMENT double
#define NAMED(name) name##_f64
#include "tensor/kernels/window_loops.h"

void window_unfold(gw_dtype dtype, const window *w, const void *x, int64_t channels, int64_t first,
                   int64_t row_count, void *columns) {
    (dtype == GW_F32 ? unfold_f32 : unfold_f64)(w, x, channels, first, row_count, columns);
}

void window_fold(gw_dtype dtype, const window *w, const void *columns, int64_t channels,
                 int64_t first, int64_t row_count, void *x) {
    (dtype == GW_F32 ? fold_f32 : fold_f64)(w, columns, channels, first, row_count, x);
}
