// Normal numbers from even ones, without branches and without the C library (see draw_body.h).
#ifndef TENSOR_KERNELS_DRAW_MATH_H
#define TENSOR_KERNELS_DRAW_MATH_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#define DRAW_INLINE static inline __attribute__((always_inline))

DRAW_INLINE double double_of_bits(uint64_t bits) {
    double x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

DRAW_INLINE uint64_t bits_of_double(double x) {
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

// word / 2^32: the word stands in the low bits of a number in [2^52, 2^53).
DRAW_INLINE double unit_of_word(uint32_t word) {
    return (double_of_bits(0x4330000000000000 | word) - 0x1p52) * 0x1p-32;
}

// ln x for 0 < x <= 1: the exponent's part, and 2 artanh((m - 1) / (m + 1)) of the rest, as a
// power series.
DRAW_INLINE double natural_log(double x) {
    uint64_t bits =
        bits_of_double(x) - 0x3fe6a09e667f3bcd;  // sqrt(1/2), so that m is in [sqrt(1/2), sqrt 2)
    double m = double_of_bits((bits & 0x000fffffffffffff) + 0x3fe6a09e667f3bcd);
    // The exponent, at most 0, shifted up into the low bits of 1.5 * 2^52 plus it.
    double e =
        double_of_bits(0x4338000000000000 - ((0 - bits + 0x000fffffffffffff) >> 52)) - 0x1.8p52;
    double s = (m - 1) / (m + 1), z = s * s;
    double sum = 1.0 / 21;
    sum = sum * z + 1.0 / 19;
    sum = sum * z + 1.0 / 17;
    sum = sum * z + 1.0 / 15;
    sum = sum * z + 1.0 / 13;
    sum = sum * z + 1.0 / 11;
    sum = sum * z + 1.0 / 9;
    sum = sum * z + 1.0 / 7;
    sum = sum * z + 1.0 / 5;
    sum = sum * z + 1.0 / 3;
    sum = sum * z + 1;
    return 2 * s * sum + e * M_LN2;
}

// Cosine and sine of 2 pi u, by their power series on an eighth of the circle.
DRAW_INLINE void cos_sin(double u, double *out_cos, double *out_sin) {
    double shifted = 4 * u + 0x1.8p52, quarters = shifted - 0x1.8p52;  // the nearest whole number
    uint64_t quarter = bits_of_double(shifted) & 3;
    double a = (4 * u - quarters) * M_PI_2, z = a * a;
    double c = 1.0 / 6402373705728000;  // 1 / 18!
    c = 1.0 / 20922789888000 - c * z;
    c = 1.0 / 87178291200 - c * z;
    c = 1.0 / 479001600 - c * z;
    c = 1.0 / 3628800 - c * z;
    c = 1.0 / 40320 - c * z;
    c = 1.0 / 720 - c * z;
    c = 1.0 / 24 - c * z;
    c = 1.0 / 2 - c * z;
    c = 1 - c * z;
    double s = 1.0 / 355687428096000;  // 1 / 17!
    s = 1.0 / 1307674368000 - s * z;
    s = 1.0 / 6227020800 - s * z;
    s = 1.0 / 39916800 - s * z;
    s = 1.0 / 362880 - s * z;
    s = 1.0 / 5040 - s * z;
    s = 1.0 / 120 - s * z;
    s = 1.0 / 6 - s * z;
    s = a - s * z * a;
    double x = quarter & 1 ? s : c, y = quarter & 1 ? c : s;
    *out_cos = double_of_bits(bits_of_double(x) ^ ((quarter + 1) & 2) << 62);
    *out_sin = double_of_bits(bits_of_double(y) ^ (quarter & 2) << 62);
}

// Box and Muller (1958): two normal numbers from u in (0, 1] and v in [0, 1).
DRAW_INLINE void normal_pair(double u, double v, double *out_a, double *out_b) {
    double c, s, radius = sqrt(-2 * natural_log(u));
    cos_sin(v, &c, &s);
    *out_a = radius * c;
    *out_b = radius * s;
}

#endif
