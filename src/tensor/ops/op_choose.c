// Comparisons, and the choice that follows them.
#include "tensor/ops/operands.h"
#include "tensor/ops/ops.h"
#include <gradwire/ops.h>

// ---- Comparisons --------------------------------------------------------------------------------
#define COMPARISON .infer = operands_infer_bool, .compute = operands_compute_bool
OPERANDS_ROW(eq, COMPARISON, .variant = LOOP_EQ)
OPERANDS_ROW(ne, COMPARISON, .variant = LOOP_NE)
OPERANDS_ROW(lt, COMPARISON, .variant = LOOP_LT)
OPERANDS_ROW(le, COMPARISON, .variant = LOOP_LE)
OPERANDS_ROW(gt, COMPARISON, .variant = LOOP_LT | OPERANDS_SWAPPED)
OPERANDS_ROW(ge, COMPARISON, .variant = LOOP_LE | OPERANDS_SWAPPED)

// ---- where --------------------------------------------------------------------------------------
static void infer_where(op_call *c) {
    const gw_tensor *condition = arg_tensor(c->args, 0);
    if (condition->dtype != GW_BOOL8) {
        op_fail(c, GW_INVALID, "the condition must be bool, not %s",
                gw_dtype_name((gw_dtype)condition->dtype));
        return;
    }
    gw_dtype dtype = operands_dtype(c, 1, 2);
    c->plan.ints[0] = ew_dtype(dtype);
    int64_t sizes[GW_DIMS_MAX];
    int dims = condition->dims;
    for (int i = 0; i < dims; i++) sizes[i] = condition->sizes[i];
    for (int i = 1; i <= 2 && dims >= 0; i++)
        if (arg_tensor(c->args, i)) dims = op_broadcast_to(c, dims, sizes, arg_tensor(c->args, i));
    if (dims >= 0) op_output(c, dtype, dims, sizes);
}

static void compute_where(op_call *c) {
    gw_dtype as = (gw_dtype)c->plan.ints[0];
    ew_call e = {
        .out = c->outputs[0],
        .out_as = as,
        .in_count = 3,
        .vectors = 1,
        .kernel = loop_for(LOOP_WHERE, as),
    };
    operand_input(&e.in[0], c, 0, GW_BOOL8);
    operand_input(&e.in[1], c, 1, as);
    operand_input(&e.in[2], c, 2, as);
    elementwise_run(&e);
}

static gw_tensor *d_where_true(const op_grad *g, gw_value d) {
    return gw_where(g->scope, g->args[0].as.tensor, d, 0.0);
}
static gw_tensor *d_where_false(const op_grad *g, gw_value d) {
    return gw_where(g->scope, g->args[0].as.tensor, 0.0, d);
}
static void grad_where(op_grad *g) {
    operand_give(g, 1, d_where_true);
    operand_give(g, 2, d_where_false);
}

const op op_where = {
    .name = "where",
    .params = "condition:tensor a:operand b:operand",
    .infer = infer_where,
    .compute = compute_where,
    .grad = grad_where,
    .saves = OP_SAVE_ARG(0),
};

gw_tensor *gw_where_with(gw_scope *s, gw_tensor *condition, gw_value a, gw_value b) {
    return op_run(s, &op_where, (const gw_value[]){ gw_value_of(condition), a, b }, 3, NULL);
}
