// Functions of one f32, written without branches so that loops over them vectorise: right to a few
// units of the last bit (about 1e-7), for every input. The polynomials are minimax fits on the
// intervals that the comments name.
#ifndef TENSOR_KERNELS_LOOPS_MATH_H
#define TENSOR_KERNELS_LOOPS_MATH_H

#include "tensor/dtype.h"

#include <math.h>

#define LOOPS_INLINE static inline __attribute__((always_inline))

// 2^n for -126 <= n <= 127.
LOOPS_INLINE float power_of_two(int32_t n) {
    return float_of_bits((uint32_t)(n + 127) << 23);
}

// e^x = 2^n e^r with |r| <= ln 2 / 2.
LOOPS_INLINE float exp_f32(float x) {
    x = x < -104.0f ? -104.0f : x;  // below, e^x is 0; NaN stays
    x = x > 89.0f ? 89.0f : x;      // above, it is infinite
    // Adding 1.5 * 2^23 rounds to a whole number, which is then in the low bits.
    const float magic = 0x1.8p23f;
    float shifted = x * 1.44269504f + magic, n = shifted - magic;
    int32_t whole = (int32_t)(bits_of_float(shifted) - bits_of_float(magic));
    float r = x - n * 0.693359375f + n * 2.12194440e-4f;
    float p = 1.392625083e-3f;  // (e^r - 1 - r) / r^2
    p = p * r + 8.363232884e-3f;
    p = p * r + 4.166655421e-2f;
    p = p * r + 1.666657667e-1f;
    p = p * r + 0.5f;
    p = p * r * r + r + 1.0f;
    // In two steps, because 2^n itself may be out of range. A NaN has an n of any value.
    whole = whole < -160 ? -160 : whole > 160 ? 160 : whole;
    int32_t half = whole >> 1;
    return p * power_of_two(half) * power_of_two(whole - half);
}

// ln x = e ln 2 + ln m with m between sqrt(1/2) and sqrt(2).
LOOPS_INLINE float log_f32(float x) {
    bool small = x < 0x1p-126f;
    float scaled = small ? x * 0x1p23f : x;              // subnormals become normal
    uint32_t bits = bits_of_float(scaled) - 0x3f3504f3;  // sqrt(1/2)
    int32_t e = (int32_t)bits >> 23;
    float f = float_of_bits((bits & 0x007fffff) + 0x3f3504f3) - 1.0f;
    float exponent = (float)(e - (small ? 23 : 0));
    float p = 6.971611471e-2f;  // (ln(1 + f) - f + f^2 / 2) / f^3
    p = p * f - 1.147973385e-1f;
    p = p * f + 1.168541992e-1f;
    p = p * f - 1.242568733e-1f;
    p = p * f + 1.424905765e-1f;
    p = p * f - 1.666780232e-1f;
    p = p * f + 2.000071575e-1f;
    p = p * f - 2.499999696e-1f;
    p = p * f + 3.333333118e-1f;
    float square = f * f;
    float rest = f * square * p - 0.5f * square - exponent * 2.12194440e-4f;
    float y = f + rest + exponent * 0.693359375f;
    y = x == INFINITY ? INFINITY : y;
    y = x == 0 ? -INFINITY : y;
    return x >= 0 ? y : NAN;
}

LOOPS_INLINE float tanh_f32(float x) {
    float size = fabsf(x), z = x * x;
    float p = 2.292744816e-3f;  // (tanh x - x) / x^3 up to 0.625
    p = p * z - 8.343945516e-3f;
    p = p * z + 2.176891865e-2f;
    p = p * z - 5.395925958e-2f;
    p = p * z + 1.333330356e-1f;
    p = p * z - 3.333333317e-1f;
    float near = size + size * z * p;
    float far = 1.0f - 2.0f / (exp_f32(2.0f * size) + 1.0f);
    return copysignf(size < 0.625f ? near : far, x);
}

LOOPS_INLINE float sigmoid_f32(float x) {
    return 1.0f / (1.0f + exp_f32(-x));
}

// The part of a normal distribution that lies below x: erfc(-x / sqrt 2) / 2.
LOOPS_INLINE float normal_below_f32(float x) {
    float t = fabsf(x) * 0.707106781f, z = t * t;
    float p = 7.875875063e-5f;  // erf(t) / t up to 1
    p = p * z - 8.016864287e-4f;
    p = p * z + 5.189087423e-3f;
    p = p * z - 2.685421201e-2f;
    p = p * z + 1.128359472e-1f;
    p = p * z - 3.761262667e-1f;
    p = p * z + 1.128379166e+0f;
    float near = 0.5f - 0.5f * t * p;
    float u = t > 6.0f ? 6.0f : t;
    float q = -8.448064074e-8f;  // ln erfc(u) from 1 to 6
    q = q * u + 3.374886819e-6f;
    q = q * u - 6.112739674e-5f;
    q = q * u + 6.680301732e-4f;
    q = q * u - 4.956649740e-3f;
    q = q * u + 2.673484460e-2f;
    q = q * u - 1.103252258e-1f;
    q = q * u - 6.318133053e-1f;
    q = q * u - 1.130125768e+0f;
    q = q * u + 2.703459411e-4f;
    float far = t > 6.0f ? 0.0f : 0.5f * exp_f32(q);
    float above = t < 1.0f ? near : far;  // beyond |x|
    above = t == t ? above : t;
    return x < 0 ? above : 1.0f - above;
}

LOOPS_INLINE float gelu_f32(float x) {
    return x * normal_below_f32(x);
}

LOOPS_INLINE float gelu_slope_f32(float x) {
    return normal_below_f32(x) + x * 0.398942280f * exp_f32(-0.5f * x * x);
}

// The same in double, by the C library.
LOOPS_INLINE double exp_f64(double x) {
    return exp(x);
}
LOOPS_INLINE double log_f64(double x) {
    return log(x);
}
LOOPS_INLINE double tanh_f64(double x) {
    return tanh(x);
}
LOOPS_INLINE double sigmoid_f64(double x) {
    return 1 / (1 + exp(-x));
}
LOOPS_INLINE double gelu_f64(double x) {
    return x * 0.5 * erfc(-x * M_SQRT1_2);
}
LOOPS_INLINE double gelu_slope_f64(double x) {
    return 0.5 * erfc(-x * M_SQRT1_2) + x * 0.3989422804014327 * exp(-0.5 * x * x);
}

#endif
