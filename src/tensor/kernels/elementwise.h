// Running one small loop over whole tensors: broadcasting, strides and dtypes are handled here, so
// that a kernel only gets rows of numbers of the four types of arithmetic.
#ifndef TENSOR_KERNELS_ELEMENTWISE_H
#define TENSOR_KERNELS_ELEMENTWISE_H

#include "tensor/dtype.h"
#include "tensor/ops/op.h"

enum { EW_INPUTS_MAX = 3 };

// One row. An input is contiguous (step 1) or one number for the whole row (step 0); never all of
// them step 0.
typedef struct ew_row {
    void *out;
    const void *in[EW_INPUTS_MAX];
    int64_t step[EW_INPUTS_MAX];
    int64_t n;
    const double *reals;  // the operator's own numbers
} ew_row;

typedef void ew_kernel(const ew_row *r);

// One kernel for each type that arithmetic is done in.
typedef struct ew_kernels {
    ew_kernel *f32, *f64, *i64, *i32;  // NULL where the operator has none
} ew_kernels;

typedef struct ew_input {
    const gw_tensor *x;  // NULL: |number|
    gw_value number;
    gw_dtype as;  // read by the kernel
} ew_input;

typedef struct ew_call {
    gw_tensor *out;   // contiguous, of the shape to which the inputs broadcast
    gw_dtype out_as;  // written by the kernel
    ew_input in[EW_INPUTS_MAX];
    int in_count;
    unsigned vectors;  // bit i: the kernel wants input i with step 1
    ew_kernel *kernel;
    const double *reals;
} ew_call;

void elementwise_run(const ew_call *e);

// The type that arithmetic on |d| is done in: f32 for halves, i32 for small integers and bool,
// whose results are then rounded or wrapped.
static inline gw_dtype ew_dtype(gw_dtype d) {
    return d == GW_F64 || d == GW_I64 ? d : dtype_is_float(d) ? GW_F32 : GW_I32;
}

static inline ew_kernel *ew_pick(const ew_kernels *k, gw_dtype as) {
    return as == GW_F32 ? k->f32 : as == GW_F64 ? k->f64 : as == GW_I64 ? k->i64 : k->i32;
}

#endif
