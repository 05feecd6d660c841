// One number at a time.
#include "tensor/kernels/loops.h"

#include "tensor/ops/op_unary.h"
#include "tensor/ops/ops.h"
#include <gradwire/ops.h>
#include <math.h>

// ---- Shapes and dtypes --------------------------------------------------------------------------
void unary_infer_same(op_call *c) {
    const gw_tensor *x = arg_tensor(c->args, 0);
    if (op_check_number(c, (gw_dtype)x->dtype)) op_output_like(c, x);
}

// exp and the like take integers as f32.
void unary_infer_promoted(op_call *c) {
    const gw_tensor *x = arg_tensor(c->args, 0);
    op_output(c, dtype_to_float((gw_dtype)x->dtype), x->dims, x->sizes);
}

static void infer_float(op_call *c) {
    const gw_tensor *x = arg_tensor(c->args, 0);
    if (!dtype_is_float((gw_dtype)x->dtype)) {
        op_fail(c, GW_INVALID, "the dtype must be a float, but is %s; gw_to_dtype converts it",
                gw_dtype_name((gw_dtype)x->dtype));
        return;
    }
    op_output_like(c, x);
}

static bool is_whole(gw_value v) {
    double x = arg_number(&v, 0);
    return v.kind != GW_FLOAT || x == __builtin_floor(x);  // infinities are
}

static void infer_clamp(op_call *c) {
    const gw_tensor *x = arg_tensor(c->args, 0);
    if (!op_check_number(c, (gw_dtype)x->dtype)) return;
    bool whole = is_whole(c->args[1]) && is_whole(c->args[2]);
    gw_dtype dtype = whole ? (gw_dtype)x->dtype : dtype_to_float((gw_dtype)x->dtype);
    op_output(c, dtype, x->dims, x->sizes);
}

// ---- Kernels ------------------------------------------------------------------------------------
static void run_with(op_call *c, const double *reals) {
    gw_dtype as = ew_dtype((gw_dtype)c->outputs[0]->dtype);
    elementwise_run(&(ew_call){
        .out = c->outputs[0],
        .out_as = as,
        .in = { { .x = arg_tensor(c->args, 0), .as = as } },
        .in_count = 1,
        .vectors = 1,
        .kernel = loop_for((loop)c->op->variant, as),
        .reals = reals,
    });
}

void unary_compute(op_call *c) {
    run_with(c, NULL);
}

static void compute_leaky_relu(op_call *c) {
    run_with(c, (const double[]){ arg_number(c->args, 1), 0 });
}

// A bound that the dtype cannot hold is its end: computing is done in wider types.
static double fit(gw_dtype dtype, double x) {
    double low = dtype == GW_I16 ? INT16_MIN : dtype == GW_I8 ? INT8_MIN : 0;
    double high = dtype == GW_I16 ? INT16_MAX : dtype == GW_I8 ? INT8_MAX : UINT8_MAX;
    if (dtype != GW_I16 && dtype != GW_I8 && dtype != GW_U8) return x;
    return x < low ? low : x > high ? high : x;
}

static void compute_clamp(op_call *c) {
    gw_dtype dtype = (gw_dtype)c->outputs[0]->dtype;
    double min = fit(dtype, arg_number(c->args, 1)), max = fit(dtype, arg_number(c->args, 2));
    if (isnan(min) || isnan(max)) {  // nothing lies between NaN and anything
        const gw_tensor *out = c->outputs[0];
        block_fill(out->storage->block, dtype, out->numel, gw_value_of((double)NAN));
        return;
    }
    run_with(c, (const double[]){ min, max });
}

// ---- Derivatives --------------------------------------------------------------------------------
// Most are a loop over the gradient and the operator's argument or result: one pass where public
// operators would take several. Not in the table.
static void compute_slope(op_call *c) {
    gw_dtype as = ew_dtype((gw_dtype)c->outputs[0]->dtype);
    elementwise_run(&(ew_call){
        .out = c->outputs[0],
        .out_as = as,
        .in = { { .x = arg_tensor(c->args, 1), .as = as },
                { .x = arg_tensor(c->args, 2), .as = as } },
        .in_count = 2,
        .kernel = loop_for((loop)arg_int(c->args, 0), as),
        .reals = (const double[]){ arg_number(c->args, 3), arg_number(c->args, 4) },
    });
}

const op op_slope = {
    .name = "slope",
    .params = "loop:int d:tensor y:tensor u:number v:number",
    .infer = op_infer_second,
    .compute = compute_slope,
};

