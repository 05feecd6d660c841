// One number at a time.
#include "tensor/kernels/loops.h"

#include "tensor/ops/op_sample.h"
#include "tensor/ops/op_unary.h"
#include "tensor/ops/ops.h"
#include <gradwire/ops.h>
#include <math.h>

// ---- Shapes and dtypes --------------------------------------------------------------------------
void unary_infer_same(op_call *c) {
    const gw_tensor *x = arg_tensor(c->args, 0);
    if (x->dtype == GW_BOOL8) {
        op_fail(c, GW_INVALID, "bool is not supported: the operands must be numbers");
        return;
    }
    op_output(c, (gw_dtype)x->dtype, x->dims, x->sizes);
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
    op_output(c, (gw_dtype)x->dtype, x->dims, x->sizes);
}

static bool is_whole(gw_value v) {
    double x = arg_number(&v, 0);
    return v.kind != GW_FLOAT || x == __builtin_floor(x);  // infinities are
}

static void infer_clamp(op_call *c) {
    const gw_tensor *x = arg_tensor(c->args, 0);
    if (x->dtype == GW_BOOL8) {
        op_fail(c, GW_INVALID, "bool is not supported: the operands must be numbers");
        return;
    }
    bool whole = is_whole(c->args[1]) && is_whole(c->args[2]);
    gw_dtype dtype = whole ? (gw_dtype)x->dtype : dtype_to_float((gw_dtype)x->dtype);
    op_output(c, dtype, x->dims, x->sizes);
}

// ---- Kernels ------------------------------------------------------------------------------------
static void run_with(op_call *c, loop l, const double *reals) {
    gw_dtype as = ew_dtype((gw_dtype)c->outputs[0]->dtype);
    elementwise_run(&(ew_call){
        .out = c->outputs[0],
        .out_as = as,
        .in = { { .x = arg_tensor(c->args, 0), .as = as } },
        .in_count = 1,
        .vectors = 1,
        .kernel = loop_for(l, as),
        .reals = reals,
    });
}

void unary_run(op_call *c, loop l) {
    run_with(c, l, NULL);
}

static void compute_neg(op_call *c) {
    unary_run(c, LOOP_NEG);
}
static void compute_abs(op_call *c) {
    unary_run(c, LOOP_ABS);
}
static void compute_exp(op_call *c) {
    unary_run(c, LOOP_EXP);
}
static void compute_log(op_call *c) {
    unary_run(c, LOOP_LOG);
}
static void compute_sqrt(op_call *c) {
    unary_run(c, LOOP_SQRT);
}
static void compute_rsqrt(op_call *c) {
    unary_run(c, LOOP_RSQRT);
}
static void compute_tanh(op_call *c) {
    unary_run(c, LOOP_TANH);
}
static void compute_sigmoid(op_call *c) {
    unary_run(c, LOOP_SIGMOID);
}
static void compute_relu(op_call *c) {
    unary_run(c, LOOP_RELU);
}
static void compute_gelu(op_call *c) {
    unary_run(c, LOOP_GELU);
}
static void compute_silu(op_call *c) {
    unary_run(c, LOOP_SILU);
}

static void compute_leaky_relu(op_call *c) {
    run_with(c, LOOP_LEAKY_RELU, (const double[]){ arg_number(c->args, 1), 0 });
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
    run_with(c, LOOP_CLAMP, (const double[]){ min, max });
}

// ---- Derivatives --------------------------------------------------------------------------------
// Most are a loop over the gradient and the operator's argument or result: one pass where public
// operators would take several. Not in the table.
static void infer_slope(op_call *c) {
    const gw_tensor *d = arg_tensor(c->args, 1);
    op_output(c, (gw_dtype)d->dtype, d->dims, d->sizes);
}

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
    .infer = infer_slope,
    .compute = compute_slope,
};

static void slope_with(op_grad *g, loop l, const gw_tensor *y, gw_value u, gw_value v) {
    const gw_value args[] = { gw_value_of((int)l), gw_value_of(g->d_outputs[0]), gw_value_of(y), u,
                              v };
    g->d_inputs[0] = op_run(g->scope, &op_slope, args, 5, NULL);
}

