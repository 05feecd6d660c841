// Common parts of losses: a loss for each element, then the mean, the sum or none.
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

// ---- Of "x:tensor target:tensor reduction:int?", which broadcast --------------------------------
// The kernels that write the losses of |n| numbers, in f32 and f64. |beta| is smooth_l1's.
typedef void loss_kernel(const void *x, const void *target, int64_t n, double beta, void *out);
typedef loss_kernel *const loss_kernels[2];

// Checks dtypes and shapes, but not the reduction, and makes the output; fills it.
void loss_infer(op_call *c);
void loss_run(op_call *c, const loss_kernels kernels, double beta);

// For derivatives: the factor of each number's derivative, the output's gradient times
// |factor| included.
gw_tensor *loss_scaled(const op_grad *g, double factor);

#endif
