// All kernels and loops, for the CPU that the including file compiles for. Defines |KERNELS|, a
// table named KERNELS_NAME, and |LOOPS|. LANES_BYTES is the width of the CPU's vectors.
#include "tensor/kernels/kernels.h"
#include "base/random.h"
#include "tensor/kernels/kernels_lanes.h"
#include "tensor/kernels/loops.h"
#include "tensor/kernels/loops_body.h"

// Note [Summing by halves]
//
// One sum of n numbers, one after the other, is off by up to n roundings. Sums of LEAF numbers,
// added in pairs, then pairs of pairs, are off by log2(n) of them. A cascade does that in one pass,
// like a binary counter: level i holds the sum of 2^i leaves while bit i of the count is set.
enum {
    TILE_ROWS = 4,        // of a product, whose sums are in registers at a time
    BLOCK_ROWS = 128,     // of a product, that use a packed strip of b
    STRIP_BYTES = 12288,  // of a packed strip of b
    BLOCK_DEPTH = 256,    // rows of a strip, at most
    LEAF = 1024,          // numbers of a row, 16 to each of 64 lanes
    LEAF_ROWS = 128,      // numbers of a column
    CASCADE_LEVELS = 48,  // no memory has more leaves
};

static inline int64_t least(int64_t a, int64_t b) {
    return a < b ? a : b;
}

#define ELEMENT float
#define VECTOR f32s
#define NAMED(name) name##_f32
#include "tensor/kernels/multiply_loops.h"

#define ELEMENT double
#define VECTOR f64s
#define NAMED(name) name##_f64
#include "tensor/kernels/multiply_loops.h"

// Unsigned, because integers wrap around.
#define ELEMENT uint64_t
#define VECTOR u64s
#define NAMED(name) name##_i64
#include "tensor/kernels/multiply_loops.h"

#define ELEMENT float
#define VECTOR f32s
#define NAMED(name) name##_f32
#include "tensor/kernels/sum_loops.h"

#define ELEMENT double
#define VECTOR f64s
#define NAMED(name) name##_f64
#include "tensor/kernels/sum_loops.h"

#define ELEMENT uint64_t
#define VECTOR u64s
#define NAMED(name) name##_i64
#include "tensor/kernels/sum_loops.h"

#define ELEMENT float
#define VECTOR f32s
#define MASK i32s
#define UNORDERED(x) ((x) != (x))
#define NAMED(name) name##_f32
#include "tensor/kernels/extreme_loops.h"

#define ELEMENT double
#define VECTOR f64s
#define MASK i64s
#define UNORDERED(x) ((x) != (x))
#define NAMED(name) name##_f64
#include "tensor/kernels/extreme_loops.h"

#define ELEMENT int64_t
#define VECTOR i64s
#define MASK i64s
#define UNORDERED(x) ((x)&0)
#define NAMED(name) name##_i64
#include "tensor/kernels/extreme_loops.h"

// A group's numbers as f64. Doubles leave enough room that a long sum needs no cascade.
LANES_INLINE void load_f64s(kernel_type type, const void *x, int64_t i, f64s *out) {
#pragma GCC unroll 4
    for (int w = 0; w < LANES_GROUP; w++) {
        if (type == KERNEL_F64)
            out[w] = ((const f64s *)((const double *)x + i))[w];
        else
            out[w] = __builtin_convertvector(((const f32s_half *)((const float *)x + i))[w], f64s);
    }
}

LANES_INLINE double number_at(kernel_type type, const void *x, int64_t i) {
    return type == KERNEL_F64 ? ((const double *)x)[i] : (double)((const float *)x)[i];
}

LANES_INLINE double sum_f64_of(kernel_type type, const void *x, int64_t n) {
    f64s sum[LANES_GROUP] = { { 0 } }, v[LANES_GROUP];
    int64_t i = 0;
    for (; i + 8 <= n; i += 8) {
        load_f64s(type, x, i, v);
#pragma GCC unroll 4
        for (int w = 0; w < LANES_GROUP; w++) sum[w] += v[w];
    }
    double total = fold_f64(sum);
    for (; i < n; i++) total += number_at(type, x, i);
    return total;
}

LANES_INLINE moments moments_of(kernel_type type, const void *x, int64_t n) {
    moments m = { .mean = sum_f64_of(type, x, n) / (double)n };
    f64s squares[LANES_GROUP] = { { 0 } }, left[LANES_GROUP] = { { 0 } }, v[LANES_GROUP];
    int64_t i = 0;
    for (; i + 8 <= n; i += 8) {
        load_f64s(type, x, i, v);
#pragma GCC unroll 4
        for (int w = 0; w < LANES_GROUP; w++) {
            v[w] -= m.mean;
            left[w] += v[w];
            squares[w] += v[w] * v[w];
        }
    }
    double rest = fold_f64(left);
    m.squares = fold_f64(squares);
    for (; i < n; i++) {
        double d = number_at(type, x, i) - m.mean;
        rest += d;
        m.squares += d * d;
    }
    // The mean is rounded: its error is subtracted from the squares.
    m.squares -= rest * rest / (double)n;
    return m;
}

