// Common parts of reductions: arguments "x:tensor dims:ints? keepdim:bool?", or "dim:int?" for
// those along one dimension.
// Those with arguments in between pass the position of |dims|.
#ifndef TENSOR_OPS_REDUCTION_H
#define TENSOR_OPS_REDUCTION_H

#include "tensor/dense.h"
#include "tensor/ops/op.h"
#include <gradwire/ops.h>

// x as outer n inner, where n is reduced.
typedef struct reduction {
    int dim;         // the only one; -1: everything, or several
    uint32_t dims;   // a bit for each
    bool scattered;  // others lie between them: reduction_open gathers them, inner is 1
    int64_t outer, n, inner;
} reduction;

// Makes the output. Returns false with the call failed.
bool reduction_infer_at(op_call *c, gw_dtype dtype, int dims_at);
static inline bool reduction_infer(op_call *c, gw_dtype dtype) {
    return reduction_infer_at(c, dtype, 1);
}

// In the dtype of x, which must be a float; in that dtype or, of integers and bools, i64.
void reduction_infer_float(op_call *c);
void reduction_infer_wide(op_call *c);

reduction reduction_of_at(const gw_value *args, int dims_at);
static inline reduction reduction_of(const gw_value *args) {
    return reduction_of_at(args, 1);
}

// The values of x as outer n inner; or as rows of n, one for each number of the result. See
// dense_open.
bool reduction_open(op_call *c, const reduction *r, gw_dtype dtype, dense *out);
bool reduction_open_rows(op_call *c, const reduction *r, gw_dtype dtype, dense *out);

// For derivatives: the output |y|, or its gradient, with the reduced dimensions as size 1, ready to
// broadcast to x; and broadcast to it.
gw_tensor *reduction_widen_at(const op_grad *g, gw_tensor *y, int dims_at);
static inline gw_tensor *reduction_widen(const op_grad *g, gw_tensor *y) {
    return reduction_widen_at(g, y, 1);
}
gw_tensor *reduction_spread(const op_grad *g, gw_tensor *y);

// Calls |o| as the public functions do.
gw_tensor *reduction_run(gw_scope *s, const op *o, gw_tensor *x, gw_dim_options options);
gw_tensor *reduction_run_dims(gw_scope *s, const op *o, gw_tensor *x, gw_dims_options options);

// The reduced dimensions, as an argument: a dimension, several, or none, which is everything. Fails |s| if
// one and several are given.
gw_value reduction_dims(gw_scope *s, const op *o, gw_dims_options options);

// A row over any dimensions, and its public function.
#define REDUCTION_ROW(verb, ...)                                                                   \
    const op op_##verb = { .name = #verb,                                                          \
                           .params = "x:tensor dims:ints? keepdim:bool?",                          \
                           __VA_ARGS__ };                                                          \
    gw_tensor *gw_##verb##_with(gw_scope *s, gw_tensor *x, gw_dims_options options) {              \
        return reduction_run_dims(s, &op_##verb, x, options);                                      \
    }

#endif
