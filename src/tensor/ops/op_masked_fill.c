// One number in the positions of a mask.
#include "tensor/ops/operands.h"
#include "tensor/ops/ops.h"
#include <gradwire/ops.h>

static void infer(op_call *c) {
    const gw_tensor *x = arg_tensor(c->args, 0), *mask = arg_tensor(c->args, 1);
    const gw_tensor *value = arg_tensor(c->args, 2);
    if (mask->dtype != GW_BOOL8) {
        op_fail(c, GW_INVALID, "the mask must be bool, not %s",
                gw_dtype_name((gw_dtype)mask->dtype));
        return;
    }
    if (value && value->dims > 0) {
        op_fail(c, GW_INVALID, "the value must be a number or a scalar, not %s",
                shape_text(value).text);
        return;
    }
    int64_t sizes[GW_DIMS_MAX];
    int dims = op_broadcast(c, x, mask, sizes);
    if (dims >= 0) op_output(c, (gw_dtype)x->dtype, dims, sizes);
}

static void compute(op_call *c) {
    gw_dtype as = ew_dtype((gw_dtype)c->outputs[0]->dtype);
    ew_call e = {
        .out = c->outputs[0],
        .out_as = as,
        .in_count = 3,
        .vectors = 1,
        .kernel = loop_for(LOOP_WHERE, as),
    };
    operand_input(&e.in[0], c, 1, GW_BOOL8);
    operand_input(&e.in[1], c, 2, as);
    operand_input(&e.in[2], c, 0, as);
    elementwise_run(&e);
}

static gw_tensor *d_rest(const op_grad *g, gw_value d) {
    return gw_where(g->scope, arg_tensor(g->args, 1), 0.0, d);
}
static gw_tensor *d_value(const op_grad *g, gw_value d) {
    return gw_where(g->scope, arg_tensor(g->args, 1), d, 0.0);
}
static void grad(op_grad *g) {
    operand_give(g, 0, d_rest);
    operand_give(g, 2, d_value);
}

const op op_masked_fill = {
    .name = "masked_fill",
    .params = "x:tensor mask:tensor value:operand",
    .infer = infer,
    .compute = compute,
    .grad = grad,
    .saves = OP_SAVE_ARG(1),
};

gw_tensor *gw_masked_fill_with(gw_scope *s, gw_tensor *x, gw_tensor *mask, gw_value value) {
    const gw_value args[] = { gw_value_of(x), gw_value_of(mask), value };
    return op_run(s, &op_masked_fill, args, 3, NULL);
}
