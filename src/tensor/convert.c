// dtype_convert: every dtype to every other, as loops that the compiler vectorises.
#include "tensor/kernels/loops.h"

typedef uint16_t f16_bits;
typedef uint16_t bf16_bits;

// The value of an element of one dtype: a double where one is exact for all, an int64_t for
// integers.
static inline float load_f32(float x) {
    return x;
}
static inline double load_f64(double x) {
    return x;
}
static inline float load_f16(uint16_t x) {
    return f32_of_f16(x);
}
static inline float load_bf16(uint16_t x) {
    return f32_of_bf16(x);
}
static inline int64_t load_i64(int64_t x) {
    return x;
}
static inline int32_t load_i32(int32_t x) {
    return x;
}
static inline int32_t load_i16(int16_t x) {
    return x;
}
static inline int32_t load_i8(int8_t x) {
    return x;
}
static inline int32_t load_u8(uint8_t x) {
    return x;
}
static inline int32_t load_b8(uint8_t x) {
    return x != 0;
}

#define INT_OF(x) _Generic((x), float : int_of_real, double : int_of_real, default : as_int)(x)
static inline int64_t as_int(int64_t x) {
    return x;
}

#define STORE_f32(x) ((float)(x))
#define STORE_f64(x) ((double)(x))
#define STORE_f16(x) f16_of_f32((float)(x))
#define STORE_bf16(x) bf16_of_f32((float)(x))
#define STORE_i64(x) INT_OF(x)
#define STORE_i32(x) ((int32_t)INT_OF(x))
#define STORE_i16(x) ((int16_t)INT_OF(x))
#define STORE_i8(x) ((int8_t)INT_OF(x))
#define STORE_u8(x) ((uint8_t)INT_OF(x))
#define STORE_b8(x) ((uint8_t)((x) != 0))

typedef void convert(void *out, int64_t out_stride, const void *in, int64_t in_stride, int64_t n);

#define CONVERT(to, to_type, from, from_type)                                                      \
    static void to##_of_##from##_row(void *out, int64_t out_stride, const void *in,                \
                                     int64_t in_stride, int64_t n) {                               \
        to_type *restrict o = out;                                                                 \
        const from_type *restrict x = in;                                                          \
        if (out_stride == 1 && in_stride == 1) {                                                   \
            for (int64_t i = 0; i < n; i++) o[i] = STORE_##to(load_##from(x[i]));                  \
        } else {                                                                                   \
            for (int64_t i = 0; i < n; i++)                                                        \
                o[i * out_stride] = STORE_##to(load_##from(x[i * in_stride]));                     \
        }                                                                                          \
    }
#define CONVERT_TO(to, to_type)                                                                    \
    CONVERT(to, to_type, f32, float)                                                               \
    CONVERT(to, to_type, f64, double)                                                              \
    CONVERT(to, to_type, f16, f16_bits)                                                            \
    CONVERT(to, to_type, bf16, bf16_bits)                                                          \
    CONVERT(to, to_type, i64, int64_t)                                                             \
    CONVERT(to, to_type, i32, int32_t)                                                             \
    CONVERT(to, to_type, i16, int16_t)                                                             \
    CONVERT(to, to_type, i8, int8_t)                                                               \
    CONVERT(to, to_type, u8, uint8_t)                                                              \
    CONVERT(to, to_type, b8, uint8_t)
CONVERT_TO(f32, float)
CONVERT_TO(f64, double)
CONVERT_TO(f16, f16_bits)
CONVERT_TO(bf16, bf16_bits)
CONVERT_TO(i64, int64_t)
CONVERT_TO(i32, int32_t)
CONVERT_TO(i16, int16_t)
CONVERT_TO(i8, int8_t)
CONVERT_TO(u8, uint8_t)
CONVERT_TO(b8, uint8_t)

#define ROW(to)                                                                                    \
    {                                                                                              \
        [GW_F32] = to##_of_f32_row, [GW_F64] = to##_of_f64_row, [GW_F16] = to##_of_f16_row,        \
        [GW_BF16] = to##_of_bf16_row, [GW_I64] = to##_of_i64_row, [GW_I32] = to##_of_i32_row,      \
        [GW_I16] = to##_of_i16_row, [GW_I8] = to##_of_i8_row, [GW_U8] = to##_of_u8_row,            \
        [GW_BOOL8] = to##_of_b8_row,                                                               \
    }
static convert *const rows[GW_DTYPE_COUNT][GW_DTYPE_COUNT] = {
    [GW_F32] = ROW(f32), [GW_F64] = ROW(f64),  [GW_F16] = ROW(f16), [GW_BF16] = ROW(bf16),
    [GW_I64] = ROW(i64), [GW_I32] = ROW(i32),  [GW_I16] = ROW(i16), [GW_I8] = ROW(i8),
    [GW_U8] = ROW(u8),   [GW_BOOL8] = ROW(b8),
};

// Halves to the dtype of the computation, and back, by the loops for this CPU. False for other dtypes.
static bool convert_half(gw_dtype to, void *out, gw_dtype from, const void *in, int64_t n) {
    const loops *l = loops_get();
    if (to == GW_F32 && from == GW_F16) {
        l->f32_of_f16(in, n, out);
    } else if (to == GW_F32 && from == GW_BF16) {
        l->f32_of_bf16(in, n, out);
    } else if (to == GW_F16 && from == GW_F32) {
        l->f16_of_f32(in, n, out);
    } else if (to == GW_BF16 && from == GW_F32) {
        l->bf16_of_f32(in, n, out);
    } else {
        return false;
    }
    return true;
}

void dtype_convert(gw_dtype to, void *out, int64_t out_stride, gw_dtype from, const void *in,
                   int64_t in_stride, int64_t n) {
    bool packed = out_stride == 1 && in_stride == 1;
    if (packed && to == from) {
        memcpy(out, in, (size_t)n * gw_dtype_size(to));
    } else if (!packed || !convert_half(to, out, from, in, n)) {
        rows[to][from](out, out_stride, in, in_stride, n);
    }
}
