// Whole numbers near a number, and the circle: floor, ceil, round, trunc, sin, cos.
#include "tensor/copy.h"
#include "tensor/ops/op_unary.h"
#include "tensor/ops/ops.h"
#include <gradwire/ops.h>

// Integers are whole already.
static void compute_whole(op_call *c) {
    const gw_tensor *x = arg_tensor(c->args, 0);
    if (dtype_is_float((gw_dtype)x->dtype)) {
        unary_compute(c);
    } else {
        copy_into_new(c->outputs[0], x);
    }
}

// ---- Derivatives --------------------------------------------------------------------------------
// A step has no slope.
static void grad_whole(op_grad *g) {
    g->d_inputs[0] = gw_zeros_like(g->scope, g->d_outputs[0]);
}
static void grad_sin(op_grad *g) {
    gw_scope *s = g->scope;
    g->d_inputs[0] = gw_mul(s, g->d_outputs[0], gw_cos(s, arg_tensor(g->args, 0)));
}
static void grad_cos(op_grad *g) {
    gw_scope *s = g->scope;
    g->d_inputs[0] = gw_neg(s, gw_mul(s, g->d_outputs[0], gw_sin(s, arg_tensor(g->args, 0))));
}

// ---- Rows ---------------------------------------------------------------------------------------
#define WHOLE .infer = unary_infer_same, .compute = compute_whole, .grad = grad_whole
UNARY_ROW(floor, WHOLE, .variant = LOOP_FLOOR)
UNARY_ROW(ceil, WHOLE, .variant = LOOP_CEIL)
UNARY_ROW(round, WHOLE, .variant = LOOP_ROUND)
UNARY_ROW(trunc, WHOLE, .variant = LOOP_TRUNC)

#define CIRCULAR .infer = unary_infer_promoted, .compute = unary_compute, .saves = OP_SAVE_ARG(0)
UNARY_ROW(sin, CIRCULAR, .variant = LOOP_SIN, .grad = grad_sin)
UNARY_ROW(cos, CIRCULAR, .variant = LOOP_COS, .grad = grad_cos)
