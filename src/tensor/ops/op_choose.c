// Comparisons, and the choice that follows them.
#include "tensor/ops/operands.h"
#include "tensor/ops/ops.h"
#include <gradwire/ops.h>

// ---- Comparisons --------------------------------------------------------------------------------
static void infer_comparison(op_call *c) {
    c->plan.ints[0] = operands_work_dtype(c, operands_dtype(c, 0, 1));
    operands_output(c, GW_BOOL8);
}

static void compare(op_call *c, loop l, int first) {
    gw_dtype as = (gw_dtype)c->plan.ints[0];
    ew_call e = {
        .out = c->outputs[0],
        .out_as = GW_BOOL8,
        .in_count = 2,
        .kernel = loop_for(l, as),
    };
    operand_input(&e.in[0], c, first, as);
    operand_input(&e.in[1], c, 1 - first, as);
    elementwise_run(&e);
}

static void compute_eq(op_call *c) {
    compare(c, LOOP_EQ, 0);
}
static void compute_ne(op_call *c) {
    compare(c, LOOP_NE, 0);
}
static void compute_lt(op_call *c) {
    compare(c, LOOP_LT, 0);
}
static void compute_le(op_call *c) {
    compare(c, LOOP_LE, 0);
}
static void compute_gt(op_call *c) {
    compare(c, LOOP_LT, 1);
}
static void compute_ge(op_call *c) {
    compare(c, LOOP_LE, 1);
}

#define ROW(verb, ...)                                                                             \
    const op op_##verb = {                                                                         \
        .name = #verb, .params = "a:operand b:operand", .compute = compute_##verb, __VA_ARGS__     \
    };                                                                                             \
    gw_tensor *gw_##verb##_with(gw_scope *s, gw_value a, gw_value b) {                             \
        return op_run(s, &op_##verb, (const gw_value[]){ a, b }, 2, NULL);                         \
    }

ROW(eq, .infer = infer_comparison, .samples = operand_samples_with_bools)
ROW(ne, .infer = infer_comparison, .samples = operand_samples_with_bools)
ROW(lt, .infer = infer_comparison, .samples = operand_samples_with_bools)
ROW(le, .infer = infer_comparison, .samples = operand_samples_with_bools)
ROW(gt, .infer = infer_comparison, .samples = operand_samples_with_bools)
ROW(ge, .infer = infer_comparison, .samples = operand_samples_with_bools)

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

static void samples_where(op_sampler *p) {
    sample_call(p, sample_tensor(p, GW_BOOL8, 0, 2, 3, 4), sample_real(p, -2, 2, 3, 4),
                sample_real(p, -2, 2, 3, 4));
    sample_call(p, sample_tensor(p, GW_BOOL8, 0, 2, 4), sample_real(p, -2, 2, 3, 1),
                gw_value_of(0.5));
    sample_call(p, sample_tensor(p, GW_BOOL8, 0, 2, 2, 1), gw_value_of(1),
                sample_real(p, -2, 2, 3));
    sample_call(p, sample_tensor(p, GW_BOOL8, 0, 2, 3), gw_value_of(1), gw_value_of(2));
    sample_call(p, sample_tensor(p, GW_BOOL8, 0, 2), sample_real(p, -2, 2, 3),
                sample_real(p, -2, 2, 3));
    sample_call(p, sample_tensor(p, GW_BOOL8, 0, 2, 0), sample_real(p, -2, 2, 0), gw_value_of(2));
}

const op op_where = {
    .name = "where",
    .params = "condition:tensor a:operand b:operand",
    .infer = infer_where,
    .compute = compute_where,
    .grad = grad_where,
    .saves = OP_SAVE_ARG(0),
    .samples = samples_where,
};

gw_tensor *gw_where_with(gw_scope *s, gw_tensor *condition, gw_value a, gw_value b) {
    return op_run(s, &op_where, (const gw_value[]){ gw_value_of(condition), a, b }, 3, NULL);
}
