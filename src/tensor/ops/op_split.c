// A tensor cut along a dimension into several views: split, split_with_sizes, chunk.
#include "tensor/ops/ops.h"
#include <gradwire/ops.h>

// The dimension to cut along, or -1 with the call failed.
static int dim_to_cut(op_call *c) {
    const gw_tensor *x = arg_tensor(c->args, 0);
    if (x->dims > 0) return op_dim(c, x, arg_int(c->args, 2));
    op_fail(c, GW_INVALID, "x is a scalar, but must have at least one dimension");
    return -1;
}

// Makes the next part, |size| of |dim| from |start| on.
static bool cut(op_call *c, int dim, int64_t start, int64_t size) {
    const gw_tensor *x = arg_tensor(c->args, 0);
    int64_t sizes[GW_DIMS_MAX];
    for (int i = 0; i < x->dims; i++) sizes[i] = i == dim ? size : x->sizes[i];
    int64_t offset = x->offset + (size ? start * x->strides[dim] : 0);
    return op_output_view(c, x, x->dims, sizes, x->strides, offset);
}

// |count| parts of |size| each, the last ones as far as there is something left.
static void cut_evenly(op_call *c, int dim, int64_t size, int64_t count) {
    int64_t total = arg_tensor(c->args, 0)->sizes[dim];
    if (!op_output_room(c, count)) return;
    for (int64_t i = 0; i < count; i++) {
        int64_t start = i * size, left = total - start;
        if (!cut(c, dim, start, left < size ? left : size)) return;
    }
}

static int64_t divided_up(int64_t total, int64_t by) {
    return total / by + (total % by != 0);
}

static void infer_split(op_call *c) {
    int dim = dim_to_cut(c);
    if (dim < 0) return;
    int64_t total = arg_tensor(c->args, 0)->sizes[dim], size = arg_int(c->args, 1);
    if (size < 0 || (size == 0 && total > 0)) {
        op_fail(c, GW_INVALID, "the size of parts is %lld, but must be 1 or more", (long long)size);
        return;
    }
    cut_evenly(c, dim, size, total ? divided_up(total, size) : 1);
}

static void infer_split_with_sizes(op_call *c) {
    int dim = dim_to_cut(c);
    if (dim < 0) return;
    const gw_tensor *x = arg_tensor(c->args, 0);
    int64_t sizes[GW_DIMS_MAX], start = 0;
    int count = arg_ints(c->args, 1, sizes);
    bool fits = count > 0;
    for (int i = 0; i < count; i++)
        fits &= sizes[i] >= 0 && !__builtin_add_overflow(start, sizes[i], &start);
    if (!fits || start != x->sizes[dim]) {
        op_fail(c, GW_INVALID, "the sizes %s must sum up to dimension %d of %s",
                shape_text_of(count, sizes).text, dim, shape_text(x).text);
        return;
    }
    if (!op_output_room(c, count)) return;
    start = 0;
    for (int i = 0; i < count; start += sizes[i++])
        if (!cut(c, dim, start, sizes[i])) return;
}

static void infer_chunk(op_call *c) {
    int dim = dim_to_cut(c);
    if (dim < 0) return;
    int64_t total = arg_tensor(c->args, 0)->sizes[dim], count = arg_int(c->args, 1);
    if (count < 1) {
        op_fail(c, GW_INVALID, "chunks is %lld, but must be 1 or more", (long long)count);
        return;
    }
    int64_t size = divided_up(total, count);
    cut_evenly(c, dim, size, size ? divided_up(total, size) : count);
}

// The gradients of the parts, one after the other; zeros of those that have none.
static void grad(op_grad *g) {
    gw_scope *s = g->scope;
    const gw_tensor *x = arg_tensor(g->args, 0);
    gw_tensor **parts = gw_alloc(s, (size_t)g->output_count * sizeof *parts);
    if (!parts) return;
    for (int i = 0; i < g->output_count; i++) {
        const gw_tensor *y = g->outputs[i];
        gw_shape shape = { y->dims, y->sizes };
        parts[i] = g->d_outputs[i] ? g->d_outputs[i] : gw_zeros_with(s, (gw_dtype)x->dtype, shape);
    }
    g->d_inputs[0] = gw_cat(s, parts, g->output_count, (int)arg_int(g->args, 2));
}

const op op_split = {
    .name = "split",
    .params = "x:tensor size:int dim:int?=0",
    .results = OP_LIST,
    .infer = infer_split,
    .grad = grad,
};

const op op_split_with_sizes = {
    .name = "split_with_sizes",
    .params = "x:tensor sizes:ints dim:int?=0",
    .results = OP_LIST,
    .infer = infer_split_with_sizes,
    .grad = grad,
};

const op op_chunk = {
    .name = "chunk",
    .params = "x:tensor chunks:int dim:int?=0",
    .results = OP_LIST,
    .infer = infer_chunk,
    .grad = grad,
};

static gw_list *run(gw_scope *s, const op *o, gw_tensor *x, gw_value how, int dim) {
    const gw_value args[] = { gw_value_of(x), how, gw_value_of(dim) };
    return op_run_value(s, o, args, 3).as.list;
}

gw_list *gw_split(gw_scope *s, gw_tensor *x, int64_t size, int dim) {
    return run(s, &op_split, x, gw_value_of(size), dim);
}

gw_list *gw_split_with_sizes(gw_scope *s, gw_tensor *x, gw_shape sizes, int dim) {
    return run(s, &op_split_with_sizes, x, value_of_ints(sizes), dim);
}

gw_list *gw_chunk(gw_scope *s, gw_tensor *x, int64_t chunks, int dim) {
    return run(s, &op_chunk, x, gw_value_of(chunks), dim);
}