static void slope(op_grad *g, loop l, const gw_tensor *y) {
    slope_with(g, l, y, gw_value_of(0), gw_value_of(0));
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
static void grad_abs(op_grad *g) {
    slope(g, LOOP_D_ABS, arg_tensor(g->args, 0));
}
static void grad_sqrt(op_grad *g) {
    slope(g, LOOP_D_SQRT, g->outputs[0]);
}
static void grad_rsqrt(op_grad *g) {
    slope(g, LOOP_D_RSQRT, g->outputs[0]);
}
static void grad_tanh(op_grad *g) {
    slope(g, LOOP_D_TANH, g->outputs[0]);
}
static void grad_sigmoid(op_grad *g) {
    slope(g, LOOP_D_SIGMOID, g->outputs[0]);
}
static void grad_relu(op_grad *g) {
    slope(g, LOOP_D_RELU, g->outputs[0]);
}
static void grad_gelu(op_grad *g) {
    slope(g, LOOP_D_GELU, arg_tensor(g->args, 0));
}
static void grad_silu(op_grad *g) {
    slope(g, LOOP_D_SILU, arg_tensor(g->args, 0));
}
static void grad_leaky_relu(op_grad *g) {
    slope_with(g, LOOP_D_LEAKY_RELU, arg_tensor(g->args, 0), g->args[1], gw_value_of(0));
}
static void grad_clamp(op_grad *g) {
    slope_with(g, LOOP_D_CLAMP, arg_tensor(g->args, 0), g->args[1], g->args[2]);
}

// ---- Samples ------------------------------------------------------------------------------------
static void sample_shapes(op_sampler *p, double low, double high) {
    sample_call(p, sample_real(p, low, high, 3, 4));
    sample_call(p, sample_real(p, low, high));
    sample_call(p, sample_real(p, low, high, 2, 0));
    sample_call(p, sample_real(p, low, high, 67));  // longer than a vector, and no multiple of one
}

void unary_samples_any(op_sampler *p) {
    sample_shapes(p, -3, 3);
    sample_call(p, sample_tensor(p, GW_I64, -9, 9, 5));
    sample_call(p, sample_tensor(p, GW_I8, -9, 9, 5));
}

void unary_samples_promoted(op_sampler *p) {
    sample_shapes(p, -3, 3);
    sample_call(p, sample_tensor(p, GW_I32, -3, 3, 5));
    sample_call(p, sample_tensor(p, GW_BOOL8, 0, 2, 5));
}

static void samples_positive(op_sampler *p) {
    sample_shapes(p, 0.5, 3);
    sample_call(p, sample_tensor(p, GW_U8, 1, 9, 5));
}

static void samples_float(op_sampler *p) {
    sample_shapes(p, -3, 3);
}

static void samples_leaky_relu(op_sampler *p) {
    sample_call(p, sample_real(p, -3, 3, 3, 4), gw_value_of(0.01));
    sample_call(p, sample_real(p, -3, 3, 0), gw_value_of(0.2));
}

static void samples_clamp(op_sampler *p) {
    sample_call(p, sample_real(p, -3, 3, 3, 4), gw_value_of(-1.5), gw_value_of(0.75));
    sample_call(p, sample_real(p, -3, 3, 5), gw_value_of(-1.0), gw_value_of((double)INFINITY));
    sample_call(p, sample_real(p, -3, 3, 0), gw_value_of(-1), gw_value_of(1));
    sample_call(p, sample_tensor(p, GW_I16, -9, 9, 6), gw_value_of(-2), gw_value_of(5));
    sample_call(p, sample_tensor(p, GW_I64, -9, 9, 6), gw_value_of(-2.5), gw_value_of(5));
}

// ---- Rows ---------------------------------------------------------------------------------------
#define ROW(verb, ...)                                                                             \
    const op op_##verb = { .name = #verb,                                                          \
                           .params = "x:tensor",                                                   \
                           .compute = compute_##verb,                                              \
                           .grad = grad_##verb,                                                    \
                           __VA_ARGS__ };                                                          \
    gw_tensor *gw_##verb(gw_scope *s, gw_tensor *x) {                                              \
        return op_run(s, &op_##verb, (const gw_value[]){ gw_value_of(x) }, 1, NULL);               \
    }

enum { SAVE_X = OP_SAVE_ARG(0), SAVE_RESULT = OP_SAVE_OUT(0) };

ROW(neg, .infer = unary_infer_same, .samples = unary_samples_any)
ROW(abs, .infer = unary_infer_same, .saves = SAVE_X, .samples = unary_samples_any)
ROW(exp, .cast = OP_CAST_F32_FROM_F16, .infer = unary_infer_promoted, .saves = SAVE_RESULT,
    .samples = unary_samples_promoted)
ROW(log, .cast = OP_CAST_F32_FROM_F16, .infer = unary_infer_promoted, .saves = SAVE_X,
    .samples = samples_positive)
ROW(sqrt, .infer = unary_infer_promoted, .saves = SAVE_RESULT, .samples = samples_positive)
ROW(rsqrt, .cast = OP_CAST_F32_FROM_F16, .infer = unary_infer_promoted, .saves = SAVE_RESULT,
    .samples = samples_positive)
ROW(tanh, .infer = unary_infer_promoted, .saves = SAVE_RESULT, .samples = unary_samples_promoted)
ROW(sigmoid, .infer = unary_infer_promoted, .saves = SAVE_RESULT, .samples = unary_samples_promoted)
ROW(relu, .infer = unary_infer_same, .saves = SAVE_RESULT, .samples = unary_samples_any)
ROW(gelu, .infer = infer_float, .saves = SAVE_X, .samples = samples_float)
ROW(silu, .infer = infer_float, .saves = SAVE_X, .samples = samples_float)

const op op_leaky_relu = {
    .name = "leaky_relu",
    .params = "x:tensor negative_slope:number",
    .infer = infer_float,
    .compute = compute_leaky_relu,
    .grad = grad_leaky_relu,
    .saves = SAVE_X,
    .samples = samples_leaky_relu,
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
    .grad = grad_clamp,
    .saves = SAVE_X,
    .samples = samples_clamp,
};

gw_tensor *gw_clamp(gw_scope *s, gw_tensor *x, double min, double max) {
    const gw_value args[] = { gw_value_of(x), gw_value_of(min), gw_value_of(max) };
    return op_run(s, &op_clamp, args, 3, NULL);
}
