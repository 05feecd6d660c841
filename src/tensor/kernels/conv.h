// Common parts of convolutions and their derivatives: arguments, and the walk over strips of columns.
#ifndef TENSOR_KERNELS_CONV_H
#define TENSOR_KERNELS_CONV_H

#include "tensor/kernels/blas.h"
#include "tensor/ops/op.h"
#include "tensor/kernels/window.h"

// x: N C plane, weight: O C/groups kernel, result: N O positions. All but |window| by group.
typedef struct conv {
    window window;
    gw_dtype type;
    int64_t n, groups, c, o, k;  // k: numbers that one output is made of
    int64_t plane, out_plane, strip_rows;
    bool is_plain;  // the columns are the planes themselves
} conv;

// Reads and checks "x weight - stride padding dilation groups". |dims| is how many dimensions a
// plane has.
bool conv_read(op_call *c, int dims, conv *v);

// Further numbers that products need.
void conv_plan(conv *v);

// A strip of one image and group: its columns, K by |count|, and where they begin among the
// positions.
typedef struct strip {
    int64_t image, group, first_row, row_count, first, count;
    const void *x;  // C planes
    matrix columns;
} strip;

strip conv_before_first(const conv *v);

// Moves on to the next strip. Returns false after the last. |x| may be NULL.
bool conv_next(const conv *v, const void *x, strip *s);

// Room for the columns of a strip. A plain convolution needs none: NULL.
bool conv_open_columns(op_call *c, const conv *v, block **room);

// Makes the columns of |s|, in |room| if there has to be any.
void conv_unfold(const conv *v, strip *s, void *room);

// The group's part of the weight, O by K; and the strip's of a result, O rows that are |out_plane|
// apart.
matrix conv_weight(const conv *v, const strip *s, const void *weight);
void *conv_result(const conv *v, const strip *s, const void *out);

// Element |i|.
const void *conv_at(const void *values, int64_t i, gw_dtype type);

// The derivatives: the forward's arguments, with the gradient in place of the bias. Not in the
// table.
extern const op op_conv_back_x, op_conv_back_weight;

#endif
