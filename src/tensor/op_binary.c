// Arithmetic, comparisons and choice: operands that broadcast and are promoted.
#include "tensor/loops.h"
#include "tensor/op_sample.h"
#include "tensor/ops.h"
#include <gradwire/ops.h>

// ---- Shapes and dtypes --------------------------------------------------------------------------------------------
static gw_dtype result_type(const op_call *c, int a, int b) {
    const gw_tensor *x = arg_tensor(c->args, a), *y = arg_tensor(c->args, b);
    if (x && y && x->dtype == y->dtype) return (gw_dtype)x->dtype;
    promotion p = promotion_start();
    for (int i = a; i <= b; i++) {
        const gw_tensor *t = arg_tensor(c->args, i);
        if (t) {
            promotion_add_tensor(&p, t);
        } else {
            promotion_add_number(&p, c->args[i]);
        }
    }
    return promotion_end(&p);
}

static bool is_wide(gw_value v) {
    return v.kind == GW_INT && (v.as.integer > INT32_MAX || v.as.integer < INT32_MIN);
}

// What the kernel works in: i64 rather than i32 when a number would not fit.
static gw_dtype work_type(const op_call *c, gw_dtype dtype) {
    gw_dtype as = ew_dtype(dtype);
    return as == GW_I32 && (is_wide(c->args[0]) || is_wide(c->args[1])) ? GW_I64 : as;
}

static bool has_same_shape(const gw_tensor *a, const gw_tensor *b) {
    if (a->dims != b->dims) return false;
    for (int i = 0; i < a->dims; i++)
        if (a->sizes[i] != b->sizes[i]) return false;
    return true;
}

// Makes the output; plan.ints[0] says what the kernel works in.
static void make_output(op_call *c, gw_dtype dtype) {
    const gw_tensor *a = arg_tensor(c->args, 0), *b = arg_tensor(c->args, 1);
    const gw_tensor *x = a ? a : b;
    if (!x) {
        op_fail(c, GW_INVALID, "one of two operands must be a tensor");
        return;
    }
    if (!a || !b || has_same_shape(a, b)) {
        op_output(c, dtype, x->dims, x->sizes);
        return;
    }
    int64_t sizes[GW_DIMS_MAX];
    int dims = op_broadcast(c, a, b, sizes);
    if (dims >= 0) op_output(c, dtype, dims, sizes);
}

static void infer_arithmetic(op_call *c) {
    gw_dtype dtype = result_type(c, 0, 1);
    c->plan.ints[0] = work_type(c, dtype);
    make_output(c, dtype);
}

static bool is_bool(gw_value v) {
    return v.kind == GW_BOOL || (v.kind == GW_TENSOR && v.as.tensor->dtype == GW_BOOL8);
}

static void infer_sub(op_call *c) {
    if (is_bool(c->args[0]) || is_bool(c->args[1])) {
        op_fail(c, GW_INVALID, "bools cannot be subtracted; gw_ne tells where two differ");
        return;
    }
    infer_arithmetic(c);
}

static void infer_div(op_call *c) {
    gw_dtype dtype = dtype_to_float(result_type(c, 0, 1));
    c->plan.ints[0] = ew_dtype(dtype);
    make_output(c, dtype);
}

static void infer_pow(op_call *c) {
    gw_dtype dtype = result_type(c, 0, 1);
    gw_value power = c->args[1];
    if (dtype == GW_BOOL8) {
        op_fail(c, GW_INVALID, "bools have no powers");
        return;
    }
    if (!dtype_is_float(dtype) && power.kind == GW_INT && power.as.integer < 0) {
        op_fail(c, GW_INVALID, "integers cannot be raised to the negative power %lld",
                (long long)power.as.integer);
        return;
    }
    c->plan.ints[0] = work_type(c, dtype);
    make_output(c, dtype);
}

static void infer_comparison(op_call *c) {
    c->plan.ints[0] = work_type(c, result_type(c, 0, 1));
    make_output(c, GW_BOOL8);
}

// ---- Kernels ------------------------------------------------------------------------------------------------------
static ew_input operand(const op_call *c, int i, gw_dtype as) {
    return (ew_input){ arg_tensor(c->args, i), c->args[i], as };
}

