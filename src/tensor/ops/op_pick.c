// Picking by index: gather, index_select.
#include "tensor/ops/op_pick.h"

#include "tensor/dense.h"
#include "tensor/dtype.h"
#include "tensor/ops/ops.h"
#include <gradwire/ops.h>

// ---- Common parts -------------------------------------------------------------------
bool pick_check_dtype(op_call *c, const gw_tensor *index) {
    if (index->dtype == GW_I64 || index->dtype == GW_I32) return true;
    op_fail(c, GW_INVALID, "indices are %s, but must be i64 or i32", gw_dtype_name(index->dtype));
    return false;
}

bool pick_check_range(op_call *c, const int64_t *index, int64_t n, int dim, int64_t size) {
    for (int64_t i = 0; i < n; i++) {
        if (index[i] >= 0 && index[i] < size) continue;
        op_fail(c, GW_INVALID, "index %lld out of range for dimension %d of size %lld",
                (long long)index[i], dim, (long long)size);
        return false;
    }
    return true;
}

int pick_dim(const gw_value *args) {
    const gw_tensor *x = arg_tensor(args, 0);
    int64_t dim = arg_int(args, 1);
    return (int)(dim < 0 ? dim + (x->dims ? x->dims : 1) : dim);
}

bool pick_index_fits(const gw_tensor *index, const gw_tensor *x, int dim) {
    int dims = x->dims ? x->dims : 1, index_dims = index->dims ? index->dims : 1;
    if (dims != index_dims) return false;
    for (int i = 0; i < index->dims && i < x->dims; i++)
        if (i != dim && index->sizes[i] > x->sizes[i]) return false;
    return true;
}

// ---- gather -------------------------------------------------------------------------------------
static void infer_gather(op_call *c) {
    const gw_tensor *x = arg_tensor(c->args, 0), *index = arg_tensor(c->args, 2);
    int dim = op_dim(c, x, arg_int(c->args, 1));
    if (dim < 0 || !pick_check_dtype(c, index)) return;
    if (index->numel > 0 && !pick_index_fits(index, x, dim)) {
        op_fail(c, GW_INVALID,
                "index %s does not fit dimension %d of %s: index must have as many dimensions, and "
                "no larger size except along that dimension",
                shape_text(index).text, dim, shape_text(x).text);
        return;
    }
    op_output(c, (gw_dtype)x->dtype, index->dims, index->sizes);
}

static void compute_gather(op_call *c) {
    const gw_tensor *x = arg_tensor(c->args, 0), *i = arg_tensor(c->args, 2);
    int dim = pick_dim(c->args);
    size_t size = gw_dtype_size((gw_dtype)x->dtype);
    uint8_t *out = (uint8_t *)tensor_bytes(c->outputs[0]);
    int64_t stride = x->dims ? x->strides[dim] : 0, n = x->dims ? x->sizes[dim] : 1;
    dense index;
    if (!dense_open(c, i, GW_I64, &index)) return;
    const int64_t *values = index.values;
    if (pick_check_range(c, values, i->numel, dim, n)) {
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
    gw_tensor *zeros = tensor_full_like(g->scope, x, 0);
    g->d_inputs[0] = gw_scatter_add(g->scope, zeros, (int)arg_int(g->args, 1),
                                    arg_tensor(g->args, 2), g->d_outputs[0]);
}

const op op_gather = {
    .name = "gather",
    .params = "x:tensor dim:int index:tensor",
    .infer = infer_gather,
    .compute = compute_gather,
    .grad = grad_gather,
    .saves = OP_SAVE_ARG(2),
};

gw_tensor *gw_gather(gw_scope *s, gw_tensor *x, int dim, gw_tensor *index) {
    gw_value args[] = { gw_value_of(x), gw_value_of(dim), gw_value_of(index) };
    return op_run(s, &op_gather, args, 3, NULL);
}

// ---- index_select -------------------------------------------------------------------------------
static void infer_index_select(op_call *c) {
    const gw_tensor *x = arg_tensor(c->args, 0), *index = arg_tensor(c->args, 2);
    int dim = op_dim(c, x, arg_int(c->args, 1));
    if (dim < 0 || !pick_check_dtype(c, index)) return;
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
    int dim = pick_dim(c->args);
    int64_t outer = 1, n = x->dims ? x->sizes[dim] : 1, inner = 1;
    for (int k = 0; k < dim; k++) outer *= x->sizes[k];
    for (int k = dim + 1; k < x->dims; k++) inner *= x->sizes[k];
    size_t bytes = (size_t)inner * gw_dtype_size((gw_dtype)x->dtype);
    uint8_t *out = (uint8_t *)tensor_bytes(c->outputs[0]);
    dense from, index = { 0 };
    if (dense_open(c, x, (gw_dtype)x->dtype, &from) && dense_open(c, i, GW_I64, &index) &&
        pick_check_range(c, index.values, i->numel, dim, n)) {
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
    int dim = pick_dim(g->args);
    int64_t sizes[GW_DIMS_MAX];
    for (int i = 0; i < d->dims; i++) sizes[i] = i == dim ? index->numel : 1;
    gw_tensor *wide = gw_reshape_with(s, index, (gw_shape){ d->dims, sizes });
    wide = gw_expand_with(s, wide, (gw_shape){ d->dims, d->sizes });
    gw_tensor *zeros = tensor_full_like(s, x, 0);
    g->d_inputs[0] = gw_scatter_add(s, zeros, dim, wide, d);
}

const op op_index_select = {
    .name = "index_select",
    .params = "x:tensor dim:int index:tensor",
    .infer = infer_index_select,
    .compute = compute_index_select,
    .grad = grad_index_select,
    .saves = OP_SAVE_ARG(2),
};

gw_tensor *gw_index_select(gw_scope *s, gw_tensor *x, int dim, gw_tensor *index) {
    gw_value args[] = { gw_value_of(x), gw_value_of(dim), gw_value_of(index) };
    return op_run(s, &op_index_select, args, 3, NULL);
}
