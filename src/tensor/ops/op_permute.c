// Dimensions in another order.
#include "tensor/ops/ops.h"
#include <gradwire/ops.h>

static void output_permuted(op_call *c, const gw_tensor *x, const int64_t *order) {
    int64_t sizes[GW_DIMS_MAX], strides[GW_DIMS_MAX];
    for (int i = 0; i < x->dims; i++) {
        sizes[i] = x->sizes[order[i]];
        strides[i] = x->strides[order[i]];
    }
    op_output_view(c, x, x->dims, sizes, strides, x->offset);
}

static void infer_permute(op_call *c) {
    const gw_tensor *x = arg_tensor(c->args, 0);
    int64_t order[GW_DIMS_MAX];
    int count = arg_ints(c->args, 1, order);
    uint32_t seen = 0;
    for (int i = 0; i < count; i++) {
        int dim = op_dim(c, x, order[i]);
        if (dim < 0) return;
        order[i] = dim;
        seen |= (uint32_t)1 << dim;
    }
    if (count != x->dims || __builtin_popcount(seen) != count) {
        op_fail(c, GW_INVALID,
                "%s is not an order of the %d dimensions of %s: each must be listed once",
                shape_text_of(count, order).text, x->dims, shape_text(x).text);
        return;
    }
    output_permuted(c, x, order);
}

static void grad_permute(op_grad *g) {
    int64_t order[GW_DIMS_MAX], back[GW_DIMS_MAX];
    int dims = arg_ints(g->args, 1, order);
    for (int i = 0; i < dims; i++) back[order[i] < 0 ? order[i] + dims : order[i]] = i;
    g->d_inputs[0] = gw_permute_with(g->scope, g->d_outputs[0], (gw_shape){ dims, back });
}

const op op_permute = {
    .name = "permute",
    .params = "x:tensor dims:ints",
    .infer = infer_permute,
    .grad = grad_permute,
};

gw_tensor *gw_permute_with(gw_scope *s, gw_tensor *x, gw_shape dims) {
    return op_run(s, &op_permute, (const gw_value[]){ gw_value_of(x), value_of_ints(dims) }, 2,
                  NULL);
}

static void infer_transpose(op_call *c) {
    const gw_tensor *x = arg_tensor(c->args, 0);
    int a = op_dim(c, x, arg_int(c->args, 1));
    int b = a < 0 ? -1 : op_dim(c, x, arg_int(c->args, 2));
    if (b < 0) return;
    int64_t order[GW_DIMS_MAX];
    for (int i = 0; i < x->dims; i++) order[i] = i == a ? b : i == b ? a : i;
    output_permuted(c, x, order);
}

static void grad_transpose(op_grad *g) {
    g->d_inputs[0] =
        gw_transpose(g->scope, g->d_outputs[0], (int)arg_int(g->args, 1), (int)arg_int(g->args, 2));
}

const op op_transpose = {
    .name = "transpose",
    .params = "x:tensor dim0:int dim1:int",
    .infer = infer_transpose,
    .grad = grad_transpose,
};

gw_tensor *gw_transpose(gw_scope *s, gw_tensor *x, int dim0, int dim1) {
    const gw_value args[] = { gw_value_of(x), gw_value_of(dim0), gw_value_of(dim1) };
    return op_run(s, &op_transpose, args, 3, NULL);
}
