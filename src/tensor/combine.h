// Reducing several vectors to one: the sum, product, least, ... of the numbers of |count| vectors.
//
// The order of addition depends on |count| alone: with p the largest power of two that is not above |count|, y[i] =
// x[i] + x[i + p] where x[i + p] exists; then pairs (0, 1), (2, 3), ... of y are added, and pairs of those, to the end.
// Halves (f16, bf16) are added in f32 and rounded once. So the bits are the same whatever the length, the alignment and
// the CPU are, and however the work was cut.
//
// Threads: any. No memory is needed.
#ifndef TENSOR_COMBINE_H
#define TENSOR_COMBINE_H

#include <gradwire/tensor.h>

typedef enum combine_op {
    COMBINE_SUM,
    COMBINE_AVG,  // the sum, divided by |divisor|
    COMBINE_PRODUCT,
    COMBINE_MIN,  // NaN if one is
    COMBINE_MAX,
    COMBINE_BAND,  // bits; of bools: all, any, one or the other
    COMBINE_BOR,
    COMBINE_BXOR,
} combine_op;

// Whether numbers of |dtype| can be combined so: bools by BAND, BOR, BXOR, MIN and MAX only, AVG
// takes floating ones only, bits of floating ones are not combined.
bool combine_is_supported(combine_op op, gw_dtype dtype);

typedef struct combine_request {
    combine_op op;
    gw_dtype dtype;
    int count;  // vectors, at least 1
    const void *const *
        from;  // aligned to the dtype's size; may be in memory of other processes, which may change them
    void *out;         // apart from all of |from|, or the same as one of the same dtype
    uint64_t numbers;  // in each
    // Each number is multiplied by it first, in its dtype (f32 for halves; of integers by its whole
    // part); 1: none. Bools have none.
    double factor;
    double divisor;  // of COMBINE_AVG
} combine_request;

// Integers wrap around.
void combine(const combine_request *c);

// The same in parts. A partial sum has the dtype of combine_partial_dtype: f32 of halves. combine_begin
// multiplies and does not round; combine_partial divides and rounds if it |ends|. The parts give the bits of the
// whole if they are subtrees of it.
void combine_begin(const combine_request *c);               // numbers to a partial sum
void combine_partial(const combine_request *c, bool ends);  // partial sums to one, or to numbers
gw_dtype combine_partial_dtype(gw_dtype dtype);

#endif