// A scalar takes on the dtype of the result before anything is computed with it, as in PyTorch: -1 is 255 beside u8. A
// number beside floats does not, but is as exact as the kernel's type.
static ew_input cast_operand(const op_call *c, int i, gw_dtype as) {
    ew_input in = operand(c, i, as);
    gw_dtype dtype = (gw_dtype)c->outputs[0]->dtype;
    if (dtype == as || (in.x ? in.x->dims || in.x->dtype == dtype : dtype_is_float(dtype)))
        return in;
    uint8_t one[8];
    if (in.x) {
        dtype_gather(dtype, one, (gw_dtype)in.x->dtype, tensor_bytes(in.x), 1, 1);
    } else {
        dtype_write_value(dtype, one, in.number);
    }
    in.x = NULL;
    in.number = dtype_is_float(dtype) ? gw_value_of(dtype_read(dtype, one))
                                      : gw_value_of(dtype_read_int(dtype, one));
    return in;
}

static void run(op_call *c, loop l) {
    gw_dtype as = (gw_dtype)c->plan.ints[0];
    elementwise_run(&(ew_call){
        .out = c->outputs[0],
        .out_as = as,
        .in = { cast_operand(c, 0, as), cast_operand(c, 1, as) },
        .in_count = 2,
        .kernel = loop_for(l, as),
    });
}

static void compare(op_call *c, loop l, int first) {
    gw_dtype as = (gw_dtype)c->plan.ints[0];
    elementwise_run(&(ew_call){
        .out = c->outputs[0],
        .out_as = GW_BOOL8,
        .in = { operand(c, first, as), operand(c, 1 - first, as) },
        .in_count = 2,
        .kernel = loop_for(l, as),
    });
}

static void compute_add(op_call *c) {
    run(c, LOOP_ADD);
}
static void compute_sub(op_call *c) {
    run(c, LOOP_SUB);
}
static void compute_mul(op_call *c) {
    run(c, LOOP_MUL);
}
static void compute_div(op_call *c) {
    run(c, LOOP_DIV);
}
static void compute_maximum(op_call *c) {
    run(c, LOOP_MAXIMUM);
}
static void compute_minimum(op_call *c) {
    run(c, LOOP_MINIMUM);
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
    gw_dtype as = (gw_dtype)c->plan.ints[0];
    loop l = loop_of_power(as, c->args[1]);
    elementwise_run(&(ew_call){
        .out = c->outputs[0],
        .out_as = as,
        .in = { cast_operand(c, 0, as), cast_operand(c, 1, as) },
        .in_count = l == LOOP_POW ? 2 : 1,
        .kernel = loop_for(l, as),
    });
}

// ---- Derivatives --------------------------------------------------------------------------------------------------
typedef gw_tensor *derivative(const op_grad *g, gw_value d);

// Gives operand |i| its gradient, if it is a tensor that wants one.
static void give(op_grad *g, int i, derivative *f) {
    if (g->args[i].kind != GW_TENSOR) return;
    int k = grad_input(g, i);
    if (!g->wanted[k]) return;
    gw_tensor *d = f(g, gw_value_of(g->d_outputs[0]));
    g->d_inputs[k] = unbroadcast(g->scope, d, g->args[i].as.tensor);
}

static gw_tensor *pass(const op_grad *g, gw_value d) {
    (void)g;
    return d.as.tensor;
}
static void grad_add(op_grad *g) {
    give(g, 0, pass);
    give(g, 1, pass);
}

static gw_tensor *pass_negated(const op_grad *g, gw_value d) {
    return gw_neg(g->scope, d.as.tensor);
}
static void grad_sub(op_grad *g) {
    give(g, 0, pass);
    give(g, 1, pass_negated);
}

static gw_tensor *times_b(const op_grad *g, gw_value d) {
    return gw_mul_values(g->scope, d, g->args[1]);
}
static gw_tensor *times_a(const op_grad *g, gw_value d) {
    return gw_mul_values(g->scope, d, g->args[0]);
}
static void grad_mul(op_grad *g) {
    give(g, 0, times_b);
    give(g, 1, times_a);
}

