#include "tensor/kernels/draw.h"

#include "tensor/kernels/draw_math.h"
#include "tensor/kernels/loops.h"

enum { CHUNK = 256 };  // blocks that are drawn at a time for halves

// ---- f32, and halves, which are rounded f32 -----------------------------------------------------
typedef void draw_f32(uint64_t key, uint64_t first, int64_t count, float *out);

// Whole blocks go straight to where they belong, the last one aside if only some of its numbers are
// wanted.
static void draw_singles(draw_f32 *f, uint64_t key, uint64_t first, float *out, int64_t n) {
    f(key, first, n / 4, out);
    if (n % 4 == 0) return;
    float last[4];
    f(key, first + (uint64_t)(n / 4), 1, last);
    memcpy(out + n / 4 * 4, last, (size_t)(n % 4) * sizeof *last);
}

// As many bits as the half has digits: rounding would make 1 of numbers just below.
static void cut_uniform(gw_dtype dtype, float *numbers, int64_t n) {
    float parts = dtype == GW_F16 ? 0x1p11f : 0x1p8f;
    for (int64_t i = 0; i < n; i++) numbers[i] = (float)(int32_t)(numbers[i] * parts) / parts;
}

static void draw_halves(draw_f32 *f, uint64_t key, uint64_t first, gw_dtype dtype, uint16_t *out,
                        int64_t n) {
    for (int64_t done = 0; done < n; done += 4 * CHUNK) {
        float numbers[4 * CHUNK];
        int64_t count = n - done < 4 * CHUNK ? n - done : 4 * CHUNK;
        draw_singles(f, key, first + (uint64_t)(done / 4), numbers, count);
        if (f == loops_get()->uniform) cut_uniform(dtype, numbers, count);
        dtype_gather(dtype, out + done, GW_F32, numbers, 1, count);
    }
}

// ---- f64 ----------------------------------------------------------------------------------------
// Two words as a number in [0, 1) of 53 bits.
static double wide(const uint32_t *words) {
    return (double)(((uint64_t)words[0] << 32 | words[1]) >> 11) * 0x1p-53;
}

static void uniform_pair(const uint32_t words[4], double out[2]) {
    out[0] = wide(words);
    out[1] = wide(words + 2);
}

static void normal_pair_of(const uint32_t words[4], double out[2]) {
    normal_pair(wide(words) + 0x1p-53, wide(words + 2), &out[0], &out[1]);
}

typedef void draw_pair(const uint32_t words[4], double out[2]);

static void draw_doubles(draw_pair *pair_of, uint64_t key, uint64_t first, double *out, int64_t n) {
    for (int64_t i = 0; i < n; i += 2) {
        uint32_t words[4];
        double pair[2];
        philox(key, first + (uint64_t)(i / 2), words);
        pair_of(words, pair);
        out[i] = pair[0];
        if (i + 1 < n) out[i + 1] = pair[1];
    }
}

// ---- All ----------------------------------------------------------------------------------------
static uint64_t take_blocks(generator *g, gw_dtype dtype, int64_t n) {
    int64_t each = dtype == GW_F64 ? 2 : 4;
    return generator_take(g, (uint64_t)(n / each + (n % each != 0)));
}

static void draw(draw_f32 *f, draw_pair *pair, generator *g, gw_dtype dtype, void *out, int64_t n) {
    uint64_t first = take_blocks(g, dtype, n);
    switch (dtype) {
    case GW_F32: draw_singles(f, g->key, first, out, n); return;
    case GW_F64: draw_doubles(pair, g->key, first, out, n); return;
    default: draw_halves(f, g->key, first, dtype, out, n);
    }
}

void draw_uniform(generator *g, gw_dtype dtype, void *out, int64_t n) {
    draw(loops_get()->uniform, uniform_pair, g, dtype, out, n);
}

void draw_normal(generator *g, gw_dtype dtype, void *out, int64_t n) {
    draw(loops_get()->normal, normal_pair_of, g, dtype, out, n);
}

// ---- Integers -----------------------------------------------------------------------------------
// The upper half of a product: all of |range| without the bias of a remainder.
static int64_t int_of(const uint32_t *words, int64_t low, uint64_t range) {
    uint64_t word = (uint64_t)words[0] << 32 | words[1];
    __extension__ typedef unsigned __int128 wide_uint;
    uint64_t part = range ? (uint64_t)((wide_uint)word * range >> 64) : word;
    return (int64_t)((uint64_t)low + part);
}

void draw_ints(generator *g, int64_t low, uint64_t range, int64_t *out, int64_t n) {
    uint64_t first = generator_take(g, (uint64_t)(n / 2 + n % 2));
    for (int64_t i = 0; i < n; i += 2) {
        uint32_t words[4];
        philox(g->key, first + (uint64_t)(i / 2), words);
        out[i] = int_of(words, low, range);
        if (i + 1 < n) out[i + 1] = int_of(words + 2, low, range);
    }
}
