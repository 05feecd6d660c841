#include "tensor/draw.h"

#include <math.h>

// Everything here is made of additions, multiplications, divisions and square roots, which all machines round alike, so
// that a seed means the same numbers everywhere. The C library's log and cos differ from version to version.

static int64_t per_block(gw_dtype dtype) {
    return dtype == GW_F64 ? 2 : 4;
}

// Two words as a number in [0, 1) of 53 bits.
static double wide(const uint32_t *words) {
    return (double)(((uint64_t)words[0] << 32 | words[1]) >> 11) * 0x1p-53;
}

static void uniform_block(gw_dtype dtype, const uint32_t words[4], double out[4]) {
    for (int i = 0; i < 4; i++) {
        switch (dtype) {
        case GW_F64: out[i] = wide(words + 2 * (i & 1)); break;
        case GW_F16: out[i] = (words[i] >> 21) * 0x1p-11; break;
        case GW_BF16: out[i] = (words[i] >> 24) * 0x1p-8; break;
        default: out[i] = (words[i] >> 8) * 0x1p-24;
        }
    }
}

// ln x for 0 < x <= 1: the exponent's part, and 2 artanh((m - 1) / (m + 1)) of the rest, as a series.
static double natural_log(double x) {
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    int e = (int)(bits >> 52) - 1023;
    bits = (bits & 0x000fffffffffffff) | 0x3ff0000000000000;
    double m;
    memcpy(&m, &bits, sizeof m);
    if (m > M_SQRT2) {
        m *= 0.5;
        e++;
    }
    double s = (m - 1) / (m + 1), z = s * s, sum = 0;
    for (int k = 21; k >= 1; k -= 2) sum = sum * z + 1.0 / k;
    return 2 * s * sum + e * M_LN2;
}

// Cosine and sine of 2 pi u, by their series on an eighth of the circle.
static void cos_sin(double u, double *out_cos, double *out_sin) {
    double quarters = floor(4 * u + 0.5), a = (4 * u - quarters) * M_PI_2, z = a * a;
    double c = 0, s = 0;
    for (int k = 18; k >= 2; k -= 2) {
        c = (1 + c) * -z / ((k - 1) * k);
        s = (1 + s) * -z / (k * (k + 1));
    }
    c = 1 + c;
    s = a * (1 + s);
    switch ((int)quarters & 3) {
    case 0: *out_cos = c, *out_sin = s; break;
    case 1: *out_cos = -s, *out_sin = c; break;
    case 2: *out_cos = -c, *out_sin = -s; break;
    default: *out_cos = s, *out_sin = -c;
    }
}

// Box and Muller (1958): two normal numbers from u in (0, 1] and v in [0, 1).
static void normal_pair(double u, double v, double out[2]) {
    double c, s, radius = sqrt(-2 * natural_log(u));
    cos_sin(v, &c, &s);
    out[0] = radius * c;
    out[1] = radius * s;
}

static void normal_block(gw_dtype dtype, const uint32_t words[4], double out[4]) {
    if (dtype == GW_F64) {
        normal_pair(wide(words) + 0x1p-53, wide(words + 2), out);
    } else {
        normal_pair((words[0] + 1.0) * 0x1p-32, words[1] * 0x1p-32, out);
        normal_pair((words[2] + 1.0) * 0x1p-32, words[3] * 0x1p-32, out + 2);
    }
}

static void draw(generator *g, gw_dtype dtype, uint8_t *out, int64_t n,
                 void (*block_of)(gw_dtype dtype, const uint32_t words[4], double out[4])) {
    int64_t each = per_block(dtype);
    uint64_t counter = generator_take(g, (uint64_t)((n + each - 1) / each));
    size_t size = gw_dtype_size(dtype);
    for (int64_t i = 0; i < n; i += each) {
        uint32_t words[4];
        double numbers[4];
        philox(g->key, counter++, words);
        block_of(dtype, words, numbers);
        dtype_gather(dtype, out + (size_t)i * size, GW_F64, numbers, 1,
                     n - i < each ? n - i : each);
    }
}

void draw_uniform(generator *g, gw_dtype dtype, void *out, int64_t n) {
    draw(g, dtype, out, n, uniform_block);
}

void draw_normal(generator *g, gw_dtype dtype, void *out, int64_t n) {
    draw(g, dtype, out, n, normal_block);
}