static gw_tensor *by_b(const op_grad *g, gw_value d) {
    return gw_div_values(g->scope, d, g->args[1]);
}
// -d (a / b) / b
static gw_tensor *d_divisor(const op_grad *g, gw_value d) {
    gw_tensor *ratio = gw_div_values(g->scope, g->args[0], g->args[1]);
    ratio = gw_div_values(g->scope, gw_value_of(ratio), g->args[1]);
    return gw_mul_values(g->scope, gw_value_of(gw_neg(g->scope, d.as.tensor)), gw_value_of(ratio));
}
static void grad_div(op_grad *g) {
    give(g, 0, by_b);
    give(g, 1, d_divisor);
}

// d b a^(b-1), and 0 where b is: without the exception, 0 times infinity at a = 0.
static gw_tensor *d_base(const op_grad *g, gw_value d) {
    gw_scope *s = g->scope;
    gw_value a = g->args[0], b = g->args[1];
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
    gw_value a = g->args[0], b = g->args[1];
    gw_tensor *out = g->outputs[0];
    if (a.kind != GW_TENSOR) {
        double x = arg_number(&a, 0), ln = __builtin_log(x);
        if (x != 0) return gw_mul(s, d, gw_mul(s, out, ln));
        return gw_mul(s, d, gw_where(s, gw_ge(s, b, 0), 0.0, gw_mul(s, out, ln)));
    }
    gw_tensor *slope = gw_mul(s, out, gw_log(s, gw_to_dtype(s, a.as.tensor, (gw_dtype)out->dtype)));
    gw_tensor *flat = gw_mul(s, gw_eq(s, a, 0), gw_ge(s, b, 0));
    return gw_mul(s, d, gw_where(s, flat, 0.0, slope));
}
static void grad_pow(op_grad *g) {
    give(g, 0, d_base);
    give(g, 1, d_power);
}

// The greater operand gets all, and each half where they are equal.
static gw_tensor *d_winner(const op_grad *g, gw_value d, gw_tensor *wins) {
    gw_scope *s = g->scope;
    gw_tensor *ties = gw_eq(s, g->args[0], g->args[1]);
    return gw_where(s, wins, d, gw_where(s, ties, gw_mul(s, d, 0.5), 0.0));
}
static gw_tensor *d_greater_a(const op_grad *g, gw_value d) {
    return d_winner(g, d, gw_gt(g->scope, g->args[0], g->args[1]));
}
static gw_tensor *d_lesser_a(const op_grad *g, gw_value d) {
    return d_winner(g, d, gw_lt(g->scope, g->args[0], g->args[1]));
}
static void grad_maximum(op_grad *g) {
    give(g, 0, d_greater_a);
    give(g, 1, d_lesser_a);
}
static void grad_minimum(op_grad *g) {
    give(g, 0, d_lesser_a);
    give(g, 1, d_greater_a);
}

// ---- Samples ------------------------------------------------------------------------------------------------------
static void sample_shapes(op_sampler *p, double low, double high) {
    sample_call(p, sample_real(p, low, high, 3, 4), sample_real(p, low, high, 3, 4));
    sample_call(p, sample_real(p, low, high, 2, 1, 3),
                sample_real(p, low, high, 4, 1));                                   // broadcast
    sample_call(p, sample_real(p, low, high), sample_real(p, low, high, 5));        // scalar
    sample_call(p, sample_real(p, low, high, 0, 3), sample_real(p, low, high, 3));  // empty
    sample_call(p, sample_real(p, low, high, 5), gw_value_of(1.5));
    sample_call(p, gw_value_of(2), sample_real(p, low, high, 5));
}

static void samples(op_sampler *p) {
    sample_shapes(p, -2, 2);
    sample_call(p, sample_tensor(p, GW_I64, -9, 9, 4), sample_tensor(p, GW_I32, -9, 9, 2, 1));
    sample_call(p, sample_tensor(p, GW_U8, 0, 9, 4), sample_real(p, -2, 2, 4));
    sample_call(p, sample_tensor(p, GW_I8, -9, 9, 4), sample_tensor(p, GW_I16, -9, 9, 4));
}

static void samples_of_bools(op_sampler *p) {
    samples(p);
    sample_call(p, sample_tensor(p, GW_BOOL8, 0, 2, 4), sample_tensor(p, GW_BOOL8, 0, 2, 3, 4));
}

