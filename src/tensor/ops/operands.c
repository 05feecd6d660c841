#include "tensor/ops/operands.h"

gw_dtype operands_dtype(const op_call *c, int a, int b) {
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

gw_dtype operands_work_dtype(const op_call *c, gw_dtype dtype) {
    gw_dtype as = ew_dtype(dtype);
    return as == GW_I32 && (is_wide(c->args[0]) || is_wide(c->args[1])) ? GW_I64 : as;
}

void operands_output(op_call *c, gw_dtype dtype) {
    const gw_tensor *a = arg_tensor(c->args, 0), *b = arg_tensor(c->args, 1);
    const gw_tensor *x = a ? a : b;
    if (!x) {
        op_fail(c, GW_INVALID, "one of the two operands must be a tensor");
        return;
    }
    if (!a || !b || tensor_has_shape_of(a, b)) {
        op_output(c, dtype, x->dims, x->sizes);
        return;
    }
    int64_t sizes[GW_DIMS_MAX];
    int dims = op_broadcast(c, a, b, sizes);
    if (dims >= 0) op_output(c, dtype, dims, sizes);
}

void operands_infer(op_call *c) {
    gw_dtype dtype = operands_dtype(c, 0, 1);
    c->plan.ints[0] = operands_work_dtype(c, dtype);
    operands_output(c, dtype);
}

void operands_infer_bool(op_call *c) {
    c->plan.ints[0] = operands_work_dtype(c, operands_dtype(c, 0, 1));
    operands_output(c, GW_BOOL8);
}

// In PyTorch -1 is 255 as u8. A number in an operation with floats stays as exact as the kernel's type.
void operand_input_cast(ew_input *in, const op_call *c, int i, gw_dtype as) {
    operand_input(in, c, i, as);
    gw_dtype dtype = (gw_dtype)c->outputs[0]->dtype;
    const gw_tensor *x = in->x;
    if (dtype == as || (x ? x->dims || x->dtype == dtype : dtype_is_float(dtype))) return;
    uint8_t one[8];
    if (x) {
        dtype_gather(dtype, one, (gw_dtype)x->dtype, tensor_bytes(x), 1, 1);
    } else {
        dtype_write_value(dtype, one, in->number);
    }
    in->x = NULL;
    in->number = dtype_is_float(dtype) ? gw_value_of(dtype_read(dtype, one))
                                       : gw_value_of(dtype_read_int(dtype, one));
}

void operands_run(op_call *c, loop l, int in_count) {
    gw_dtype as = (gw_dtype)c->plan.ints[0];
    ew_call e;
    e.out = c->outputs[0];
    e.out_as = as;
    e.in_count = in_count;
    e.vectors = 0;
    e.kernel = loop_for(l, as);
    e.reals = NULL;
    for (int i = 0; i < in_count; i++) operand_input_cast(&e.in[i], c, i, as);
    elementwise_run(&e);
}

void operands_compute(op_call *c) {
    operands_run(c, (loop)c->op->variant, 2);
}

void operands_compute_bool(op_call *c) {
    gw_dtype as = (gw_dtype)c->plan.ints[0];
    ew_call e = {
        .out = c->outputs[0],
        .out_as = GW_BOOL8,
        .in_count = 2,
        .kernel = loop_for((loop)(c->op->variant & ~OPERANDS_SWAPPED), as),
    };
    int first = c->op->variant & OPERANDS_SWAPPED ? 1 : 0;
    operand_input(&e.in[0], c, first, as);
    operand_input(&e.in[1], c, 1 - first, as);
    elementwise_run(&e);
}

void operand_give(op_grad *g, int i, operand_derivative *f) {
    if (g->args[i].kind != GW_TENSOR) return;
    int k = grad_input(g, i);
    if (!g->wanted[k]) return;
    gw_tensor *d = f(g, gw_value_of(g->d_outputs[0]));
    g->d_inputs[k] = unbroadcast(g->scope, d, g->args[i].as.tensor);
}
