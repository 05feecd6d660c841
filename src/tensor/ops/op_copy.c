// Copies: in another layout, in another dtype, into an existing tensor.
#include "tensor/copy.h"
#include "tensor/dtype.h"
#include "tensor/ops/ops.h"
#include <gradwire/ops.h>

static void output_itself(op_call *c, const gw_tensor *x) {
    op_output_view(c, x, x->dims, x->sizes, x->strides, x->offset);
}

static void copy_if_new(op_call *c) {
    const gw_tensor *x = arg_tensor(c->args, 0);
    if (c->outputs[0]->storage != x->storage) copy_into_new(c->outputs[0], x);
}

static void grad_same(op_grad *g) {
    g->d_inputs[0] = g->d_outputs[0];
}

// ---- contiguous, clone --------------------------------------------------------------------------
static void infer_contiguous(op_call *c) {
    const gw_tensor *x = arg_tensor(c->args, 0);
    if (x->contiguous) {
        output_itself(c, x);
    } else {
        op_output_like(c, x);
    }
}

const op op_contiguous = {
    .name = "contiguous",
    .params = "x:tensor",
    .infer = infer_contiguous,
    .compute = copy_if_new,
    .grad = grad_same,
};

gw_tensor *gw_contiguous(gw_scope *s, gw_tensor *x) {
    return op_run(s, &op_contiguous, (const gw_value[]){ gw_value_of(x) }, 1, NULL);
}

const op op_clone = {
    .name = "clone",
    .params = "x:tensor",
    .infer = op_infer_first,
    .compute = copy_if_new,
    .grad = grad_same,
};

gw_tensor *gw_clone(gw_scope *s, gw_tensor *x) {
    return op_run(s, &op_clone, (const gw_value[]){ gw_value_of(x) }, 1, NULL);
}

// ---- to_dtype -----------------------------------------------------------------------------------
static void infer_to_dtype(op_call *c) {
    const gw_tensor *x = arg_tensor(c->args, 0);
    gw_dtype dtype = arg_dtype(c->args, 1);
    if (dtype == (gw_dtype)x->dtype) {
        output_itself(c, x);
    } else {
        op_output(c, dtype, x->dims, x->sizes);
    }
}

static void grad_to_dtype(op_grad *g) {
    g->d_inputs[0] = gw_to_dtype(g->scope, g->d_outputs[0], (gw_dtype)g->args[0].as.tensor->dtype);
}

const op op_to_dtype = {
    .name = "to_dtype",
    .params = "x:tensor dtype:dtype",
    .infer = infer_to_dtype,
    .compute = copy_if_new,
    .grad = grad_to_dtype,
};

gw_tensor *gw_to_dtype(gw_scope *s, gw_tensor *x, gw_dtype dtype) {
    const gw_value args[] = { gw_value_of(x), gw_value_of((int)dtype) };
    return op_run(s, &op_to_dtype, args, 2, NULL);
}
