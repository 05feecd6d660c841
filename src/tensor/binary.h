// The kernels of operators with two operands.
#ifndef TENSOR_BINARY_H
#define TENSOR_BINARY_H

#include "tensor/elementwise.h"

extern const ew_kernels kernels_add, kernels_sub, kernels_mul, kernels_div, kernels_pow,
    kernels_maximum, kernels_minimum;
extern const ew_kernels kernels_eq, kernels_ne, kernels_lt, kernels_le, kernels_gt,
    kernels_ge;  // write bool

#endif
