// Parts of a tensor, as views.
#include "tensor/ops/ops.h"
#include <gradwire/ops.h>

static void output_with(op_call *c, const gw_tensor *x, int dim, int64_t size, int64_t stride,
                        int64_t offset) {
    int64_t sizes[GW_DIMS_MAX], strides[GW_DIMS_MAX];
    for (int i = 0; i < x->dims; i++) {
        sizes[i] = i == dim ? size : x->sizes[i];
        strides[i] = i == dim ? stride : x->strides[i];
    }
    op_output_view(c, x, x->dims, sizes, strides, offset);
}

// Python's rules: negative counts from the end, and numbers out of range end there.
static int64_t bound(int64_t at, int64_t size) {
    if (at < 0) at += size;
    return at < 0 ? 0 : at > size ? size : at;
}

static void infer_slice(op_call *c) {
    const gw_tensor *x = arg_tensor(c->args, 0);
    int64_t step = arg_int(c->args, 4);
    if (x->dims == 0) {
        op_fail(c, GW_INVALID, "x is a scalar, but must have at least one dimension");
        return;
    }
    int dim = op_dim(c, x, arg_int(c->args, 1));
    if (dim < 0) return;
    if (step < 1) {
        op_fail(c, GW_INVALID, "the step must be at least 1, not %lld", (long long)step);
        return;
    }
    int64_t start = bound(arg_int(c->args, 2), x->sizes[dim]);
    int64_t end = bound(arg_int(c->args, 3), x->sizes[dim]);
    int64_t size = end > start ? (end - start - 1) / step + 1 : 0;
    int64_t stride = size > 1 ? x->strides[dim] * step : x->strides[dim];
    output_with(c, x, dim, size, stride, x->offset + (size ? start * x->strides[dim] : 0));
}

// Zeros of the argument's shape, and the gradient in the part.
static void grad_slice(op_grad *g) {
    gw_scope *s = g->scope;
    const gw_tensor *x = g->args[0].as.tensor;
    gw_tensor *d = tensor_full_like(s, x, 0);
    gw_tensor *part = gw_slice(s, d, (int)arg_int(g->args, 1), arg_int(g->args, 2),
                               arg_int(g->args, 3), arg_int(g->args, 4));
    gw_copy_(s, part, g->d_outputs[0]);
    g->d_inputs[0] = d;
}

const op op_slice = {
    .name = "slice",
    .params = "x:tensor dim:int start:int end:int step:int",
    .infer = infer_slice,
    .grad = grad_slice,
};

gw_tensor *gw_slice(gw_scope *s, gw_tensor *x, int dim, int64_t start, int64_t end, int64_t step) {
    const gw_value args[] = { gw_value_of(x), gw_value_of(dim), gw_value_of(start),
                              gw_value_of(end), gw_value_of(step) };
    return op_run(s, &op_slice, args, 5, NULL);
}

// ---- select -------------------------------------------------------------------------------------
static void infer_select(op_call *c) {
    const gw_tensor *x = arg_tensor(c->args, 0);
    int64_t index = arg_int(c->args, 2);
    if (x->dims == 0) {
        op_fail(c, GW_INVALID, "x is a scalar, but must have at least one dimension");
        return;
    }
    int dim = op_dim(c, x, arg_int(c->args, 1)), dims = 0;
    if (dim < 0) return;
    if (index < -x->sizes[dim] || index >= x->sizes[dim]) {
        op_fail(c, GW_INVALID, "index %lld out of range for dimension %d of %s", (long long)index,
                dim, shape_text(x).text);
        return;
    }
    if (index < 0) index += x->sizes[dim];
    int64_t sizes[GW_DIMS_MAX], strides[GW_DIMS_MAX];
    for (int i = 0; i < x->dims; i++) {
        if (i == dim) continue;
        sizes[dims] = x->sizes[i];
        strides[dims++] = x->strides[i];
    }
    op_output_view(c, x, dims, sizes, strides, x->offset + index * x->strides[dim]);
}

static void grad_select(op_grad *g) {
    gw_scope *s = g->scope;
    const gw_tensor *x = g->args[0].as.tensor;
    gw_tensor *d = tensor_full_like(s, x, 0);
    gw_tensor *part = gw_select(s, d, (int)arg_int(g->args, 1), arg_int(g->args, 2));
    gw_copy_(s, part, g->d_outputs[0]);
    g->d_inputs[0] = d;
}

const op op_select = {
    .name = "select",
    .params = "x:tensor dim:int index:int",
    .infer = infer_select,
    .grad = grad_select,
};

gw_tensor *gw_select(gw_scope *s, gw_tensor *x, int dim, int64_t index) {
    const gw_value args[] = { gw_value_of(x), gw_value_of(dim), gw_value_of(index) };
    return op_run(s, &op_select, args, 3, NULL);
}
