// The rows of the table, by the file that holds them.
#ifndef TENSOR_OPS_H
#define TENSOR_OPS_H

#include "tensor/op.h"

// op_view.c
extern const op op_to_dtype;

// op_binary.c
extern const op op_add, op_mul;

#endif
