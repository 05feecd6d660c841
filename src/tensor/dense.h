// Arguments and results of operators as plain arrays, the form that kernels take.
//
//     dense x;
//     result y;
//     if (dense_open(c, 0, GW_F32, &x) && result_open(c, 0, GW_F32, &y)) kernel(x.values, y.values, n);
//     result_close(&y);
//     dense_close(&x);
//
// Ownership: opening may copy and convert; closing releases the copy, and is allowed after a failed opening.
#ifndef TENSOR_DENSE_H
#define TENSOR_DENSE_H

#include "tensor/ops/op.h"

typedef struct dense {
    const void *values;
    block *copy;  // NULL: the tensor's own bytes
} dense;

typedef struct result {
    void *values;
    block *copy;  // NULL: the tensor's own bytes
    gw_tensor *tensor;
    gw_dtype dtype;
    int last;  // the dimension that is last in |values|
} result;

// The values of |x| in order, as |dtype|. Returns false with the call failed, and |out| empty,
// without memory.
bool dense_open(op_call *c, const gw_tensor *x, gw_dtype dtype, dense *out);

// The same with dimension |last| moved to the end: rows along it, one after the other.
bool dense_open_rows(op_call *c, const gw_tensor *x, int last, gw_dtype dtype, dense *out);

// The same broadcast to |sizes|.
bool dense_open_expanded(op_call *c, const gw_tensor *x, int dims, const int64_t *sizes,
                         gw_dtype dtype, dense *out);

// The same for a tensor that may be NULL, which leaves |out| empty.
bool dense_open_optional(op_call *c, const gw_tensor *x, gw_dtype dtype, dense *out);

void dense_close(dense *d);

// Room for the values of output |i|, not zeroed, as |dtype|; or, again, as rows along |last|.
bool result_open(op_call *c, int i, gw_dtype dtype, result *out);
bool result_open_rows(op_call *c, int i, int last, gw_dtype dtype, result *out);

// Converts and moves the written values into the output.
void result_close(result *r);

// A temporary of |count| elements of |size| bytes. NULL with the call failed.
block *scratch_open(op_call *c, int64_t count, size_t size);

#endif
