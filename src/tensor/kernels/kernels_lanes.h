// Numbers in vectors as wide as the CPU's, for the kernels (see kernels_body.h).
//
// LANES_BYTES is their width. Where the order of a sum matters, the sum is taken over 64 bytes of lanes (LANES_GROUP
// vectors), or over four times as many, whatever the width of vectors is.
//
// Vectors are passed by pointer: by value they would be passed differently from one CPU to the
// next.
#ifndef TENSOR_KERNELS_KERNELS_LANES_H
#define TENSOR_KERNELS_KERNELS_LANES_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define LANES_INLINE static inline __attribute__((always_inline))

enum { LANES_GROUP = 64 / LANES_BYTES };

// A vector of |bytes| bytes. It may lie anywhere and alias the numbers it is loaded from.
#define LANES_OF(type, bytes)                                                                      \
    type __attribute__((vector_size(bytes), aligned(__alignof__(type)), may_alias))

typedef LANES_OF(float, LANES_BYTES) f32s;
typedef LANES_OF(float, LANES_BYTES / 2) f32s_half;
typedef LANES_OF(double, LANES_BYTES) f64s;
typedef LANES_OF(int32_t, LANES_BYTES) i32s;
typedef LANES_OF(int64_t, LANES_BYTES) i64s;
typedef LANES_OF(uint64_t, LANES_BYTES) u64s;

#endif
