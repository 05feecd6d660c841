// Common parts of operators on one number at a time: argument "x:tensor".
#ifndef TENSOR_OPS_OP_UNARY_H
#define TENSOR_OPS_OP_UNARY_H

#include "tensor/kernels/loops.h"

void unary_infer_same(op_call *c);      // the dtype of x, which is not bool
void unary_infer_promoted(op_call *c);  // integers become f32

// The row's loop over x, in the dtype of the output.
void unary_compute(op_call *c);

// A row of one tensor, and its public function.
#define UNARY_ROW(verb, ...)                                                                       \
    const op op_##verb = { .name = #verb, .params = "x:tensor", __VA_ARGS__ };                     \
    gw_tensor *gw_##verb(gw_scope *s, gw_tensor *x) {                                              \
        return op_run(s, &op_##verb, (const gw_value[]){ gw_value_of(x) }, 1, NULL);               \
    }

#endif
