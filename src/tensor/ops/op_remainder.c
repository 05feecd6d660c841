// The remainder of a division, with the sign of the divisor, as in Python.
#include "tensor/dense.h"
#include "tensor/ops/operands.h"
#include "tensor/ops/ops.h"
#include <gradwire/ops.h>

static void infer(op_call *c) {
    if (op_check_number(c, operands_dtype(c, 0, 1))) operands_infer(c);
}

static bool has_zero(op_call *c, const ew_input *in) {
    if (!in->x) return arg_number(&in->number, 0) == 0;
    dense values;
    if (!dense_open(c, in->x, GW_I64, &values)) return false;
    const int64_t *y = values.values;
    int64_t i = 0;
    while (i < in->x->numel && y[i] != 0) i++;
    dense_close(&values);
    return i < in->x->numel;
}

static void compute(op_call *c) {
    gw_dtype as = (gw_dtype)c->plan.ints[0];
    ew_input divisor;
    operand_input_cast(&divisor, c, 1, as);
    if (!dtype_is_float(as) && c->outputs[0]->numel && has_zero(c, &divisor)) {
        op_fail(c, GW_INVALID, "an element of b is 0, but an integer cannot be divided by 0");
        return;
    }
    if (!c->scope->error) operands_compute(c);
}

// a = floor(a / b) b + remainder.
static gw_tensor *d_dividend(const op_grad *g, gw_value d) {
    (void)g;
    return d.as.tensor;
}
static gw_tensor *d_divisor(const op_grad *g, gw_value d) {
    gw_scope *s = g->scope;
    gw_value a = grad_wide(s, g->args[0]), b = g->args[1];
    gw_tensor *times = gw_round(s, gw_div(s, gw_sub(s, a, g->outputs[0]), b));
    return gw_neg(s, gw_mul(s, d, times));
}
static void grad(op_grad *g) {
    operand_give(g, 0, d_dividend);
    operand_give(g, 1, d_divisor);
}

const op op_remainder = {
    .name = "remainder",
    .params = "a:operand b:operand",
    .infer = infer,
    .compute = compute,
    .variant = LOOP_REMAINDER,
    .grad = grad,
    .saves = OP_SAVE_ARG(0) | OP_SAVE_ARG(1) | OP_SAVE_OUT(0),
};

gw_tensor *gw_remainder_with(gw_scope *s, gw_value a, gw_value b) {
    return op_run(s, &op_remainder, (const gw_value[]){ a, b }, 2, NULL);
}
