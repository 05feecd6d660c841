// Windows that move over planes: common parts of convolutions and pools.
//
// A plane is height by width; one dimension is a plane of height 1. Pairs are of both, in that
// order.
#ifndef TENSOR_KERNELS_WINDOW_H
#define TENSOR_KERNELS_WINDOW_H

#include "tensor/ops/op.h"

typedef struct window {
    int64_t size[2];  // of the plane
    int64_t kernel[2], padding[2], stride[2], dilation[2];
    int64_t out[2];  // the window's positions
} window;

// Reads argument |i|, ints: one number for all |dims| (1 or 2) dimensions, or one for each; else
// |standard|. Each is at least |least|. Along a dimension that the plane lacks it becomes |idle|.
// Fails with |name| in the text.
bool window_read(op_call *c, int i, const char *name, int dims, int64_t least, int64_t standard,
                 int64_t idle, int64_t out[2]);

// The last |dims| sizes of |x| as the plane. Fails if they are too large for the counters of windows.
bool window_plane(op_call *c, const gw_tensor *x, int dims, window *w);

// Counts positions, with one more where |ceil| lets the last window reach over the end. Fails if
// there is none.
bool window_count(op_call *c, int dims, bool ceil, window *w);

static inline int64_t window_plane_size(const window *w) {
    return w->size[0] * w->size[1];
}
static inline int64_t window_out_size(const window *w) {
    return w->out[0] * w->out[1];
}

// ---- Pools --------------------------------------------------------------------------------------
// Checks the input of a pool, argument 0: floats, and planes that are not empty. Fills in the plane.
bool window_pooled(op_call *c, int dims, window *w);

// That, and reads "- kernel stride padding"; the stride is the kernel's if there is none.
bool window_pool(op_call *c, int dims, window *w);

// The sizes of |x| with positions in place of the plane. Returns how many.
int window_output_sizes(const gw_tensor *x, int dims, const window *w, int64_t sizes[4]);

// The inputs of position |o| along dimension |d|: every |dilation|th from |first| to before |end|.
typedef struct window_span {
    int64_t first, end;
} window_span;
window_span window_span_at(const window *w, int d, int64_t o);

// ---- Columns ------------------------------------------------------------------------------------
// Columns of windows, for products. x: |channels| planes; columns: channels*kernel rows, for each
// of which the numbers that |row_count| rows of positions from |first| on see there; outside of the
// plane is 0. Folding adds them back.
// |dtype| is f32 or f64.
void window_unfold(gw_dtype dtype, const window *w, const void *x, int64_t channels, int64_t first,
                   int64_t row_count, void *columns);
void window_fold(gw_dtype dtype, const window *w, const void *columns, int64_t channels,
                 int64_t first, int64_t row_count, void *x);

#endif
