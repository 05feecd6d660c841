// Loops: the work of operators on each number, compiled for several kinds of CPU.
//
// loops_body.h is compiled for any CPU, for AVX2 and for AVX-512. Nothing depends on the width of a
// vector and nothing fuses a multiplication with an addition, so that all give the same bits.
#ifndef TENSOR_KERNELS_LOOPS_H
#define TENSOR_KERNELS_LOOPS_H

#include "tensor/kernels/elementwise.h"
#include "tensor/kernels/kernels.h"

typedef enum loop {
    // Two operands.
    LOOP_ADD,
    LOOP_SUB,
    LOOP_MUL,
    LOOP_DIV,  // floats only
    LOOP_POW,
    LOOP_MAXIMUM,
    LOOP_MINIMUM,
    LOOP_REMAINDER,  // by an integer 0: 0
    LOOP_EQ,         // comparisons write bool
    LOOP_NE,
    LOOP_LT,
    LOOP_LE,
    LOOP_LOGICAL_AND,  // of numbers other than 0
    LOOP_LOGICAL_OR,
    LOOP_LOGICAL_XOR,
    LOOP_ISFINITE,  // of floats only, one at a time
    LOOP_ISNAN,
    LOOP_ISINF,
    LOOP_BITWISE_AND,  // integers only
    LOOP_BITWISE_OR,
    LOOP_BITWISE_XOR,
    LOOP_BITWISE_NOT,
    LOOP_WHERE,  // the first is bool, and a vector

    // One number at a time.
    LOOP_NEG,
    LOOP_ABS,
    LOOP_RELU,
    LOOP_CLAMP,  // reals: min, max
    LOOP_SQUARE,
    LOOP_CUBE,
    LOOP_RECIPROCAL,  // from here on floats only
    LOOP_EXP,
    LOOP_LOG,
    LOOP_SQRT,
    LOOP_RSQRT,
    LOOP_TANH,
    LOOP_SIGMOID,
    LOOP_LEAKY_RELU,  // reals: slope
    LOOP_GELU,
    LOOP_SILU,
    LOOP_FLOOR,
    LOOP_CEIL,
    LOOP_ROUND,  // ties to even
    LOOP_TRUNC,
    LOOP_SIN,
    LOOP_COS,

    // Derivatives: the first is the gradient, the second the operator's argument or result.
    LOOP_D_ABS,
    LOOP_D_SQRT,
    LOOP_D_RSQRT,
    LOOP_D_TANH,
    LOOP_D_SIGMOID,
    LOOP_D_RELU,
    LOOP_D_LEAKY_RELU,
    LOOP_D_GELU,
    LOOP_D_SILU,
    LOOP_D_CLAMP,
    LOOP_COUNT
} loop;

typedef struct loops {
    ew_kernels at[LOOP_COUNT];  // NULL where a loop has no such type

    // Blocks |first| to |first| + |count| of the generator's |key|, four numbers each: see draw.h.
    void (*uniform)(uint64_t key, uint64_t first, int64_t count, float *out);
    void (*normal)(uint64_t key, uint64_t first, int64_t count, float *out);

    // Cells of recurrent layers, in f32 and f64: see recurrent_loops.h.
    void (*lstm[2])(int64_t n, void *gates, const void *old_c, void *c, void *h);
    void (*lstm_back[2])(int64_t n, const void *gates, const void *old_c, const void *c,
                         const void *dh, void *dc, void *d_gates);
    void (*gru[2])(int64_t n, void *gates, const void *old_h, void *h);
    void (*gru_back[2])(int64_t n, const void *gates, const void *old_h, void *dh, void *d_gates);

    // Halves to f32 and back.
    void (*f32_of_f16)(const uint16_t *x, int64_t n, float *out);
    void (*f32_of_bf16)(const uint16_t *x, int64_t n, float *out);
    void (*f16_of_f32)(const float *x, int64_t n, uint16_t *out);
    void (*bf16_of_f32)(const float *x, int64_t n, uint16_t *out);
} loops;

extern const loops loops_any, loops_avx2, loops_avx512;

// The loops for this CPU.
static inline const loops *loops_get(void) {
    return kernels_get()->loops;
}

static inline ew_kernel *loop_for(loop l, gw_dtype as) {
    return ew_pick(&loops_get()->at[l], as);
}

#endif