static void samples_div(op_sampler *p) {
    sample_shapes(p, 0.5, 2);
    sample_call(p, sample_tensor(p, GW_I64, -9, 9, 4), sample_tensor(p, GW_I64, 1, 9, 4));
}

static void samples_pow(op_sampler *p) {
    sample_shapes(p, 0.5, 2);
    double powers[] = { -2, -1, -0.5, 0, 0.5, 1, 2, 3 };
    for (size_t i = 0; i < sizeof powers / sizeof *powers; i++)
        sample_call(p, sample_real(p, 0.5, 2, 3), gw_value_of(powers[i]));
    sample_call(p, sample_tensor(p, GW_I32, -3, 3, 4), gw_value_of(3));
    sample_call(p, sample_tensor(p, GW_I32, -3, 3, 4), sample_tensor(p, GW_I32, -3, 3, 4));
}

// ---- Rows ---------------------------------------------------------------------------------------------------------
#define ROW(verb, ...)                                                                             \
    const op op_##verb = {                                                                         \
        .name = #verb, .params = "a:operand b:operand", .compute = compute_##verb, __VA_ARGS__     \
    };                                                                                             \
    gw_tensor *gw_##verb##_values(gw_scope *s, gw_value a, gw_value b) {                           \
        return op_run(s, &op_##verb, (const gw_value[]){ a, b }, 2, NULL);                         \
    }

enum { SAVE_BOTH = OP_SAVE_ARG(0) | OP_SAVE_ARG(1) };

ROW(add, .infer = infer_arithmetic, .grad = grad_add, .samples = samples_of_bools)
ROW(sub, .infer = infer_sub, .grad = grad_sub, .samples = samples)
ROW(mul, .infer = infer_arithmetic, .grad = grad_mul, .saves = SAVE_BOTH,
    .samples = samples_of_bools)
ROW(div, .infer = infer_div, .grad = grad_div, .saves = SAVE_BOTH, .samples = samples_div)
ROW(pow, .infer = infer_pow, .grad = grad_pow, .saves = SAVE_BOTH | OP_SAVE_OUT(0),
    .samples = samples_pow)
ROW(maximum, .infer = infer_arithmetic, .grad = grad_maximum, .saves = SAVE_BOTH,
    .samples = samples_of_bools)
ROW(minimum, .infer = infer_arithmetic, .grad = grad_minimum, .saves = SAVE_BOTH,
    .samples = samples_of_bools)
ROW(eq, .infer = infer_comparison, .samples = samples_of_bools)
ROW(ne, .infer = infer_comparison, .samples = samples_of_bools)
ROW(lt, .infer = infer_comparison, .samples = samples_of_bools)
ROW(le, .infer = infer_comparison, .samples = samples_of_bools)
ROW(gt, .infer = infer_comparison, .samples = samples_of_bools)
ROW(ge, .infer = infer_comparison, .samples = samples_of_bools)

// ---- where --------------------------------------------------------------------------------------------------------
static void infer_where(op_call *c) {
    const gw_tensor *condition = arg_tensor(c->args, 0);
    if (condition->dtype != GW_BOOL8) {
        op_fail(c, GW_INVALID, "the condition must be bool, not %s",
                gw_dtype_name((gw_dtype)condition->dtype));
        return;
    }
    gw_dtype dtype = result_type(c, 1, 2);
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
    elementwise_run(&(ew_call){
        .out = c->outputs[0],
        .out_as = as,
        .in = { operand(c, 0, GW_BOOL8), operand(c, 1, as), operand(c, 2, as) },
        .in_count = 3,
        .vectors = 1,
        .kernel = loop_for(LOOP_WHERE, as),
    });
}

static gw_tensor *d_where_true(const op_grad *g, gw_value d) {
    return gw_where(g->scope, g->args[0].as.tensor, d, 0.0);
}
static gw_tensor *d_where_false(const op_grad *g, gw_value d) {
    return gw_where(g->scope, g->args[0].as.tensor, 0.0, d);
}
static void grad_where(op_grad *g) {
    give(g, 1, d_where_true);
    give(g, 2, d_where_false);
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

gw_tensor *gw_where_values(gw_scope *s, gw_tensor *condition, gw_value a, gw_value b) {
    return op_run(s, &op_where, (const gw_value[]){ gw_value_of(condition), a, b }, 3, NULL);
}
