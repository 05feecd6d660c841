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
    op_fail(c, GW_INVALID,
            "the dtype must be an integer or bool, but is %s; gw_to_dtype converts it",
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

// ---- Rows ---------------------------------------------------------------------------------------
UNARY_ROW(isfinite, .infer = infer_bool, .compute = compute_test, .variant = LOOP_ISFINITE)
UNARY_ROW(isnan, .infer = infer_bool, .compute = compute_test, .variant = LOOP_ISNAN)
UNARY_ROW(isinf, .infer = infer_bool, .compute = compute_test, .variant = LOOP_ISINF)
UNARY_ROW(logical_not, .infer = infer_bool, .compute = compute_logical_not)
UNARY_ROW(bitwise_not, .infer = infer_bitwise_not, .compute = compute_bitwise_not,
          .variant = LOOP_BITWISE_NOT)

#define LOGICAL .infer = operands_infer_bool, .compute = operands_compute_bool
OPERANDS_ROW(logical_and, LOGICAL, .variant = LOOP_LOGICAL_AND)
OPERANDS_ROW(logical_or, LOGICAL, .variant = LOOP_LOGICAL_OR)
OPERANDS_ROW(logical_xor, LOGICAL, .variant = LOOP_LOGICAL_XOR)

#define BITWISE .infer = infer_bitwise, .compute = operands_compute
OPERANDS_ROW(bitwise_and, BITWISE, .variant = LOOP_BITWISE_AND)
OPERANDS_ROW(bitwise_or, BITWISE, .variant = LOOP_BITWISE_OR)
OPERANDS_ROW(bitwise_xor, BITWISE, .variant = LOOP_BITWISE_XOR)
