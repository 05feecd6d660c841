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
// |whole| is the answer for every integer.
static void test_floats(op_call *c, loop l, bool whole) {
    const gw_tensor *x = arg_tensor(c->args, 0);
    gw_dtype as = ew_dtype((gw_dtype)x->dtype);
    if (!dtype_is_float(as)) {
        memset((uint8_t *)tensor_bytes(c->outputs[0]), whole, (size_t)x->numel);
        return;
    }
    elementwise_run(&(ew_call){
        .out = c->outputs[0],
        .out_as = GW_BOOL8,
        .in = { { .x = x, .as = as } },
        .in_count = 1,
        .vectors = 1,
        .kernel = loop_for(l, as),
    });
}

static void compute_isfinite(op_call *c) {
    test_floats(c, LOOP_ISFINITE, true);
}
static void compute_isnan(op_call *c) {
    test_floats(c, LOOP_ISNAN, false);
}
static void compute_isinf(op_call *c) {
    test_floats(c, LOOP_ISINF, false);
}

// ---- logical_and, logical_or, logical_xor, logical_not ------------------------------------------
static void infer_logical(op_call *c) {
    c->plan.ints[0] = operands_work_dtype(c, operands_dtype(c, 0, 1));
    operands_output(c, GW_BOOL8);
}

static void run_logical(op_call *c, loop l) {
    gw_dtype as = (gw_dtype)c->plan.ints[0];
    ew_call e = {
        .out = c->outputs[0],
        .out_as = GW_BOOL8,
        .in_count = 2,
        .kernel = loop_for(l, as),
    };
    operand_input(&e.in[0], c, 0, as);
    operand_input(&e.in[1], c, 1, as);
    elementwise_run(&e);
}

static void compute_logical_and(op_call *c) {
    run_logical(c, LOOP_LOGICAL_AND);
}
static void compute_logical_or(op_call *c) {
    run_logical(c, LOOP_LOGICAL_OR);
}
static void compute_logical_xor(op_call *c) {
    run_logical(c, LOOP_LOGICAL_XOR);
}

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
    gw_dtype dtype = operands_dtype(c, 0, 1);
    c->plan.ints[0] = operands_work_dtype(c, dtype);
    if (check_whole(c, dtype)) operands_output(c, dtype);
}

static void run_bitwise(op_call *c, loop l) {
    gw_dtype as = (gw_dtype)c->plan.ints[0];
    ew_call e = {
        .out = c->outputs[0],
        .out_as = as,
        .in_count = 2,
        .kernel = loop_for(l, as),
    };
    operand_input_cast(&e.in[0], c, 0, as);
    operand_input_cast(&e.in[1], c, 1, as);
    elementwise_run(&e);
}

static void compute_bitwise_and(op_call *c) {
    run_bitwise(c, LOOP_BITWISE_AND);
}
static void compute_bitwise_or(op_call *c) {
    run_bitwise(c, LOOP_BITWISE_OR);
}
static void compute_bitwise_xor(op_call *c) {
    run_bitwise(c, LOOP_BITWISE_XOR);
}

static void infer_bitwise_not(op_call *c) {
    const gw_tensor *x = arg_tensor(c->args, 0);
    if (check_whole(c, (gw_dtype)x->dtype)) op_output(c, (gw_dtype)x->dtype, x->dims, x->sizes);
}

static void compute_bitwise_not(op_call *c) {
    if (c->outputs[0]->dtype == GW_BOOL8) {
        compute_logical_not(c);
    } else {
        unary_run(c, LOOP_BITWISE_NOT);
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
#define TEST(verb, ...)                                                                            \
    const op op_##verb = {                                                                         \
        .name = #verb, .params = "x:tensor", .compute = compute_##verb, __VA_ARGS__                \
    };                                                                                             \
    gw_tensor *gw_##verb(gw_scope *s, gw_tensor *x) {                                              \
        return op_run(s, &op_##verb, (const gw_value[]){ gw_value_of(x) }, 1, NULL);               \
    }

TEST(isfinite, .infer = infer_bool, .samples = samples_odd)
TEST(isnan, .infer = infer_bool, .samples = samples_odd)
TEST(isinf, .infer = infer_bool, .samples = samples_odd)
TEST(logical_not, .infer = infer_bool, .samples = samples_odd)
TEST(bitwise_not, .infer = infer_bitwise_not, .samples = samples_bitwise_not)

#define PAIR(verb, ...)                                                                            \
    const op op_##verb = {                                                                         \
        .name = #verb, .params = "a:operand b:operand", .compute = compute_##verb, __VA_ARGS__     \
    };                                                                                             \
    gw_tensor *gw_##verb##_with(gw_scope *s, gw_value a, gw_value b) {                             \
        return op_run(s, &op_##verb, (const gw_value[]){ a, b }, 2, NULL);                         \
    }

PAIR(logical_and, .infer = infer_logical, .samples = operand_samples_with_bools)
PAIR(logical_or, .infer = infer_logical, .samples = operand_samples_with_bools)
PAIR(logical_xor, .infer = infer_logical, .samples = operand_samples_with_bools)
PAIR(bitwise_and, .infer = infer_bitwise, .samples = samples_whole)
PAIR(bitwise_or, .infer = infer_bitwise, .samples = samples_whole)
PAIR(bitwise_xor, .infer = infer_bitwise, .samples = samples_whole)
