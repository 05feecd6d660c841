// Arithmetic and comparisons of two operands, which broadcast and are promoted.
#include "tensor/elementwise.h"
#include "tensor/op_sample.h"
#include "tensor/ops.h"
#include "tensor/binary.h"
#include <gradwire/ops.h>

// ---- Shapes and dtypes --------------------------------------------------------------------------------------------
static void add_to(promotion *p, gw_value v) {
    if (v.kind == GW_TENSOR) {
        promotion_add_tensor(p, v.as.tensor);
    } else {
        promotion_add_number(p, v);
    }
}

static gw_dtype result_type(const gw_value *args, int a, int b) {
    promotion p = promotion_start();
    add_to(&p, args[a]);
    add_to(&p, args[b]);
    return promotion_end(&p);
}

// Makes the output of |dtype|. Arithmetic is done in plan.ints[0].
static void infer(op_call *c, gw_dtype dtype) {
    const gw_tensor *a = arg_tensor(c->args, 0), *b = arg_tensor(c->args, 1);
    const gw_tensor *x = a ? a : b;
    if (!x) {
        op_fail(c, GW_INVALID, "%s and %s are two numbers, but one must be a tensor", c->op->params,
                c->op->params);
        return;
    }
    if (a && b &&
        (a->dims != b->dims || memcmp(a->sizes, b->sizes, a->dims * sizeof a->sizes[0]))) {
        int64_t sizes[GW_DIMS_MAX];
        int dims = op_broadcast(c, a, b, sizes);
        if (dims >= 0) op_output(c, dtype, dims, sizes);
        return;
    }
    op_output(c, dtype, x->dims, x->sizes);
}

static void infer_arithmetic(op_call *c) {
    gw_dtype dtype = result_type(c->args, 0, 1);
    c->plan.ints[0] = ew_dtype(dtype);
    infer(c, dtype);
}

static void run(op_call *c, const ew_kernels *kernels) {
    gw_dtype as = (gw_dtype)c->plan.ints[0];
    ew_call e = {
        .out = c->outputs[0], .out_as = as, .in_count = 2, .kernel = ew_pick(kernels, as)
    };
    for (int i = 0; i < 2; i++) e.in[i] = (ew_input){ arg_tensor(c->args, i), c->args[i], as };
    elementwise_run(&e);
}

static void samples(op_sampler *p) {
    sample_call(p, sample_real(p, -2, 2, 3, 4), sample_real(p, -2, 2, 3, 4));
}

static void compute_add(op_call *c) {
    run(c, &kernels_add);
}
static void grad_add(op_grad *g) {
    for (int i = 0; i < 2; i++) {
        if (g->args[i].kind != GW_TENSOR) continue;
        int k = grad_input(g, i);
        if (g->wanted[k])
            g->d_inputs[k] = unbroadcast(g->scope, g->d_outputs[0], g->args[i].as.tensor);
    }
}
const op op_add = {
    .name = "add",
    .params = "a:operand b:operand",
    .infer = infer_arithmetic,
    .compute = compute_add,
    .grad = grad_add,
    .samples = samples,
};
gw_tensor *gw_add_values(gw_scope *s, gw_value a, gw_value b) {
    return op_run(s, &op_add, (const gw_value[]){ a, b }, 2, NULL);
}

static void compute_mul(op_call *c) {
    run(c, &kernels_mul);
}
static void grad_mul(op_grad *g) {
    for (int i = 0; i < 2; i++) {
        if (g->args[i].kind != GW_TENSOR) continue;
        int k = grad_input(g, i);
        if (!g->wanted[k]) continue;
        gw_tensor *d = gw_mul_values(g->scope, gw_value_of(g->d_outputs[0]), g->args[1 - i]);
        g->d_inputs[k] = unbroadcast(g->scope, d, g->args[i].as.tensor);
    }
}
const op op_mul = {
    .name = "mul",
    .params = "a:operand b:operand",
    .infer = infer_arithmetic,
    .compute = compute_mul,
    .grad = grad_mul,
    .saves = OP_SAVE_ARG(0) | OP_SAVE_ARG(1),
    .samples = samples,
};
gw_tensor *gw_mul_values(gw_scope *s, gw_value a, gw_value b) {
    return op_run(s, &op_mul, (const gw_value[]){ a, b }, 2, NULL);
}
