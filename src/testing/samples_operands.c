// Samples of operators: arithmetic, comparisons and functions of one number.
#include "testing/samples.h"

#include "tensor/ops/ops.h"
#include <gradwire/ops.h>

#include <math.h>

static void sample_operands(op_sampler *p, double low, double high) {
    sample_call(p, sample_real(p, low, high, 3, 4), sample_real(p, low, high, 3, 4));
    sample_call(p, sample_real(p, low, high, 2, 1, 3),
                sample_real(p, low, high, 4, 1));                                   // broadcast
    sample_call(p, sample_real(p, low, high), sample_real(p, low, high, 5));        // scalar
    sample_call(p, sample_real(p, low, high, 0, 3), sample_real(p, low, high, 3));  // empty
    sample_call(p, sample_real(p, low, high, 5), gw_value_of(1.5));
    sample_call(p, gw_value_of(2), sample_real(p, low, high, 5));
}

static void samples_mixed(op_sampler *p) {
    sample_operands(p, -2, 2);
    sample_call(p, sample_tensor(p, GW_I64, -9, 9, 4), sample_tensor(p, GW_I32, -9, 9, 2, 1));
    sample_call(p, sample_tensor(p, GW_U8, 0, 9, 4), sample_real(p, -2, 2, 4));
    sample_call(p, sample_tensor(p, GW_I8, -9, 9, 4), sample_tensor(p, GW_I16, -9, 9, 4));
}

static void samples_with_bools(op_sampler *p) {
    samples_mixed(p);
    sample_call(p, sample_tensor(p, GW_BOOL8, 0, 2, 4), sample_tensor(p, GW_BOOL8, 0, 2, 3, 4));
}

static void samples_div(op_sampler *p) {
    sample_operands(p, 0.5, 2);
    sample_call(p, sample_tensor(p, GW_I64, -9, 9, 4), sample_tensor(p, GW_I64, 1, 9, 4));
}

static void samples_pow(op_sampler *p) {
    sample_operands(p, 0.5, 2);
    double powers[] = { -2, -1, -0.5, 0, 0.5, 1, 2, 3 };
    for (size_t i = 0; i < sizeof powers / sizeof *powers; i++)
        sample_call(p, sample_real(p, 0.5, 2, 3), gw_value_of(powers[i]));
    sample_call(p, sample_tensor(p, GW_I32, -3, 3, 4), gw_value_of(3));
    sample_call(p, sample_tensor(p, GW_I32, -3, 3, 4), sample_tensor(p, GW_I32, -3, 3, 4));
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

static void samples_masked_fill(op_sampler *p) {
    sample_call(p, sample_real(p, -2, 2, 3, 4), sample_tensor(p, GW_BOOL8, 0, 2, 3, 4),
                gw_value_of(0.5));
    sample_call(p, sample_real(p, -2, 2, 3, 4), sample_tensor(p, GW_BOOL8, 0, 2, 4),
                sample_real(p, -2, 2));
    sample_call(p, sample_real(p, -2, 2, 4), sample_tensor(p, GW_BOOL8, 0, 2, 3, 1),
                gw_value_of(-1));
    sample_call(p, sample_tensor(p, GW_I64, -9, 9, 5), sample_tensor(p, GW_BOOL8, 0, 2, 5),
                gw_value_of(7));
    sample_call(p, sample_real(p, -2, 2, 0, 3), sample_tensor(p, GW_BOOL8, 0, 2, 3),
                gw_value_of(2));
}

static void samples_remainder(op_sampler *p) {
    sample_operands(p, 0.5, 2);
    sample_call(p, sample_real(p, -9, 9, 3, 4), sample_real(p, -2, -0.5, 4));
    sample_call(p, sample_tensor(p, GW_I64, -9, 9, 4), sample_tensor(p, GW_I32, 1, 9, 2, 1));
    sample_call(p, sample_tensor(p, GW_I8, -9, 9, 4), gw_value_of(-3));
    sample_call(p, sample_tensor(p, GW_I32, -9, 9, 0), gw_value_of(0));
}

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

static void sample_shapes(op_sampler *p, double low, double high) {
    sample_call(p, sample_real(p, low, high, 3, 4));
    sample_call(p, sample_real(p, low, high));
    sample_call(p, sample_real(p, low, high, 2, 0));
    sample_call(p, sample_real(p, low, high, 67));  // longer than a vector, and no multiple of one
}

static void samples_of_either_sign(op_sampler *p) {
    sample_shapes(p, -3, 3);
    sample_call(p, sample_tensor(p, GW_I64, -9, 9, 5));
    sample_call(p, sample_tensor(p, GW_I8, -9, 9, 5));
}

static void samples_promoted(op_sampler *p) {
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

const sample_row samples_of_operands[] = {
    { &op_add, samples_with_bools },
    { &op_sub, samples_mixed },
    { &op_mul, samples_with_bools },
    { &op_div, samples_div },
    { &op_pow, samples_pow },
    { &op_maximum, samples_with_bools },
    { &op_minimum, samples_with_bools },
    { &op_eq, samples_with_bools },
    { &op_ne, samples_with_bools },
    { &op_lt, samples_with_bools },
    { &op_le, samples_with_bools },
    { &op_gt, samples_with_bools },
    { &op_ge, samples_with_bools },
    { &op_where, samples_where },
    { &op_masked_fill, samples_masked_fill },
    { &op_remainder, samples_remainder },
    { &op_isfinite, samples_odd },
    { &op_isnan, samples_odd },
    { &op_isinf, samples_odd },
    { &op_logical_not, samples_odd },
    { &op_bitwise_not, samples_bitwise_not },
    { &op_logical_and, samples_with_bools },
    { &op_logical_or, samples_with_bools },
    { &op_logical_xor, samples_with_bools },
    { &op_bitwise_and, samples_whole },
    { &op_bitwise_or, samples_whole },
    { &op_bitwise_xor, samples_whole },
    { &op_neg, samples_of_either_sign },
    { &op_abs, samples_of_either_sign },
    { &op_exp, samples_promoted },
    { &op_log, samples_positive },
    { &op_sqrt, samples_positive },
    { &op_rsqrt, samples_positive },
    { &op_tanh, samples_promoted },
    { &op_sigmoid, samples_promoted },
    { &op_relu, samples_of_either_sign },
    { &op_gelu, samples_float },
    { &op_silu, samples_float },
    { &op_leaky_relu, samples_leaky_relu },
    { &op_clamp, samples_clamp },
    { &op_floor, samples_of_either_sign },
    { &op_ceil, samples_of_either_sign },
    { &op_round, samples_of_either_sign },
    { &op_trunc, samples_of_either_sign },
    { &op_sin, samples_promoted },
    { &op_cos, samples_promoted },
    { NULL, NULL },
};
