// Writing by index: scatter_add, scatter.
#include "tensor/dense.h"
#include "tensor/dtype.h"
#include "tensor/copy.h"
#include "tensor/ops/op_pick.h"
#include "tensor/ops/ops.h"
#include <gradwire/ops.h>

static bool source_fits(const gw_tensor *source, const gw_tensor *index) {
    if ((source->dims ? source->dims : 1) != (index->dims ? index->dims : 1)) return false;
    for (int i = 0; i < index->dims && i < source->dims; i++)
        if (index->sizes[i] > source->sizes[i]) return false;
    return true;
}

// An index without elements may have any dimensions, also more than its input.
static int walked_dims(const gw_tensor *index) {
    return index->numel ? index->dims : 0;
}

// |source| is NULL if scatter is given a number.
static void infer(op_call *c) {
    const gw_tensor *x = arg_tensor(c->args, 0), *index = arg_tensor(c->args, 2);
    const gw_tensor *source = arg_tensor(c->args, 3);
    int dim = op_dim(c, x, arg_int(c->args, 1));
    if (dim < 0 || !pick_check_dtype(c, index)) return;
    if (source && x->dtype != source->dtype) {
        op_fail(c, GW_INVALID, "source is %s, but must be %s", gw_dtype_name(source->dtype),
                gw_dtype_name(x->dtype));
        return;
    }
    if (index->numel > 0 &&
        (!pick_index_fits(index, x, dim) || (source && !source_fits(source, index)))) {
        op_fail(c, GW_INVALID,
                "index has shape %s, source %s, dimension is %d of x with %s: all must have the "
                "same number of dimensions; a size of index must not exceed that of source, nor "
                "that of x except along the dimension",
                shape_text(index).text, source ? shape_text(source).text : "a number", dim,
                shape_text(x).text);
        return;
    }
    op_output_like(c, x);
}

// ---- scatter_add --------------------------------------------------------------------------------
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
    gw_dtype type = dtype_compute_wide((gw_dtype)x->dtype);
    int dim = pick_dim(c->args);
    int64_t n = x->dims ? x->sizes[dim] : 1, stride = y->dims ? y->strides[dim] : 0;
    dense start, index = { 0 }, source = { 0 };
    result out;
    if (dense_open(c, x, type, &start) && dense_open(c, i, GW_I64, &index) &&
        dense_open(c, s, type, &source) && pick_check_range(c, index.values, i->numel, dim, n) &&
        result_open(c, 0, type, &out)) {
        memcpy(out.values, start.values, (size_t)x->numel * gw_dtype_size(type));
        walk w = walk_start(i, dim);
        int64_t step = 1;
        for (int k = walked_dims(i); k-- > 0;) {
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

// A written element has the gradient of its position.
static void give_source(op_grad *g) {
    gw_tensor *d = g->d_outputs[0], *index = arg_tensor(g->args, 2);
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

static void grad_scatter_add(op_grad *g) {
    if (g->wanted[0]) g->d_inputs[0] = g->d_outputs[0];
    give_source(g);
}

const op op_scatter_add = {
    .name = "scatter_add",
    .params = "x:tensor dim:int index:tensor source:tensor",
    .infer = infer,
    .compute = compute_scatter_add,
    .grad = grad_scatter_add,
    .saves = OP_SAVE_ARG(2),
};

gw_tensor *gw_scatter_add(gw_scope *s, gw_tensor *x, int dim, gw_tensor *index, gw_tensor *source) {
    gw_value args[] = { gw_value_of(x), gw_value_of(dim), gw_value_of(index), gw_value_of(source) };
    return op_run(s, &op_scatter_add, args, 4, NULL);
}

// ---- scatter ------------------------------------------------------------------------------------
// The positions of |index| in the output get the elements of |source|, or |number| if that is NULL.
static void write(op_call *c, const int64_t *index, const uint8_t *source, const uint8_t *number) {
    const gw_tensor *i = arg_tensor(c->args, 2), *s = arg_tensor(c->args, 3);
    gw_tensor *y = c->outputs[0];
    int dim = pick_dim(c->args);
    int64_t stride = y->dims ? y->strides[dim] : 0, step = 1;
    size_t size = gw_dtype_size((gw_dtype)y->dtype);
    uint8_t *out = (uint8_t *)tensor_bytes(y);
    walk w = walk_start(i, dim);
    for (int k = walked_dims(i); k-- > 0;) {
        w.strides[k] = y->dims ? y->strides[k] : 0;
        if (!s || !s->dims) continue;
        w.other[k] = step;
        step *= s->sizes[k];
    }
    for (int64_t k = 0; k < i->numel; k++, walk_step(&w))
        copy_element(out + (size_t)(w.x_offset + index[k] * stride) * size,
                     source ? source + (size_t)w.other_offset * size : number, size);
}

static void compute_scatter(op_call *c) {
    const gw_tensor *x = arg_tensor(c->args, 0), *i = arg_tensor(c->args, 2);
    gw_dtype dtype = (gw_dtype)x->dtype;
    uint8_t number[8] = { 0 };
    dense index, source = { 0 };
    if (!arg_tensor(c->args, 3)) dtype_write_value(dtype, number, c->args[3]);
    if (!dense_open(c, i, GW_I64, &index)) return;
    if (dense_open_optional(c, arg_tensor(c->args, 3), dtype, &source) &&
        pick_check_range(c, index.values, i->numel, pick_dim(c->args),
                         x->dims ? x->sizes[pick_dim(c->args)] : 1)) {
        copy_packed(dtype, (uint8_t *)tensor_bytes(c->outputs[0]), x);
        write(c, index.values, source.values, number);
    }
    dense_close(&source);
    dense_close(&index);
}

// Overwritten elements have no gradient.
static void grad_scatter(op_grad *g) {
    if (g->wanted[0])
        g->d_inputs[0] = gw_scatter(g->scope, g->d_outputs[0], (int)arg_int(g->args, 1),
                                    arg_tensor(g->args, 2), 0);
    if (arg_tensor(g->args, 3)) give_source(g);
}

const op op_scatter = {
    .name = "scatter",
    .params = "x:tensor dim:int index:tensor source:operand",
    .infer = infer,
    .compute = compute_scatter,
    .grad = grad_scatter,
    .saves = OP_SAVE_ARG(2),
};

gw_tensor *gw_scatter_with(gw_scope *s, gw_tensor *x, int dim, gw_tensor *index, gw_value source) {
    gw_value args[] = { gw_value_of(x), gw_value_of(dim), gw_value_of(index), source };
    return op_run(s, &op_scatter, args, 4, NULL);
}
