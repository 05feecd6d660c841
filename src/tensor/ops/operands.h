// Operands that broadcast and are promoted: common parts of arithmetic, comparisons and where.
#ifndef TENSOR_OPS_OPERANDS_H
#define TENSOR_OPS_OPERANDS_H

#include "tensor/kernels/loops.h"

enum { OPERANDS_SWAPPED = 1 << 16 };  // in the variant of a row: its loop is over b and a

// The dtype to which arguments |a| to |b| are promoted.
gw_dtype operands_dtype(const op_call *c, int a, int b);

// The dtype of the kernel for arguments 0 and 1: i64 rather than i32 when a number would not fit.
gw_dtype operands_work_dtype(const op_call *c, gw_dtype dtype);

// Makes the output of arguments 0 and 1.
void operands_output(op_call *c, gw_dtype dtype);

// Makes it in the dtype to which they are promoted, or of bools; plan.ints[0] is the dtype of the kernel.
void operands_infer(op_call *c);
void operands_infer_bool(op_call *c);

// Argument |i| for arithmetic, where a scalar first takes on the dtype of the result.
void operand_input_cast(ew_input *in, const op_call *c, int i, gw_dtype as);

// Loop |l| over the first |in_count| arguments, or the row's over both, as arithmetic; or into bools.
void operands_run(op_call *c, loop l, int in_count);
void operands_compute(op_call *c);
void operands_compute_bool(op_call *c);

// Argument |i| as a kernel reads it.
static inline void operand_input(ew_input *in, const op_call *c, int i, gw_dtype as) {
    in->x = arg_tensor(c->args, i);
    in->number = c->args[i];
    in->as = as;
}

// Gives argument |i| its gradient, if it is a tensor that needs one: |f| of the output's
// gradient, summed over the broadcast dimensions.
typedef gw_tensor *operand_derivative(const op_grad *g, gw_value d);
void operand_give(op_grad *g, int i, operand_derivative *f);

// Of the rows in op_binary.c.
void grad_add(op_grad *g);
void grad_sub(op_grad *g);
void grad_mul(op_grad *g);
void grad_div(op_grad *g);
void grad_pow(op_grad *g);
void grad_maximum(op_grad *g);
void grad_minimum(op_grad *g);

// A row of two operands, and its public function.
#define OPERANDS_ROW(verb, ...)                                                                    \
    const op op_##verb = { .name = #verb, .params = "a:operand b:operand", __VA_ARGS__ };          \
    gw_tensor *gw_##verb##_with(gw_scope *s, gw_value a, gw_value b) {                             \
        return op_run(s, &op_##verb, (const gw_value[]){ a, b }, 2, NULL);                         \
    }

#endif