static void moments_f32(const void *x, int64_t n, moments *out) {
    *out = moments_of(KERNEL_F32, x, n);
}

static void moments_f64(const void *x, int64_t n, moments *out) {
    *out = moments_of(KERNEL_F64, x, n);
}

#define ELEMENT float
#define NAMED(name) name##_f32
#include "tensor/kernels/softmax_loops.h"

#define ELEMENT double
#define NAMED(name) name##_f64
#include "tensor/kernels/softmax_loops.h"

// ln(1 + x), where 1 + x has lost digits of x; x >= 0.
LANES_INLINE float log1p_f32(float x) {
    float sum = 1 + x, rounded = sum - 1;
    return rounded == 0 ? x : log_f32(sum) * (x / rounded);
}

LANES_INLINE double log1p_f64(double x) {
    return log1p(x);
}

#define ELEMENT float
#define NAMED(name) name##_f32
#include "tensor/kernels/loss_loops.h"

#define ELEMENT double
#define NAMED(name) name##_f64
#include "tensor/kernels/loss_loops.h"

#define ELEMENT float
#define NAMED(name) name##_f32
#include "tensor/kernels/norm_loops.h"

#define ELEMENT double
#define NAMED(name) name##_f64
#include "tensor/kernels/norm_loops.h"

// Philox as in base/random.c, one block to each lane. The products of 32-bit numbers are taken in
// 64 bits.
static void random_words(uint64_t key, uint64_t first, int64_t blocks, uint32_t *out) {
    enum { WIDTH = LANES_BYTES / sizeof(uint64_t) };
    static const uint64_t steps[] = { 0, 1, 2, 3, 4, 5, 6, 7 };
    int64_t b = 0;
    for (; b + WIDTH <= blocks; b += WIDTH, out += 4 * WIDTH) {
        u64s c2 = { 0 }, c3 = { 0 }, counter = *(const u64s *)steps + (first + (uint64_t)b);
        const u64s low = c2 + 0xffffffffu;
        u64s c0 = counter & low, c1 = counter >> 32;
        uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
        for (int round = 0; round < 10; round++) {
            u64s p0 = c0 * 0xD2511F53u, p1 = c2 * 0xCD9E8D57u;
            c0 = (p1 >> 32) ^ c1 ^ k0;
            c1 = p1 & low;
            c2 = (p0 >> 32) ^ c3 ^ k1;
            c3 = p0 & low;
            k0 += 0x9E3779B9u;
            k1 += 0xBB67AE85u;
        }
        uint64_t words[2][WIDTH];
        u64s pairs[] = { c0 | c1 << 32, c2 | c3 << 32 };
        memcpy(words, pairs, sizeof words);
        for (int j = 0; j < WIDTH; j++) {
            memcpy(out + 4 * j, &words[0][j], 8);
            memcpy(out + 4 * j + 2, &words[1][j], 8);
        }
    }
    for (; b < blocks; b++, out += 4) philox(key, first + (uint64_t)b, out);
}

static void draw_mask(const uint32_t *restrict words, const uint64_t limit, int64_t n,
                      uint8_t *restrict mask) {
    for (int64_t i = 0; i < n; i++) mask[i] = words[i] < limit;
}

#define BY_FLOAT(name)                                                                             \
    { name##_f32, name##_f64 }
#define BY_TYPE(name)                                                                              \
    { name##_f32, name##_f64, name##_i64 }

const kernels KERNELS = {
    .name = KERNELS_NAME,
    .loops = &LOOPS,
    .multiply = BY_TYPE(multiply),
    .sum_rows = BY_TYPE(sum_rows),
    .sum_columns = BY_TYPE(sum_columns),
    .extreme_rows = BY_TYPE(extreme_rows),
    .extreme_columns = BY_TYPE(extreme_columns),
    .moments = BY_FLOAT(moments),
    .softmax_rows = BY_FLOAT(softmax_rows),
    .log_softmax_rows = BY_FLOAT(log_softmax_rows),
    .softmax_back_rows = BY_FLOAT(softmax_back_rows),
    .log_softmax_back_rows = BY_FLOAT(log_softmax_back_rows),
    .exp_sum_rows = BY_FLOAT(exp_sum_rows),
    .raise_rows = BY_FLOAT(raise_rows),
    .norm_rows = BY_FLOAT(norm_rows),
    .norm_back_rows = BY_FLOAT(norm_back_rows),
    .norm_product_rows = BY_FLOAT(norm_product_rows),
    .shift_scale = BY_FLOAT(shift_scale),
    .shifted_sums = BY_FLOAT(shifted_sums),
    .shift_scale_back = BY_FLOAT(shift_scale_back),
    .mse = BY_FLOAT(mse),
    .bce = BY_FLOAT(bce),
    .smooth_l1 = BY_FLOAT(smooth_l1),
    .l1 = BY_FLOAT(l1),
    .kl_div = BY_FLOAT(kl_div),
    .kl_div_log = BY_FLOAT(kl_div_log),
    .apply_mask = BY_FLOAT(apply_mask),
    .draw_mask = draw_mask,
    .random_words = random_words,
};
