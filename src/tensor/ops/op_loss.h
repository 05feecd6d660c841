// What losses have in common: a loss for each place, then the mean, the sum or none.
#ifndef TENSOR_OPS_OP_LOSS_H
#define TENSOR_OPS_OP_LOSS_H

#include "tensor/ops/op.h"
#include <gradwire/ops.h>

// The reduction in argument |i|.
gw_reduction loss_reduction(const gw_value *args, int i);

// Whether that argument is one; fails the call if not.
bool loss_reduction_check(op_call *c, int i);

// Makes the output: a scalar, or of the sizes given.
void loss_output(op_call *c, gw_dtype dtype, gw_reduction reduction, int dims,
                 const int64_t *sizes);

#endif
