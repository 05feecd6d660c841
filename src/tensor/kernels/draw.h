// Random numbers by the block: block n of the generator's key gives the same elements wherever they
// are drawn, in whatever order.
#ifndef TENSOR_KERNELS_DRAW_H
#define TENSOR_KERNELS_DRAW_H

#include "base/random.h"
#include "tensor/dtype.h"

// |n| contiguous elements of a float dtype: uniform in [0, 1), with as many random bits as the
// dtype has digits; or normal. A block of the generator gives four elements, or two of f64.
void draw_uniform(generator *g, gw_dtype dtype, void *out, int64_t n);
void draw_normal(generator *g, gw_dtype dtype, void *out, int64_t n);

// |n| integers from |low| on, each of |range| as likely as another up to 2^-64; 0: all there are. A
// block gives two.
void draw_ints(generator *g, int64_t low, uint64_t range, int64_t *out, int64_t n);

#endif
