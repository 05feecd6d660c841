// Other views of the same values, and copies of them.
#include "tensor/copy.h"
#include "tensor/op_sample.h"
#include "tensor/ops.h"
#include <gradwire/ops.h>

static gw_tensor *run2(gw_scope *s, const op *o, gw_tensor *x, gw_value v) {
    return op_run(s, o, (const gw_value[]){ gw_value_of(x), v }, 2, NULL);
}

// ---- to_dtype -----------------------------------------------------------------------------------------------------
static void infer_to_dtype(op_call *c) {
    const gw_tensor *x = arg_tensor(c->args, 0);
    op_output(c, arg_dtype(c->args, 1), x->dims, x->sizes);
}

static void compute_to_dtype(op_call *c) {
    copy_into_new(c->outputs[0], arg_tensor(c->args, 0));
}

static void grad_to_dtype(op_grad *g) {
    g->d_inputs[0] = gw_to_dtype(g->scope, g->d_outputs[0], (gw_dtype)g->args[0].as.tensor->dtype);
}

static void samples_to_dtype(op_sampler *p) {
    sample_call(p, sample_real(p, -2, 2, 3, 4), gw_value_of(GW_F32));
}

const op op_to_dtype = {
    .name = "to_dtype",
    .params = "x:tensor dtype:dtype",
    .infer = infer_to_dtype,
    .compute = compute_to_dtype,
    .grad = grad_to_dtype,
    .samples = samples_to_dtype,
};

gw_tensor *gw_to_dtype(gw_scope *s, gw_tensor *x, gw_dtype dtype) {
    return run2(s, &op_to_dtype, x, gw_value_of((int)dtype));
}