// Over what the row saves.
static void grad_slope(op_grad *g) {
    const gw_tensor *y = g->op->saves & OP_SAVE_ARG(0) ? arg_tensor(g->args, 0) : g->outputs[0];
    gw_value u = g->arg_count > 1 ? g->args[1] : gw_value_of(0);
    gw_value v = g->arg_count > 2 ? g->args[2] : gw_value_of(0);
    const gw_value args[] = { gw_value_of(g->op->slope), gw_value_of(g->d_outputs[0]),
                              gw_value_of(y), u, v };
    g->d_inputs[0] = op_run(g->scope, &op_slope, args, 5, NULL);
}

static void grad_neg(op_grad *g) {
    g->d_inputs[0] = gw_neg(g->scope, g->d_outputs[0]);
}
static void grad_exp(op_grad *g) {
    g->d_inputs[0] = gw_mul(g->scope, g->d_outputs[0], g->outputs[0]);
}
static void grad_log(op_grad *g) {
    g->d_inputs[0] = gw_div_with(g->scope, gw_value_of(g->d_outputs[0]), g->args[0]);
}

// ---- Rows ---------------------------------------------------------------------------------------
enum { SAVE_X = OP_SAVE_ARG(0), SAVE_RESULT = OP_SAVE_OUT(0) };

UNARY_ROW(neg, .infer = unary_infer_same, .compute = unary_compute, .variant = LOOP_NEG,
          .grad = grad_neg)
UNARY_ROW(abs, .infer = unary_infer_same, .compute = unary_compute, .variant = LOOP_ABS,
          .grad = grad_slope, .slope = LOOP_D_ABS, .saves = SAVE_X)
UNARY_ROW(exp, .cast = OP_CAST_F32_FROM_F16, .infer = unary_infer_promoted,
          .compute = unary_compute, .variant = LOOP_EXP, .grad = grad_exp, .saves = SAVE_RESULT)
UNARY_ROW(log, .cast = OP_CAST_F32_FROM_F16, .infer = unary_infer_promoted,
          .compute = unary_compute, .variant = LOOP_LOG, .grad = grad_log, .saves = SAVE_X)
UNARY_ROW(sqrt, .infer = unary_infer_promoted, .compute = unary_compute, .variant = LOOP_SQRT,
          .grad = grad_slope, .slope = LOOP_D_SQRT, .saves = SAVE_RESULT)
UNARY_ROW(rsqrt, .cast = OP_CAST_F32_FROM_F16, .infer = unary_infer_promoted,
          .compute = unary_compute, .variant = LOOP_RSQRT, .grad = grad_slope,
          .slope = LOOP_D_RSQRT, .saves = SAVE_RESULT)
UNARY_ROW(tanh, .infer = unary_infer_promoted, .compute = unary_compute, .variant = LOOP_TANH,
          .grad = grad_slope, .slope = LOOP_D_TANH, .saves = SAVE_RESULT)
UNARY_ROW(sigmoid, .infer = unary_infer_promoted, .compute = unary_compute, .variant = LOOP_SIGMOID,
          .grad = grad_slope, .slope = LOOP_D_SIGMOID, .saves = SAVE_RESULT)
UNARY_ROW(relu, .infer = unary_infer_same, .compute = unary_compute, .variant = LOOP_RELU,
          .grad = grad_slope, .slope = LOOP_D_RELU, .saves = SAVE_RESULT)
UNARY_ROW(gelu, .infer = infer_float, .compute = unary_compute, .variant = LOOP_GELU,
          .grad = grad_slope, .slope = LOOP_D_GELU, .saves = SAVE_X)
UNARY_ROW(silu, .infer = infer_float, .compute = unary_compute, .variant = LOOP_SILU,
          .grad = grad_slope, .slope = LOOP_D_SILU, .saves = SAVE_X)

const op op_leaky_relu = {
    .name = "leaky_relu",
    .params = "x:tensor negative_slope:number",
    .infer = infer_float,
    .compute = compute_leaky_relu,
    .variant = LOOP_LEAKY_RELU,
    .grad = grad_slope,
    .slope = LOOP_D_LEAKY_RELU,
    .saves = SAVE_X,
};

gw_tensor *gw_leaky_relu(gw_scope *s, gw_tensor *x, double negative_slope) {
    const gw_value args[] = { gw_value_of(x), gw_value_of(negative_slope) };
    return op_run(s, &op_leaky_relu, args, 2, NULL);
}

const op op_clamp = {
    .name = "clamp",
    .params = "x:tensor min:number max:number",
    .infer = infer_clamp,
    .compute = compute_clamp,
    .variant = LOOP_CLAMP,
    .grad = grad_slope,
    .slope = LOOP_D_CLAMP,
    .saves = SAVE_X,
};

gw_tensor *gw_clamp(gw_scope *s, gw_tensor *x, double min, double max) {
    const gw_value args[] = { gw_value_of(x), gw_value_of(min), gw_value_of(max) };
    return op_run(s, &op_clamp, args, 3, NULL);
}
