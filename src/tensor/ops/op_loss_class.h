// Losses of classes: nll and cross_entropy, with the index of the right class as target.
//
// The classes are dimension 1 of the logits, or their only dimension. target: N d... for logits N C d..., with one
// class for each row of C numbers. Arguments begin with "x:tensor target:tensor reduction:int? ignore_index:int?".
#ifndef TENSOR_OPS_OP_LOSS_CLASS_H
#define TENSOR_OPS_OP_LOSS_CLASS_H

#include "tensor/ops/op_loss.h"

int class_dim(const gw_tensor *x);

// Checks dtypes and shapes, and makes the output. Argument |weight| has a weight for each class, or
// is none.
void class_infer(op_call *c, int weight);

// Whether every target is a class or to be ignored.
bool class_check_targets(op_call *c, const int64_t *target, int64_t n, int64_t classes,
                         int64_t ignore);

// The weight of class |k|, 1 if |weights| is NULL.
static inline double class_weight(const double *weights, int64_t k) {
    return weights ? weights[k] : 1;
}

// The sum of the weights of all targets that are not ignored: a mean is divided by it.
double class_count(const int64_t *target, int64_t n, int64_t ignore, const double *weights);

// Writes losses, one for each target, or their sum or mean, to the output.
void class_reduce_losses(op_call *c, const double *losses, int64_t n, double counted);

// The factor of a gradient row. |d| is the gradient of the loss, one number unless
// nothing was reduced.
double class_row_gradient(const double *d, gw_reduction reduction, int64_t row, double counted);

#endif
