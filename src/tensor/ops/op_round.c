// Whole numbers near a number, and the circle: floor, ceil, round, trunc, sin, cos.
#include "tensor/copy.h"
#include "tensor/ops/op_unary.h"
#include "tensor/ops/ops.h"
#include <gradwire/ops.h>

// Integers are whole already.
static void run_whole(op_call *c, loop l) {
    const gw_tensor *x = arg_tensor(c->args, 0);
    if (dtype_is_float((gw_dtype)x->dtype)) {
        unary_run(c, l);
    } else {
        copy_into_new(c->outputs[0], x);
    }
}

static void compute_floor(op_call *c) {
    run_whole(c, LOOP_FLOOR);
}
static void compute_ceil(op_call *c) {
    run_whole(c, LOOP_CEIL);
}
static void compute_round(op_call *c) {
    run_whole(c, LOOP_ROUND);
}
static void compute_trunc(op_call *c) {
    run_whole(c, LOOP_TRUNC);
}
static void compute_sin(op_call *c) {
    unary_run(c, LOOP_SIN);
}
static void compute_cos(op_call *c) {
    unary_run(c, LOOP_COS);
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
#define ROW(verb, ...)                                                                             \
    const op op_##verb = {                                                                         \
        .name = #verb, .params = "x:tensor", .compute = compute_##verb, __VA_ARGS__                \
    };                                                                                             \
    gw_tensor *gw_##verb(gw_scope *s, gw_tensor *x) {                                              \
        return op_run(s, &op_##verb, (const gw_value[]){ gw_value_of(x) }, 1, NULL);               \
    }

ROW(floor, .infer = unary_infer_same, .grad = grad_whole, .samples = unary_samples_any)
ROW(ceil, .infer = unary_infer_same, .grad = grad_whole, .samples = unary_samples_any)
ROW(round, .infer = unary_infer_same, .grad = grad_whole, .samples = unary_samples_any)
ROW(trunc, .infer = unary_infer_same, .grad = grad_whole, .samples = unary_samples_any)
ROW(sin, .infer = unary_infer_promoted, .grad = grad_sin, .saves = OP_SAVE_ARG(0),
    .samples = unary_samples_promoted)
ROW(cos, .infer = unary_infer_promoted, .grad = grad_cos, .saves = OP_SAVE_ARG(0),
    .samples = unary_samples_promoted)
