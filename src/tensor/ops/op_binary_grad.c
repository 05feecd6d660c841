// The derivatives of arithmetic.
#include "tensor/ops/operands.h"
#include <gradwire/ops.h>

static gw_tensor *pass(const op_grad *g, gw_value d) {
    (void)g;
    return d.as.tensor;
}
void grad_add(op_grad *g) {
    operand_give(g, 0, pass);
    operand_give(g, 1, pass);
}

static gw_tensor *pass_negated(const op_grad *g, gw_value d) {
    return gw_neg(g->scope, d.as.tensor);
}
void grad_sub(op_grad *g) {
    operand_give(g, 0, pass);
    operand_give(g, 1, pass_negated);
}

static gw_tensor *times_b(const op_grad *g, gw_value d) {
    return gw_mul_with(g->scope, d, g->args[1]);
}
static gw_tensor *times_a(const op_grad *g, gw_value d) {
    return gw_mul_with(g->scope, d, g->args[0]);
}
void grad_mul(op_grad *g) {
    operand_give(g, 0, times_b);
    operand_give(g, 1, times_a);
}

static gw_tensor *by_b(const op_grad *g, gw_value d) {
    return gw_div_with(g->scope, d, g->args[1]);
}
// -d (a / b) / b
static gw_tensor *d_divisor(const op_grad *g, gw_value d) {
    gw_scope *s = g->scope;
    gw_value b = grad_wide(s, g->args[1]);
    gw_tensor *ratio = gw_div(s, gw_div(s, grad_wide(s, g->args[0]), b), b);
    return gw_mul(s, gw_neg(s, d.as.tensor), ratio);
}
void grad_div(op_grad *g) {
    operand_give(g, 0, by_b);
    operand_give(g, 1, d_divisor);
}

// d b a^(b-1), and 0 where b is: without the exception, 0 times infinity at a = 0.
static gw_tensor *d_base(const op_grad *g, gw_value d) {
    gw_scope *s = g->scope;
    gw_value a = grad_wide(s, g->args[0]), b = grad_wide(s, g->args[1]);
    if (b.kind != GW_TENSOR) {
        double y = arg_number(&b, 0);
        if (y == 0) return gw_mul(s, d, 0);
        return gw_mul(s, d, gw_mul(s, gw_pow(s, a, y - 1), y));
    }
    gw_tensor *slope = gw_mul(s, b, gw_pow(s, a, gw_sub(s, b, 1)));
    return gw_where(s, gw_eq(s, b, 0), 0.0, gw_mul(s, d, slope));
}
// d a^b ln a, and 0 where a is 0 and b is not negative.
static gw_tensor *d_power(const op_grad *g, gw_value d) {
    gw_scope *s = g->scope;
    gw_value a = grad_wide(s, g->args[0]), b = g->args[1];
    gw_tensor *out = grad_wide_tensor(s, g->outputs[0]);
    if (a.kind != GW_TENSOR) {
        double x = arg_number(&a, 0), ln = __builtin_log(x);
        if (x != 0) return gw_mul(s, d, gw_mul(s, out, ln));
        return gw_mul(s, d, gw_where(s, gw_ge(s, b, 0), 0.0, gw_mul(s, out, ln)));
    }
    gw_tensor *slope = gw_mul(s, out, gw_log(s, gw_to_dtype(s, a.as.tensor, (gw_dtype)out->dtype)));
    gw_tensor *flat = gw_mul(s, gw_eq(s, a, 0), gw_ge(s, b, 0));
    return gw_mul(s, d, gw_where(s, flat, 0.0, slope));
}
void grad_pow(op_grad *g) {
    operand_give(g, 0, d_base);
    operand_give(g, 1, d_power);
}

// The greater operand gets all, and each half where they are equal. Where one is NaN, so that none
// is greater, both get all, as in PyTorch.
static gw_tensor *d_unless(const op_grad *g, gw_value d, gw_tensor *loses) {
    gw_scope *s = g->scope;
    gw_tensor *ties = gw_eq(s, g->args[0], g->args[1]);
    return gw_where(s, loses, 0.0, gw_where(s, ties, gw_mul(s, d, 0.5), d));
}
static gw_tensor *d_unless_less(const op_grad *g, gw_value d) {
    return d_unless(g, d, gw_lt(g->scope, g->args[0], g->args[1]));
}
static gw_tensor *d_unless_greater(const op_grad *g, gw_value d) {
    return d_unless(g, d, gw_gt(g->scope, g->args[0], g->args[1]));
}
void grad_maximum(op_grad *g) {
    operand_give(g, 0, d_unless_less);
    operand_give(g, 1, d_unless_greater);
}
void grad_minimum(op_grad *g) {
    operand_give(g, 0, d_unless_greater);
    operand_give(g, 1, d_unless_less);
}
