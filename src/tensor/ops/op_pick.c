// Picking by index: gather, scatter_add, index_select.
#include "tensor/dense.h"
#include "tensor/dtype.h"
#include "tensor/ops/op_sample.h"
#include "tensor/ops/ops.h"
#include <gradwire/ops.h>

static bool check_index_dtype(op_call *c, const gw_tensor *index) {
    if (index->dtype == GW_I64 || index->dtype == GW_I32) return true;
    op_fail(c, GW_INVALID, "indices are %s, but must be i64 or i32", gw_dtype_name(index->dtype));
    return false;
}

static bool check_range(op_call *c, const int64_t *index, int64_t n, int dim, int64_t size) {
    for (int64_t i = 0; i < n; i++) {
        if (index[i] >= 0 && index[i] < size) continue;
        op_fail(c, GW_INVALID, "index %lld out of range for dimension %d of size %lld",
                (long long)index[i], dim, (long long)size);
        return false;
    }
    return true;
}

// The dimension, 0 for a scalar, which counts as a list of one number here.
static int dim_of(const gw_value *args) {
    const gw_tensor *x = arg_tensor(args, 0);
    int64_t dim = arg_int(args, 1);
    return (int)(dim < 0 ? dim + (x->dims ? x->dims : 1) : dim);
}

// ---- gather and scatter_add ---------------------------------------------------------------------------------------
// Both go through the places of |index| in order. One of them reads from x what the other adds to it:
// out[i, j] = x[index[i, j], j] and x[index[i, j], j] += source[i, j], for dimension 0.
typedef struct walk {
    int dims, dim;
    const int64_t *sizes;          // of index
    int64_t strides[GW_DIMS_MAX];  // of x
    int64_t other[GW_DIMS_MAX];    // of source
    int64_t at[GW_DIMS_MAX];
    int64_t x_offset, other_offset;  // without dimension |dim| for x
} walk;

static walk walk_start(const gw_tensor *index, int dim) {
    return (walk){ .dims = index->dims, .dim = dim, .sizes = index->sizes };
}

static void walk_step(walk *w) {
    for (int i = w->dims - 1; i >= 0; i--) {
        int64_t stride = i == w->dim ? 0 : w->strides[i];
        w->x_offset += stride;
        w->other_offset += w->other[i];
        if (++w->at[i] < w->sizes[i]) return;
        w->x_offset -= stride * w->sizes[i];
        w->other_offset -= w->other[i] * w->sizes[i];
        w->at[i] = 0;
    }
}

// Whether |index| has the dimensions of |x|, and none longer but |dim|.
static bool index_fits(const gw_tensor *index, const gw_tensor *x, int dim) {
    int dims = x->dims ? x->dims : 1, index_dims = index->dims ? index->dims : 1;
    if (dims != index_dims) return false;
    for (int i = 0; i < index->dims && i < x->dims; i++)
        if (i != dim && index->sizes[i] > x->sizes[i]) return false;
    return true;
}

static void infer_gather(op_call *c) {
    const gw_tensor *x = arg_tensor(c->args, 0), *index = arg_tensor(c->args, 2);
    int dim = op_dim(c, x, arg_int(c->args, 1));
    if (dim < 0 || !check_index_dtype(c, index)) return;
    if (index->numel > 0 && !index_fits(index, x, dim)) {
        op_fail(c, GW_INVALID, "index %s along dimension %d of %s", shape_text(index).text, dim,
                shape_text(x).text);
        return;
    }
    op_output(c, (gw_dtype)x->dtype, index->dims, index->sizes);
}

static void copy_element(uint8_t *to, const uint8_t *from, size_t size) {
    switch (size) {
    case 1: *to = *from; return;
    case 2: memcpy(to, from, 2); return;
    case 4: memcpy(to, from, 4); return;
    default: memcpy(to, from, 8);
    }
}

