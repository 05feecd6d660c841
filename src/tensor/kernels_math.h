// Functions of vectors, to the last bit or two, for every input: infinities, NaN and numbers too small to be normal.
#ifndef TENSOR_KERNELS_MATH_H
#define TENSOR_KERNELS_MATH_H

#include "tensor/kernels_lanes.h"

#include <math.h>

// out = a where |mask| is all ones, b where it is 0.
LANES_INLINE void select_f32s(const i32s *mask, const f32s *a, const f32s *b, f32s *out) {
    *out = (f32s)((*mask & (i32s)*a) | (~*mask & (i32s)*b));
}

// e^x, by 2^n times a polynomial on [-ln 2 / 2, ln 2 / 2] (Cephes, Moshier 1989).
LANES_INLINE void exp_f32(f32s *x) {
    const f32s zero = { 0 }, low = zero - 104.0f, high = zero + 89.0f;
    i32s too_low = (i32s)(*x < low), too_high = (i32s)(*x > high);
    f32s v;
    select_f32s(&too_low, &low, x, &v);
    select_f32s(&too_high, &high, &v, &v);

    // Adding 1.5 * 2^23 rounds to a whole number, which is then in the low bits.
    const f32s magic = zero + 12582912.0f;
    f32s shifted = v * 1.44269504f + magic, n = shifted - magic;
    i32s whole = (i32s)shifted - (i32s)magic;
    f32s r = v - n * 0.693359375f + n * 2.12194440e-4f;
    f32s p = r * 1.9875691500e-4f + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * r * r + r + 1.0f;

    // In two steps, because 2^n itself may be out of range.
    i32s half = whole >> 1, rest = whole - half;
    *x = p * (f32s)((half + 127) << 23) * (f32s)((rest + 127) << 23);
}

LANES_INLINE void exp_f64(f64s *x) {
    double lanes[LANES_BYTES / sizeof(double)];
    memcpy(lanes, x, sizeof lanes);
    for (size_t i = 0; i < LANES_BYTES / sizeof(double); i++) lanes[i] = exp(lanes[i]);
    memcpy(x, lanes, sizeof lanes);
}

#endif
