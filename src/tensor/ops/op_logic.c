// Truth: isfinite, isnan, isinf, logical_and and its like, bitwise_and and its like.
#include "tensor/ops/op_unary.h"
#include "tensor/ops/operands.h"
#include "tensor/ops/ops.h"
#include <gradwire/ops.h>

static void infer_bool(op_call *c) {
    const gw_tensor *x = arg_tensor(c->args, 0);
    op_output(c, GW_BOOL8, x->dims, x->sizes);
}

// ---- isfinite, isnan, isinf ---------------------------------------------------------------------
// The answer for every integer is isfinite's.
static void compute_test(op_call *c) {
    const gw_tensor *x = arg_tensor(c->args, 0);
    gw_dtype as = ew_dtype((gw_dtype)x->dtype);
    if (!dtype_is_float(as)) {
        bool answer = c->op->variant == LOOP_ISFINITE;
        memset((uint8_t *)tensor_bytes(c->outputs[0]), answer, (size_t)x->numel);
        return;
    }
    elementwise_run(&(ew_call){
        .out = c->outputs[0],
        .out_as = GW_BOOL8,
        .in = { { .x = x, .as = as } },
        .in_count = 1,
        .vectors = 1,
        .kernel = loop_for((loop)c->op->variant, as),
    });
}

// ---- logical_and, logical_or, logical_xor, logical_not ------------------------------------------
static void compute_logical_not(op_call *c) {
    const gw_tensor *x = arg_tensor(c->args, 0);
    gw_dtype as = ew_dtype((gw_dtype)x->dtype);
    elementwise_run(&(ew_call){
        .out = c->outputs[0],
        .out_as = GW_BOOL8,
        .in = { { .x = x, .as = as }, { .number = gw_value_of(0), .as = as } },
        .in_count = 2,
        .kernel = loop_for(LOOP_EQ, as),
    });
}

// ---- bitwise_and, bitwise_or, bitwise_xor, bitwise_not ------------------------------------------
static bool check_whole(op_call *c, gw_dtype dtype) {
    if (!dtype_is_float(dtype)) return true;
    op_fail(c, GW_INVALID, "for integers and bools, not %s: gw_to_dtype makes them",
            gw_dtype_name(dtype));
    return false;
}

static void infer_bitwise(op_call *c) {
    if (check_whole(c, operands_dtype(c, 0, 1))) operands_infer(c);
}

static void infer_bitwise_not(op_call *c) {
    const gw_tensor *x = arg_tensor(c->args, 0);
    if (check_whole(c, (gw_dtype)x->dtype)) op_output_like(c, x);
}

static void compute_bitwise_not(op_call *c) {
    if (c->outputs[0]->dtype == GW_BOOL8) {
        compute_logical_not(c);
    } else {
        unary_compute(c);
    }
}

// ---- Samples ------------------------------------------------------------------------------------
static void samples_odd(op_sampler *p) {
    gw_value x = sample_real(p, -1, 1, 3, 4), zeros = gw_value_of(gw_mul(p->scope, x, 0));
    gw_value infinities = gw_value_of(gw_div(p->scope, x, zeros));
    sample_call(p, x);
    sample_call(p, zeros);
    sample_call(p, infinities);
    sample_call(p, gw_value_of(gw_sub(p->scope, infinities, infinities)));
    sample_call(p, sample_real(p, -1, 1, 0, 2));
    sample_call(p, sample_tensor(p, GW_I16, -9, 9, 5));
    sample_call(p, sample_tensor(p, GW_BOOL8, 0, 2, 5));
}

static void samples_whole(op_sampler *p) {
    sample_call(p, sample_tensor(p, GW_I64, -99, 99, 3, 4), sample_tensor(p, GW_I64, -99, 99, 4));
    sample_call(p, sample_tensor(p, GW_U8, 0, 255, 5), sample_tensor(p, GW_I8, -99, 99, 2, 1));
    sample_call(p, sample_tensor(p, GW_BOOL8, 0, 2, 4), sample_tensor(p, GW_BOOL8, 0, 2, 3, 4));
    sample_call(p, sample_tensor(p, GW_I32, -99, 99, 4), gw_value_of(6));
    sample_call(p, gw_value_of(6), sample_tensor(p, GW_I32, -99, 99, 0));
}

static void samples_bitwise_not(op_sampler *p) {
    sample_call(p, sample_tensor(p, GW_I64, -99, 99, 3, 4));
    sample_call(p, sample_tensor(p, GW_U8, 0, 255, 67));
    sample_call(p, sample_tensor(p, GW_BOOL8, 0, 2, 5));
    sample_call(p, sample_tensor(p, GW_I32, -99, 99, 0));
}

// ---- Rows ---------------------------------------------------------------------------------------
UNARY_ROW(isfinite, .infer = infer_bool, .compute = compute_test, .variant = LOOP_ISFINITE,
          .samples = samples_odd)
UNARY_ROW(isnan, .infer = infer_bool, .compute = compute_test, .variant = LOOP_ISNAN,
          .samples = samples_odd)
UNARY_ROW(isinf, .infer = infer_bool, .compute = compute_test, .variant = LOOP_ISINF,
          .samples = samples_odd)
UNARY_ROW(logical_not, .infer = infer_bool, .compute = compute_logical_not, .samples = samples_odd)
UNARY_ROW(bitwise_not, .infer = infer_bitwise_not, .compute = compute_bitwise_not,
          .variant = LOOP_BITWISE_NOT, .samples = samples_bitwise_not)

#define LOGICAL                                                                                    \
    .infer = operands_infer_bool, .compute = operands_compute_bool,                                \
    .samples = operand_samples_with_bools
OPERANDS_ROW(logical_and, LOGICAL, .variant = LOOP_LOGICAL_AND)
OPERANDS_ROW(logical_or, LOGICAL, .variant = LOOP_LOGICAL_OR)
OPERANDS_ROW(logical_xor, LOGICAL, .variant = LOOP_LOGICAL_XOR)

#define BITWISE .infer = infer_bitwise, .compute = operands_compute, .samples = samples_whole
OPERANDS_ROW(bitwise_and, BITWISE, .variant = LOOP_BITWISE_AND)
OPERANDS_ROW(bitwise_or, BITWISE, .variant = LOOP_BITWISE_OR)
OPERANDS_ROW(bitwise_xor, BITWISE, .variant = LOOP_BITWISE_XOR)
