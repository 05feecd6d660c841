// Common parts of operators that pick by index. The arguments of these operators begin with "x:tensor dim:int
// index:tensor".
#ifndef TENSOR_OPS_OP_PICK_H
#define TENSOR_OPS_OP_PICK_H

#include "tensor/ops/op.h"

#include <string.h>

bool pick_check_dtype(op_call *c, const gw_tensor *index);
bool pick_check_range(op_call *c, const int64_t *index, int64_t n, int dim, int64_t size);

// The dimension, 0 for a scalar, which counts as a list of one number here.
int pick_dim(const gw_value *args);

// Whether |index| has the dimensions of |x|, and none longer but |dim|.
bool pick_index_fits(const gw_tensor *index, const gw_tensor *x, int dim);

// The elements of |index| in order. gather reads from x the positions to which scatter and scatter_add write:
// out[i, j] = x[index[i, j], j] and x[index[i, j], j] = source[i, j], for dimension 0.
typedef struct walk {
    int dims, dim;
    const int64_t *sizes;          // of index
    int64_t strides[GW_DIMS_MAX];  // of x
    int64_t other[GW_DIMS_MAX];    // of source
    int64_t at[GW_DIMS_MAX];
    int64_t x_offset, other_offset;  // without dimension |dim| for x
} walk;

static inline walk walk_start(const gw_tensor *index, int dim) {
    return (walk){ .dims = index->dims, .dim = dim, .sizes = index->sizes };
}

static inline void walk_step(walk *w) {
    for (int i = w->dims - 1; i >= 0; i--) {
        int64_t stride = i == w->dim ? 0 : w->strides[i];
        w->x_offset += stride;
        w->other_offset += w->other[i];
        if (++w->at[i] < w->sizes[i]) return;
        w->x_offset -= stride * w->sizes[i];
        w->other_offset -= w->other[i] * w->sizes[i];
        w->at[i] = 0;
    }
}

static inline void copy_element(uint8_t *to, const uint8_t *from, size_t size) {
    switch (size) {
    case 1: *to = *from; return;
    case 2: memcpy(to, from, 2); return;
    case 4: memcpy(to, from, 4); return;
    default: memcpy(to, from, 8);
    }
}

#endif
