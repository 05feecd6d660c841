#include "tensor/kernels/conv.h"

#include "tensor/dense.h"
#include "tensor/dtype.h"

enum { STRIP_BYTES = 1 << 19 };  // columns that stay in the second cache

// ---- Arguments ----------------------------------------------------------------------------------
static bool check_tensors(op_call *c, int dims) {
    const gw_tensor *x = arg_tensor(c->args, 0), *w = arg_tensor(c->args, 1);
    if (!dtype_is_float((gw_dtype)x->dtype) || x->dtype != w->dtype) {
        op_fail(c, GW_INVALID, "input is %s and weight %s, but both must be f32, or both f64",
                gw_dtype_name(x->dtype), gw_dtype_name(w->dtype));
        return false;
    }
    if (w->dims != dims + 2) {
        op_fail(c, GW_INVALID, "weight %s has %d dimensions, but must have %d", shape_text(w).text,
                w->dims, dims + 2);
        return false;
    }
    if (x->dims == dims + 1 || x->dims == dims + 2) return true;
    op_fail(c, GW_INVALID, "input %s has %d dimensions, but must have %d or %d", shape_text(x).text,
            x->dims, dims + 1, dims + 2);
    return false;
}

static bool check_channels(op_call *c, int64_t channels, int64_t groups) {
    const gw_tensor *w = arg_tensor(c->args, 1);
    if (groups < 1 || w->sizes[0] % groups) {
        op_fail(c, GW_INVALID,
                "%lld outputs cannot be divided into %lld groups: the number of groups must divide "
                "them",
                (long long)w->sizes[0], (long long)groups);
        return false;
    }
    int64_t wanted;
    if (!__builtin_mul_overflow(w->sizes[1], groups, &wanted) && wanted == channels) return true;
    if (groups == 1)
        op_fail(c, GW_INVALID,
                "input has %lld channels, but the weight is for %lld: they must be equal",
                (long long)channels, (long long)w->sizes[1]);
    else
        op_fail(c, GW_INVALID,
                "input has %lld channels, but the weight has %lld for each of %lld groups: the "
                "input must have the product of the two",
                (long long)channels, (long long)w->sizes[1], (long long)groups);
    return false;
}

// Reads and checks everything but the bias. |dims| is how many dimensions a plane has.
bool conv_read(op_call *c, int dims, conv *v) {
    *v = (conv){ 0 };
    if (!check_tensors(c, dims)) return false;
    const gw_tensor *x = arg_tensor(c->args, 0), *w = arg_tensor(c->args, 1);
    int64_t channels = x->sizes[x->dims - dims - 1];
    v->groups = arg_int(c->args, 6);
    window *win = &v->window;
    if (!check_channels(c, channels, v->groups) || !window_plane(c, x, dims, win) ||
        !window_read(c, 3, "stride", dims, 1, 1, 1, win->stride) ||
        !window_read(c, 4, "padding", dims, 0, 0, 0, win->padding) ||
        !window_read(c, 5, "dilation", dims, 1, 1, 1, win->dilation))
        return false;
    for (int i = 0; i < dims; i++) {
        if (w->sizes[2 + i] >= 1 && w->sizes[2 + i] <= INT32_MAX) continue;
        op_fail(c, GW_INVALID, "weight %s has an empty kernel: its sizes must be 1 or more",
                shape_text(w).text);
        return false;
    }
    win->kernel[0] = dims == 2 ? w->sizes[2] : 1;
    win->kernel[1] = w->sizes[dims + 1];
    if (!window_count(c, dims, false, win)) return false;
    v->type = dtype_compute((gw_dtype)x->dtype);
    v->n = x->dims == dims + 2 ? x->sizes[0] : 1;
    v->c = w->sizes[1];
    v->o = w->sizes[0] / v->groups;
    return true;
}

// Further numbers that products need. Nothing overflows, because x, the weight and the result
// exist.
void conv_plan(conv *v) {
    const window *w = &v->window;
    v->k = v->c * w->kernel[0] * w->kernel[1];
    v->plane = window_plane_size(w);
    v->out_plane = window_out_size(w);
    v->is_plain = w->kernel[0] * w->kernel[1] == 1 && w->stride[0] == 1 && w->stride[1] == 1 &&
                  w->padding[0] == 0 && w->padding[1] == 0;
    int64_t row = v->k * w->out[1] * (int64_t)gw_dtype_size(v->type);
    v->strip_rows = row > 0 && row < STRIP_BYTES ? STRIP_BYTES / row : 1;
    if (v->strip_rows > w->out[0]) v->strip_rows = w->out[0];
}

// ---- Strips -------------------------------------------------------------------------------------
const void *conv_at(const void *values, int64_t i, gw_dtype type) {
    return (const uint8_t *)values + i * (int64_t)gw_dtype_size(type);
}

strip conv_before_first(const conv *v) {
    return (strip){ .image = -1, .group = v->groups - 1, .first_row = v->window.out[0] };
}

// Moves on to the next strip. Returns false after the last.
bool conv_next(const conv *v, const void *x, strip *s) {
    s->first_row += s->row_count;
    if (s->first_row == v->window.out[0]) {
        s->first_row = 0;
        if (++s->group == v->groups) {
            s->group = 0;
            if (++s->image == v->n) return false;
        }
    }
    int64_t rest = v->window.out[0] - s->first_row;
    s->row_count = v->is_plain || rest < v->strip_rows ? rest : v->strip_rows;
    s->first = s->first_row * v->window.out[1];
    s->count = s->row_count * v->window.out[1];
    s->x = x ? conv_at(x, (s->image * v->groups + s->group) * v->c * v->plane, v->type) : NULL;
    return true;
}

void conv_unfold(const conv *v, strip *s, void *room) {
    s->columns = (matrix){ s->x, v->plane, 1 };
    if (v->is_plain) return;
    window_unfold(v->type, &v->window, s->x, v->c, s->first_row, s->row_count, room);
    s->columns = (matrix){ room, s->count, 1 };
}

// The group's part of the weight: O by K.
matrix conv_weight(const conv *v, const strip *s, const void *weight) {
    return (matrix){ conv_at(weight, s->group * v->o * v->k, v->type), v->k, 1 };
}

// The strip's part of the result: O rows, |out_plane| apart.
void *conv_result(const conv *v, const strip *s, const void *out) {
    int64_t planes = (s->image * v->groups + s->group) * v->o;
    return (void *)conv_at(out, planes * v->out_plane + s->first, v->type);
}

// Room for the columns of a strip. A plain convolution needs none, and an empty one neither.
bool conv_open_columns(op_call *c, const conv *v, block **room) {
    *room = NULL;
    if (v->is_plain) return true;
    int64_t count;
    if (__builtin_mul_overflow(v->k, v->strip_rows * v->window.out[1], &count)) count = INT64_MAX;
    *room = scratch_open(c, count, gw_dtype_size(v->type));
    return *room;
}
