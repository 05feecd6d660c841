// What the reductions of op_reduce.c and op_extreme.c have in common: arguments "x:tensor dim:int? keep:bool?".
#ifndef TENSOR_OPS_OP_REDUCE_H
#define TENSOR_OPS_OP_REDUCE_H

#include "tensor/ops/op.h"

// x as outer n inner, where n is what is reduced.
typedef struct reduction {
    int dim;  // -1: everything
    int64_t outer, n, inner;
} reduction;

// Makes the output. Returns false with the call failed.
bool reduction_infer(op_call *c, gw_dtype dtype);

reduction reduction_of(const gw_value *args);

// For derivatives: the output |y|, or its gradient, with the reduced dimension as size 1, ready to broadcast to x.
gw_tensor *reduction_widen(const op_grad *g, gw_tensor *y);

// Calls |o| as the public functions do.
gw_tensor *reduction_run(gw_scope *s, const op *o, gw_tensor *x);
gw_tensor *reduction_run_along(gw_scope *s, const op *o, gw_tensor *x, int dim, bool keep);

// Everything, each dimension, kept and not.
void reduction_samples(struct op_sampler *p);

#endif