static void compute_gather(op_call *c) {
    const gw_tensor *x = arg_tensor(c->args, 0), *i = arg_tensor(c->args, 2);
    int dim = dim_of(c->args);
    size_t size = gw_dtype_size((gw_dtype)x->dtype);
    uint8_t *out = (uint8_t *)tensor_bytes(c->outputs[0]);
    int64_t stride = x->dims ? x->strides[dim] : 0, n = x->dims ? x->sizes[dim] : 1;
    dense index;
    if (!dense_open(c, i, GW_I64, &index)) return;
    const int64_t *values = index.values;
    if (check_range(c, values, i->numel, dim, n)) {
        walk w = walk_start(i, dim);
        for (int k = 0; k < i->dims && k < x->dims; k++) w.strides[k] = x->strides[k];
        const uint8_t *from = tensor_bytes(x);
        for (int64_t k = 0; k < i->numel; k++, walk_step(&w))
            copy_element(out + (size_t)k * size,
                         from + (w.x_offset + values[k] * stride) * (int64_t)size, size);
    }
    dense_close(&index);
}

static void grad_gather(op_grad *g) {
    gw_tensor *x = arg_tensor(g->args, 0);
    if (!g->wanted[0]) return;
    gw_tensor *zeros = gw_zeros_with(g->scope, (gw_dtype)x->dtype, (gw_shape){ x->dims, x->sizes });
    g->d_inputs[0] = gw_scatter_add(g->scope, zeros, (int)arg_int(g->args, 1),
                                    arg_tensor(g->args, 2), g->d_outputs[0]);
}

static void samples_gather(op_sampler *p) {
    sample_call(p, sample_real(p, -2, 2, 4, 3), gw_value_of(0),
                sample_tensor(p, GW_I64, 0, 4, 5, 3));
    sample_call(p, sample_real(p, -2, 2, 4, 3), gw_value_of(-1),
                sample_tensor(p, GW_I32, 0, 3, 2, 2));
    sample_call(p, sample_real(p, -2, 2, 2, 3, 2), gw_value_of(1),
                sample_tensor(p, GW_I64, 0, 3, 2, 4, 2));
    sample_call(p, sample_real(p, -2, 2, 3), gw_value_of(0), sample_tensor(p, GW_I64, 0, 3, 0));
}

const op op_gather = {
    .name = "gather",
    .params = "x:tensor dim:int index:tensor",
    .infer = infer_gather,
    .compute = compute_gather,
    .grad = grad_gather,
    .saves = OP_SAVE_ARG(2),
    .samples = samples_gather,
};

gw_tensor *gw_gather(gw_scope *s, gw_tensor *x, int dim, gw_tensor *index) {
    gw_value args[] = { gw_value_of(x), gw_value_of(dim), gw_value_of(index) };
    return op_run(s, &op_gather, args, 3, NULL);
}

static bool source_fits(const gw_tensor *source, const gw_tensor *index) {
    if ((source->dims ? source->dims : 1) != (index->dims ? index->dims : 1)) return false;
    for (int i = 0; i < index->dims && i < source->dims; i++)
        if (index->sizes[i] > source->sizes[i]) return false;
    return true;
}

static void infer_scatter_add(op_call *c) {
    const gw_tensor *x = arg_tensor(c->args, 0), *index = arg_tensor(c->args, 2);
    const gw_tensor *source = arg_tensor(c->args, 3);
    int dim = op_dim(c, x, arg_int(c->args, 1));
    if (dim < 0 || !check_index_dtype(c, index)) return;
    if (x->dtype != source->dtype) {
        op_fail(c, GW_INVALID, "source is %s, but must be %s", gw_dtype_name(source->dtype),
                gw_dtype_name(x->dtype));
        return;
    }
    if (index->numel > 0 && (!index_fits(index, x, dim) || !source_fits(source, index))) {
        op_fail(c, GW_INVALID, "index %s with source %s along dimension %d of %s",
                shape_text(index).text, shape_text(source).text, dim, shape_text(x).text);
        return;
    }
    op_output(c, (gw_dtype)x->dtype, x->dims, x->sizes);
}

static void add_number(gw_dtype type, void *to, int64_t i, const void *from, int64_t k) {
    if (type == GW_F32)
        ((float *)to)[i] += ((const float *)from)[k];
    else if (type == GW_F64)
        ((double *)to)[i] += ((const double *)from)[k];
    else
        ((uint64_t *)to)[i] += ((const uint64_t *)from)[k];  // wraps around
}

