// Loops over whole gradients, without operators: for passes and clipping.
#ifndef TENSOR_KERNELS_GRADIENTS_H
#define TENSOR_KERNELS_GRADIENTS_H

#include "tensor/tensor.h"

// Adds |count| numbers in f32 or f64 that lie on the CPU, apart from each other.
void numbers_add(gw_dtype dtype, void *to, const void *from, int64_t count);

// Adds |from| to |to|. False if they are not contiguous numbers of one shape in f32 or f64 on the
// CPU, or without memory: gw_add is for all.
bool tensor_add_into(gw_tensor *to, const gw_tensor *from);

// The sum of the squares of |x|, whose numbers are floats, in the same bits on every machine. False
// without memory.
bool tensor_squares(const gw_tensor *x, double *out);

// Writes |from| times |by| to |to|, contiguous floats of one dtype with no other holder; it may
// be |from|. False if they are not on the CPU: gw_mul is for all.
bool tensor_scale_into(gw_tensor *to, const gw_tensor *from, double by);

#endif
