// Arithmetic of two operands.
#include "tensor/ops/op_rows.h"
#include "tensor/ops/operands.h"
#include "tensor/ops/ops.h"
#include <gradwire/ops.h>

// ---- Shapes and dtypes; plan.ints[0] is the dtype of the kernel --------------------------------
static bool is_bool(gw_value v) {
    return v.kind == GW_BOOL || (v.kind == GW_TENSOR && v.as.tensor->dtype == GW_BOOL8);
}

static void infer_sub(op_call *c) {
    if (is_bool(c->args[0]) || is_bool(c->args[1])) {
        op_fail(c, GW_INVALID, "bools cannot be subtracted; gw_ne shows where two differ");
        return;
    }
    operands_infer(c);
}

static void infer_div(op_call *c) {
    gw_dtype dtype = dtype_to_float(operands_dtype(c, 0, 1));
    c->plan.ints[0] = ew_dtype(dtype);
    operands_output(c, dtype);
}

static void infer_pow(op_call *c) {
    gw_dtype dtype = operands_dtype(c, 0, 1);
    gw_value power = c->args[1];
    if (dtype == GW_BOOL8) {
        op_fail(c, GW_INVALID, "bool is not supported: the operands must be numbers");
        return;
    }
    if (!dtype_is_float(dtype) && power.kind == GW_INT && power.as.integer < 0) {
        op_fail(c, GW_INVALID,
                "integers cannot be raised to the negative power %lld: the power must be 0 or "
                "more, or x a float",
                (long long)power.as.integer);
        return;
    }
    operands_infer(c);
}

// ---- Kernels ------------------------------------------------------------------------------------
// Powers that are cheaper, and more exact, by other means.
static loop loop_of_power(gw_dtype as, gw_value power) {
    if (power.kind == GW_TENSOR) return LOOP_POW;
    double y = arg_number(&power, 0);
    if (y == 2) return LOOP_SQUARE;
    if (y == 3) return LOOP_CUBE;
    if (!dtype_is_float(as)) return LOOP_POW;
    return y == -1 ? LOOP_RECIPROCAL : y == 0.5 ? LOOP_SQRT : y == -0.5 ? LOOP_RSQRT : LOOP_POW;
}

static void compute_pow(op_call *c) {
    loop l = loop_of_power((gw_dtype)c->plan.ints[0], c->args[1]);
    operands_run(c, l, l == LOOP_POW ? 2 : 1);
}

// ---- Rows ---------------------------------------------------------------------------------------
enum { SAVE_BOTH = OP_SAVE_ARG(0) | OP_SAVE_ARG(1) };

OPERANDS_ROW(add, .infer = operands_infer, .compute = operands_compute, .variant = LOOP_ADD,
             .grad = grad_add, .rows = rows_add)
OPERANDS_ROW(sub, .infer = infer_sub, .compute = operands_compute, .variant = LOOP_SUB,
             .grad = grad_sub)
OPERANDS_ROW(mul, .infer = operands_infer, .compute = operands_compute, .variant = LOOP_MUL,
             .grad = grad_mul, .saves = SAVE_BOTH, .rows = rows_scale)
OPERANDS_ROW(div, .infer = infer_div, .compute = operands_compute, .variant = LOOP_DIV,
             .grad = grad_div, .saves = SAVE_BOTH, .rows = rows_scale)
OPERANDS_ROW(pow, .cast = OP_CAST_F32_FROM_F16, .infer = infer_pow, .compute = compute_pow,
             .grad = grad_pow, .saves = SAVE_BOTH | OP_SAVE_OUT(0))
OPERANDS_ROW(maximum, .infer = operands_infer, .compute = operands_compute, .variant = LOOP_MAXIMUM,
             .grad = grad_maximum, .saves = SAVE_BOTH)
OPERANDS_ROW(minimum, .infer = operands_infer, .compute = operands_compute, .variant = LOOP_MINIMUM,
             .grad = grad_minimum, .saves = SAVE_BOTH)