static void compute_scatter_add(op_call *c) {
    const gw_tensor *x = arg_tensor(c->args, 0), *i = arg_tensor(c->args, 2);
    const gw_tensor *s = arg_tensor(c->args, 3);
    gw_tensor *y = c->outputs[0];
    gw_dtype type = dtype_is_float((gw_dtype)x->dtype) ? dtype_compute((gw_dtype)x->dtype) : GW_I64;
    int dim = dim_of(c->args);
    int64_t n = x->dims ? x->sizes[dim] : 1, stride = y->dims ? y->strides[dim] : 0;
    dense start, index = { 0 }, source = { 0 };
    result out;
    if (dense_open(c, x, type, &start) && dense_open(c, i, GW_I64, &index) &&
        dense_open(c, s, type, &source) && check_range(c, index.values, i->numel, dim, n) &&
        result_open(c, 0, type, &out)) {
        memcpy(out.values, start.values, (size_t)x->numel * gw_dtype_size(type));
        walk w = walk_start(i, dim);
        int64_t step = 1;
        for (int k = i->dims; k-- > 0;) {
            w.strides[k] = y->dims ? y->strides[k] : 0;
            w.other[k] = s->dims ? step : 0;
            step *= s->dims ? s->sizes[k] : 1;
        }
        const int64_t *values = index.values;
        for (int64_t k = 0; k < i->numel; k++, walk_step(&w))
            add_number(type, out.values, w.x_offset + values[k] * stride, source.values,
                       w.other_offset);
        result_close(&out);
    }
    dense_close(&source);
    dense_close(&index);
    dense_close(&start);
}

// A source longer than the index gets zeros where nothing of it was read.
static gw_tensor *pad_to(gw_scope *s, gw_tensor *d, const gw_tensor *like) {
    for (int i = 0; i < like->dims && i < d->dims; i++) {
        int64_t sizes[GW_DIMS_MAX], missing = like->sizes[i] - d->sizes[i];
        if (missing == 0) continue;
        memcpy(sizes, d->sizes, d->dims * sizeof *sizes);
        sizes[i] = missing;
        gw_tensor *zeros = gw_zeros_with(s, (gw_dtype)d->dtype, (gw_shape){ d->dims, sizes });
        d = gw_cat(s, (gw_tensor *[]){ d, zeros }, 2, i);
    }
    return d;
}

static void grad_scatter_add(op_grad *g) {
    gw_tensor *d = g->d_outputs[0], *index = arg_tensor(g->args, 2);
    if (g->wanted[0]) g->d_inputs[0] = d;
    int source = grad_input(g, 3);
    if (!g->wanted[source]) return;
    const gw_tensor *like = arg_tensor(g->args, 3);
    gw_tensor *picked;
    if (index->numel == 0)
        picked = gw_zeros_with(g->scope, (gw_dtype)d->dtype, (gw_shape){ like->dims, like->sizes });
    else
        picked = gw_gather(g->scope, d, (int)arg_int(g->args, 1), index);
    g->d_inputs[source] = pad_to(g->scope, picked, like);
}

static void samples_scatter_add(op_sampler *p) {
    sample_call(p, sample_real(p, -2, 2, 4, 3), gw_value_of(0),
                sample_tensor(p, GW_I64, 0, 4, 5, 3), sample_real(p, -2, 2, 5, 3));
    sample_call(p, sample_real(p, -2, 2, 4, 3), gw_value_of(-1),
                sample_tensor(p, GW_I32, 0, 3, 2, 2), sample_real(p, -2, 2, 3, 4));
    sample_call(p, sample_real(p, -2, 2, 3), gw_value_of(0), sample_tensor(p, GW_I64, 0, 3, 0),
                sample_real(p, -2, 2, 0));
    sample_call(p, sample_real(p, -2, 2, 3, 2), gw_value_of(0), sample_tensor(p, GW_I64, 0, 3, 0),
                sample_real(p, -2, 2, 4, 2));
    sample_call(p, sample_real(p, -2, 2, 3, 2), gw_value_of(0),
                sample_tensor(p, GW_I64, 0, 3, 2, 1), sample_real(p, -2, 2, 4, 2));
}

const op op_scatter_add = {
    .name = "scatter_add",
    .params = "x:tensor dim:int index:tensor source:tensor",
    .infer = infer_scatter_add,
    .compute = compute_scatter_add,
    .grad = grad_scatter_add,
    .saves = OP_SAVE_ARG(2),
    .samples = samples_scatter_add,
};

