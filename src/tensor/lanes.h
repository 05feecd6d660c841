// Loops in vectors of 64 bytes.
//
// A function marked LANES is compiled for AVX-512, for AVX2 and for any CPU, and the loader picks one. A sum over lanes
// is in the same order in all three, and nothing here fuses a multiplication with an addition, so they give the same
// bits.
//
// Vectors are passed by pointer: by value they would be passed differently from one CPU to the next.
#ifndef TENSOR_LANES_H
#define TENSOR_LANES_H

#include <stdint.h>
#include <string.h>

// The loader calls a resolver before a sanitizer's run time is up, so that there the plain version has to do.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define LANES
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define LANES
#endif
#endif
#if !defined(LANES) && defined(__x86_64__) && defined(__linux__)
#define LANES __attribute__((target_clones("avx512f", "avx2", "default")))
#elif !defined(LANES)
#define LANES
#endif

#define LANES_INLINE static inline __attribute__((always_inline))

// They may lie anywhere and alias the scalars they are loaded from.
typedef float f32x16 __attribute__((vector_size(64), aligned(4), may_alias));
typedef double f64x8 __attribute__((vector_size(64), aligned(8), may_alias));
typedef int32_t i32x16 __attribute__((vector_size(64), aligned(4), may_alias));
typedef int64_t i64x8 __attribute__((vector_size(64), aligned(8), may_alias));
typedef uint64_t u64x8 __attribute__((vector_size(64), aligned(8), may_alias));

#endif
