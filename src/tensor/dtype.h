// Dtypes: sizes, half floats, conversions, and the dtype of a result of two operands (torch.result_type).
#ifndef TENSOR_DTYPE_H
#define TENSOR_DTYPE_H

#include "tensor/tensor.h"

#include <string.h>

static inline bool dtype_is_float(gw_dtype d) {
    return d <= GW_BF16;
}

// The dtype that arithmetic on |d| is done in: halves are computed in f32 and rounded once.
static inline gw_dtype dtype_compute(gw_dtype d) {
    return d == GW_F16 || d == GW_BF16 ? GW_F32 : d;
}

// The same, with i64 for integers and bools: the types of most kernels.
static inline gw_dtype dtype_compute_wide(gw_dtype d) {
    return dtype_is_float(d) ? dtype_compute(d) : GW_I64;
}

// |d|, or f32 if it is not a float: the result of exp or of a true division.
static inline gw_dtype dtype_to_float(gw_dtype d) {
    return dtype_is_float(d) ? d : GW_F32;
}

// The dtype both convert to without going down a kind: torch.promote_types.
gw_dtype dtype_promote(gw_dtype a, gw_dtype b);

// torch.result_type. Tensors with dimensions decide; scalars' tensors, and after them C's numbers,
// only raise the kind (bool < int < float).
typedef struct promotion {
    int dims, scalars, numbers;  // a gw_dtype, or -1 while there was none
} promotion;

static inline promotion promotion_start(void) {
    return (promotion){ -1, -1, -1 };
}
void promotion_add_tensor(promotion *p, const gw_tensor *x);
void promotion_add_number(promotion *p, gw_value v);  // bool, int or float
gw_dtype promotion_end(const promotion *p);

// ---- Single numbers -----------------------------------------------------------------------------
static inline float float_of_bits(uint32_t bits) {
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static inline uint32_t bits_of_float(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

// IEEE 754 binary16. Without branches on the value's class, so that loops over it vectorise.
static inline float f32_of_f16(uint16_t h) {
    uint32_t sign = (uint32_t)(h & 0x8000) << 16, rest = (uint32_t)(h & 0x7fff) << 13;
    // 2^112 moves the exponent's bias from 15 to 127, and makes subnormals normal.
    uint32_t finite = bits_of_float(float_of_bits(rest) * 0x1p112f);
    uint32_t special = rest | 0x7f800000;
    return float_of_bits(sign | ((h & 0x7c00) == 0x7c00 ? special : finite));
}

static inline uint16_t f16_of_f32(float x) {
    uint32_t bits = bits_of_float(x), sign = bits >> 16 & 0x8000, size = bits & 0x7fffffff;
    uint32_t rounded =
        (size - 0x38000000 + 0xfff + (size >> 13 & 1)) >> 13;  // to nearest, ties to even
    // Adding 0.5 lines a subnormal's last bit up with that of the sum, which the addition rounds
    // to.
    uint32_t subnormal = bits_of_float(float_of_bits(size) + 0.5f) - 0x3f000000;
    uint32_t special = size > 0x7f800000 ? 0x7e00 : 0x7c00;
    uint32_t h = size >= 0x477ff000 ? special : size < 0x38800000 ? subnormal : rounded;
    return (uint16_t)(sign | h);
}

static inline float f32_of_bf16(uint16_t h) {
    return float_of_bits((uint32_t)h << 16);
}

static inline uint16_t bf16_of_f32(float x) {
    uint32_t bits = bits_of_float(x);
    uint32_t rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
    return (uint16_t)((bits & 0x7fffffff) > 0x7f800000 ? 0x7fc0 : rounded);
}

// From a float to an int as x86 does it: out of range is the least value. Defined, unlike C's
// conversion.
static inline int64_t int_of_real(double x) {
    return x >= -0x1p63 && x < 0x1p63 ? (int64_t)x : INT64_MIN;
}

// One element at |p|, and back.
double dtype_read(gw_dtype d, const void *p);
int64_t dtype_read_int(gw_dtype d, const void *p);
void dtype_write(gw_dtype d, void *p, double x);
void dtype_write_int(gw_dtype d, void *p, int64_t x);
void dtype_write_value(gw_dtype d, void *p, gw_value v);  // of a bool, int or float

// ---- Rows of numbers ----------------------------------------------------------------------------
// Converts |n| elements that lie |in_stride| elements apart into ones that lie |out_stride| apart.
void dtype_convert(gw_dtype to, void *out, int64_t out_stride, gw_dtype from, const void *in,
                   int64_t in_stride, int64_t n);

// The same into contiguous ones.
static inline void dtype_gather(gw_dtype to, void *out, gw_dtype from, const void *in,
                                int64_t from_stride, int64_t n) {
    dtype_convert(to, out, 1, from, in, from_stride, n);
}

#endif