gw_tensor *gw_scatter_add(gw_scope *s, gw_tensor *x, int dim, gw_tensor *index, gw_tensor *source) {
    gw_value args[] = { gw_value_of(x), gw_value_of(dim), gw_value_of(index), gw_value_of(source) };
    return op_run(s, &op_scatter_add, args, 4, NULL);
}

// ---- index_select -------------------------------------------------------------------------------------------------
static void infer_index_select(op_call *c) {
    const gw_tensor *x = arg_tensor(c->args, 0), *index = arg_tensor(c->args, 2);
    int dim = op_dim(c, x, arg_int(c->args, 1));
    if (dim < 0 || !check_index_dtype(c, index)) return;
    if (index->dims > 1 || (x->dims == 0 && index->numel != 1)) {
        op_fail(c, GW_INVALID, "index is %s, but must have 1 dimension", shape_text(index).text);
        return;
    }
    int64_t sizes[GW_DIMS_MAX];
    memcpy(sizes, x->sizes, x->dims * sizeof *sizes);
    if (x->dims) sizes[dim] = index->numel;
    op_output(c, (gw_dtype)x->dtype, x->dims, sizes);
}

static void compute_index_select(op_call *c) {
    const gw_tensor *x = arg_tensor(c->args, 0), *i = arg_tensor(c->args, 2);
    int dim = dim_of(c->args);
    int64_t outer = 1, n = x->dims ? x->sizes[dim] : 1, inner = 1;
    for (int k = 0; k < dim; k++) outer *= x->sizes[k];
    for (int k = dim + 1; k < x->dims; k++) inner *= x->sizes[k];
    size_t bytes = (size_t)inner * gw_dtype_size((gw_dtype)x->dtype);
    uint8_t *out = (uint8_t *)tensor_bytes(c->outputs[0]);
    dense from, index = { 0 };
    if (dense_open(c, x, (gw_dtype)x->dtype, &from) && dense_open(c, i, GW_I64, &index) &&
        check_range(c, index.values, i->numel, dim, n)) {
        const int64_t *values = index.values;
        const uint8_t *source = from.values;
        for (int64_t o = 0; o < outer; o++)
            for (int64_t k = 0; k < i->numel; k++, out += bytes)
                memcpy(out, source + (size_t)(o * n + values[k]) * bytes, bytes);
    }
    dense_close(&index);
    dense_close(&from);
}

// The index, repeated along every other dimension, is scatter_add's.
static void grad_index_select(op_grad *g) {
    gw_scope *s = g->scope;
    gw_tensor *x = arg_tensor(g->args, 0), *index = arg_tensor(g->args, 2), *d = g->d_outputs[0];
    if (!g->wanted[0]) return;
    int dim = dim_of(g->args);
    int64_t sizes[GW_DIMS_MAX];
    for (int i = 0; i < d->dims; i++) sizes[i] = i == dim ? index->numel : 1;
    gw_tensor *wide = gw_reshape_with(s, index, (gw_shape){ d->dims, sizes });
    wide = gw_expand_with(s, wide, (gw_shape){ d->dims, d->sizes });
    gw_tensor *zeros = gw_zeros_with(s, (gw_dtype)x->dtype, (gw_shape){ x->dims, x->sizes });
    g->d_inputs[0] = gw_scatter_add(s, zeros, dim, wide, d);
}

static void samples_index_select(op_sampler *p) {
    sample_call(p, sample_real(p, -2, 2, 4, 3), gw_value_of(0), sample_tensor(p, GW_I64, 0, 4, 5));
    sample_call(p, sample_real(p, -2, 2, 2, 4, 3), gw_value_of(-2),
                sample_tensor(p, GW_I32, 0, 4, 2));
    sample_call(p, sample_real(p, -2, 2, 4), gw_value_of(0), sample_tensor(p, GW_I64, 0, 4, 0));
}

const op op_index_select = {
    .name = "index_select",
    .params = "x:tensor dim:int index:tensor",
    .infer = infer_index_select,
    .compute = compute_index_select,
    .grad = grad_index_select,
    .saves = OP_SAVE_ARG(2),
    .samples = samples_index_select,
};

gw_tensor *gw_index_select(gw_scope *s, gw_tensor *x, int dim, gw_tensor *index) {
    gw_value args[] = { gw_value_of(x), gw_value_of(dim), gw_value_of(index) };
    return op_run(s, &op_index_select, args, 3, NULL);
}
