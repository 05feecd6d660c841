// For |rows| of operators: see op.h.
#ifndef TENSOR_OPS_OP_ROWS_H
#define TENSOR_OPS_OP_ROWS_H

#include "tensor/ops/op.h"

void rows_add(op_call *c);    // two of them, or one and a dense tensor, of one shape and dtype
void rows_scale(op_call *c);  // mul and div: one of them and a number

#endif
