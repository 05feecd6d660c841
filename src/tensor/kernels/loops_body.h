// All loops, for the CPU that the including file compiles for. Defines the table
// |LOOPS|.
//
// Each is a macro's instance for a type: x and y are the numbers in |value|.
#include "tensor/kernels/draw_body.h"
#include "tensor/kernels/loops_math.h"

#define UNARY(name, type, type_name, value)                                                        \
    static void loop_##name##_##type_name(const ew_row *r) {                                       \
        type *restrict out = r->out;                                                               \
        const type *restrict a = r->in[0];                                                         \
        int64_t n = r->n;                                                                          \
        for (int64_t i = 0; i < n; i++) {                                                          \
            type x = a[i];                                                                         \
            out[i] = (type)(value);                                                                \
        }                                                                                          \
    }

// The same with a result that is no number of that type.
#define PREDICATE(name, type, type_name, value)                                                    \
    static void loop_##name##_##type_name(const ew_row *r) {                                       \
        uint8_t *restrict out = r->out;                                                            \
        const type *restrict a = r->in[0];                                                         \
        int64_t n = r->n;                                                                          \
        for (int64_t i = 0; i < n; i++) {                                                          \
            type x = a[i];                                                                         \
            out[i] = (value);                                                                      \
        }                                                                                          \
    }

#define BINARY(name, type, type_name, out_type, value)                                             \
    static void loop_##name##_##type_name(const ew_row *r) {                                       \
        out_type *restrict out = r->out;                                                           \
        const type *restrict a = r->in[0], *restrict b = r->in[1];                                 \
        int64_t n = r->n;                                                                          \
        if (!r->step[0]) {                                                                         \
            type x = *a;                                                                           \
            for (int64_t i = 0; i < n; i++) {                                                      \
                type y = b[i];                                                                     \
                out[i] = (out_type)(value);                                                        \
            }                                                                                      \
        } else if (!r->step[1]) {                                                                  \
            type y = *b;                                                                           \
            for (int64_t i = 0; i < n; i++) {                                                      \
                type x = a[i];                                                                     \
                out[i] = (out_type)(value);                                                        \
            }                                                                                      \
        } else {                                                                                   \
            for (int64_t i = 0; i < n; i++) {                                                      \
                type x = a[i], y = b[i];                                                           \
                out[i] = (out_type)(value);                                                        \
            }                                                                                      \
        }                                                                                          \
    }

#define UNARY_FLOATS(name, value_f32, value_f64)                                                   \
    UNARY(name, float, f32, value_f32)                                                             \
    UNARY(name, double, f64, value_f64)
#define UNARY_ALL(name, value)                                                                     \
    UNARY_FLOATS(name, value, value)                                                               \
    UNARY(name, int64_t, i64, value)                                                               \
    UNARY(name, int32_t, i32, value)
#define BINARY_FLOATS(name, value_f32, value_f64)                                                  \
    BINARY(name, float, f32, float, value_f32)                                                     \
    BINARY(name, double, f64, double, value_f64)
#define BINARY_ALL(name, value)                                                                    \
    BINARY_FLOATS(name, value, value)                                                              \
    BINARY(name, int64_t, i64, int64_t, value)                                                     \
    BINARY(name, int32_t, i32, int32_t, value)
// Integers wrap around, which C promises only for unsigned ones.
#define BINARY_WRAPPING(name, value)                                                               \
    BINARY_FLOATS(name, value, value)                                                              \
    BINARY(name, uint64_t, i64, uint64_t, value)                                                   \
    BINARY(name, uint32_t, i32, uint32_t, value)
#define COMPARISON(name, value)                                                                    \
    BINARY(name, float, f32, uint8_t, value)                                                       \
    BINARY(name, double, f64, uint8_t, value)                                                      \
    BINARY(name, int64_t, i64, uint8_t, value)                                                     \
    BINARY(name, int32_t, i32, uint8_t, value)

// ---- Two operands -------------------------------------------------------------------------------
LOOPS_INLINE uint64_t pow_u64(uint64_t x, int64_t y) {
    if (y < 0) return x == 1 ? 1 : x == UINT64_MAX ? (y & 1 ? x : 1) : 0;
    uint64_t result = 1;
    for (; y; y >>= 1, x *= x)
        if (y & 1) result *= x;
    return result;
}

LOOPS_INLINE int32_t pow_i32(int32_t x, int32_t y) {
    return (int32_t)(uint32_t)pow_u64((uint64_t)(int64_t)x, y);
}

BINARY_WRAPPING(add, x + y)
BINARY_WRAPPING(sub, x - y)
BINARY_WRAPPING(mul, (x * y))
BINARY_FLOATS(div, x / y, x / y)
BINARY_FLOATS(pow, powf(x, y), pow(x, y))
BINARY(pow, int64_t, i64, int64_t, (pow_u64((uint64_t)x, y)))
BINARY(pow, int32_t, i32, int32_t, (pow_i32(x, y)))
BINARY_ALL(maximum, x > y || x != x ? x : y)  // NaN if one is
BINARY_ALL(minimum, x < y || x != x ? x : y)

// The sign is the divisor's, as in Python.
#define REMAINDER_FLOAT(name, type, fmod_of)                                                       \
    LOOPS_INLINE type remainder_##name(type x, type y) {                                           \
        type r = fmod_of(x, y);                                                                    \
        return r != 0 && (r < 0) != (y < 0) ? r + y : r;                                           \
    }
REMAINDER_FLOAT(f32, float, fmodf)
REMAINDER_FLOAT(f64, double, fmod)

// By 0 is refused before; by -1 the least integer has no quotient.
#define REMAINDER_INT(name, type)                                                                  \
    LOOPS_INLINE type remainder_##name(type x, type y) {                                           \
        type r = y == 0 || y == -1 ? 0 : x % y;                                                    \
        return r != 0 && (r < 0) != (y < 0) ? r + y : r;                                           \
    }
REMAINDER_INT(i64, int64_t)
REMAINDER_INT(i32, int32_t)
BINARY_FLOATS(remainder, remainder_f32(x, y), remainder_f64(x, y))
BINARY(remainder, int64_t, i64, int64_t, (remainder_i64(x, y)))
BINARY(remainder, int32_t, i32, int32_t, (remainder_i32(x, y)))

#define BITWISE(name, value)                                                                       \
    BINARY(name, uint64_t, i64, uint64_t, value)                                                   \
    BINARY(name, uint32_t, i32, uint32_t, value)
BITWISE(bitwise_and, x &y)
BITWISE(bitwise_or, x | y)
BITWISE(bitwise_xor, x ^ y)
COMPARISON(eq, x == y)
COMPARISON(ne, x != y)
COMPARISON(lt, x < y)
COMPARISON(le, x <= y)
COMPARISON(logical_and, (x != 0) & (y != 0))
COMPARISON(logical_or, (x != 0) | (y != 0))
COMPARISON(logical_xor, (x != 0) != (y != 0))

#define WHERE(type, type_name)                                                                     \
    static void loop_where_##type_name(const ew_row *r) {                                          \
        type *restrict out = r->out;                                                               \
        const uint8_t *restrict c = r->in[0];                                                      \
        const type *restrict a = r->in[1], *restrict b = r->in[2];                                 \
        int64_t n = r->n;                                                                          \
        if (r->step[1] && r->step[2]) {                                                            \
            for (int64_t i = 0; i < n; i++) {                                                      \
                type x = a[i], y = b[i];                                                           \
                out[i] = c[i] ? x : y;                                                             \
            }                                                                                      \
        } else if (r->step[1]) {                                                                   \
            type y = *b;                                                                           \
            for (int64_t i = 0; i < n; i++) {                                                      \
                type x = a[i];                                                                     \
                out[i] = c[i] ? x : y;                                                             \
            }                                                                                      \
        } else if (r->step[2]) {                                                                   \
            type x = *a;                                                                           \
            for (int64_t i = 0; i < n; i++) {                                                      \
                type y = b[i];                                                                     \
                out[i] = c[i] ? x : y;                                                             \
            }                                                                                      \
        } else {                                                                                   \
            type x = *a, y = *b;                                                                   \
            for (int64_t i = 0; i < n; i++) out[i] = c[i] ? x : y;                                 \
        }                                                                                          \
    }
WHERE(float, f32)
WHERE(double, f64)
WHERE(int64_t, i64)
WHERE(int32_t, i32)

// ---- One number at a time -----------------------------------------------------------------------
UNARY_FLOATS(neg, -x, -x)
UNARY(neg, uint64_t, i64, 0 - x)
UNARY(neg, uint32_t, i32, 0 - x)
UNARY_FLOATS(abs, fabsf(x), fabs(x))
UNARY(abs, uint64_t, i64, x >> 63 ? 0 - x : x)
UNARY(abs, uint32_t, i32, x >> 31 ? 0 - x : x)
UNARY_ALL(relu, x < 0 ? 0 : x)
UNARY(bitwise_not, uint64_t, i64, ~x)
UNARY(bitwise_not, uint32_t, i32, ~x)
UNARY_FLOATS(square, x *x, x *x)
UNARY(square, uint64_t, i64, (x * x))
UNARY(square, uint32_t, i32, (x * x))
UNARY_FLOATS(cube, x *x *x, x *x *x)
UNARY(cube, uint64_t, i64, (x * x * x))
UNARY(cube, uint32_t, i32, (x * x * x))
UNARY_FLOATS(reciprocal, 1 / x, 1 / x)
UNARY_FLOATS(exp, exp_f32(x), exp_f64(x))
UNARY_FLOATS(log, log_f32(x), log_f64(x))
UNARY_FLOATS(sqrt, sqrtf(x), sqrt(x))
UNARY_FLOATS(rsqrt, 1 / sqrtf(x), 1 / sqrt(x))
UNARY_FLOATS(tanh, tanh_f32(x), tanh_f64(x))
UNARY_FLOATS(sigmoid, sigmoid_f32(x), sigmoid_f64(x))
UNARY_FLOATS(gelu, gelu_f32(x), gelu_f64(x))
UNARY_FLOATS(silu, x *sigmoid_f32(x), x *sigmoid_f64(x))
UNARY_FLOATS(floor, floorf(x), floor(x))
UNARY_FLOATS(ceil, ceilf(x), ceil(x))
UNARY_FLOATS(round, rintf(x), rint(x))
UNARY_FLOATS(trunc, truncf(x), trunc(x))
UNARY_FLOATS(sin, sinf(x), sin(x))
UNARY_FLOATS(cos, cosf(x), cos(x))
PREDICATE(isfinite, float, f32, fabsf(x) < INFINITY)
PREDICATE(isfinite, double, f64, fabs(x) < (double)INFINITY)
PREDICATE(isnan, float, f32, x != x)
PREDICATE(isnan, double, f64, x != x)
PREDICATE(isinf, float, f32, fabsf(x) == INFINITY)
PREDICATE(isinf, double, f64, fabs(x) == (double)INFINITY)

// With numbers of the operator's own, u and v.
#define WITH_REALS(name, type, type_name, value)                                                   \
    static void loop_##name##_##type_name(const ew_row *r) {                                       \
        type *restrict out = r->out;                                                               \
        const type *restrict a = r->in[0];                                                         \
        const type u = (type)r->reals[0], v = (type)r->reals[1];                                   \
        int64_t n = r->n;                                                                          \
        (void)v;                                                                                   \
        for (int64_t i = 0; i < n; i++) {                                                          \
            type x = a[i];                                                                         \
            out[i] = (value);                                                                      \
        }                                                                                          \
    }
#define D_WITH_REALS(name, type, type_name, value)                                                 \
    static void loop_##name##_##type_name(const ew_row *r) {                                       \
        type *restrict out = r->out;                                                               \
        const type *restrict a = r->in[0], *restrict b = r->in[1];                                 \
        const type u = (type)r->reals[0], v = (type)r->reals[1];                                   \
        int64_t n = r->n, da = r->step[0], db = r->step[1];                                        \
        (void)v;                                                                                   \
        if (da && db) {                                                                            \
            for (int64_t i = 0; i < n; i++) {                                                      \
                type x = a[i], y = b[i];                                                           \
                out[i] = (value);                                                                  \
            }                                                                                      \
            return;                                                                                \
        }                                                                                          \
        for (int64_t i = 0; i < n; i++) {                                                          \
            type x = a[i * da], y = b[i * db];                                                     \
            out[i] = (value);                                                                      \
        }                                                                                          \
    }
WITH_REALS(leaky_relu, float, f32, x > 0 ? x : x * u)
WITH_REALS(leaky_relu, double, f64, x > 0 ? x : x * u)
WITH_REALS(clamp, float, f32, x > v || u > v ? v : x < u ? u : x)  // the upper bound wins
WITH_REALS(clamp, double, f64, x > v || u > v ? v : x < u ? u : x)

LOOPS_INLINE int64_t bound_i64(double x) {
    return x >= 0x1p63 ? INT64_MAX : x >= -0x1p63 ? (int64_t)x : INT64_MIN;
}

#define CLAMP_INTS(type, type_name, lowest, highest)                                               \
    LOOPS_INLINE type bound_of_##type_name(double x) {                                             \
        int64_t y = bound_i64(x);                                                                  \
        return (type)(y < (lowest) ? (lowest) : y > (highest) ? (highest) : y);                    \
    }                                                                                              \
    static void loop_clamp_##type_name(const ew_row *r) {                                          \
        type *restrict out = r->out;                                                               \
        const type *restrict a = r->in[0];                                                         \
        const type low = bound_of_##type_name(r->reals[0]);                                        \
        const type high = bound_of_##type_name(r->reals[1]);                                       \
        int64_t n = r->n;                                                                          \
        for (int64_t i = 0; i < n; i++) {                                                          \
            type x = a[i] < low ? low : a[i];                                                      \
            out[i] = x > high ? high : x;                                                          \
        }                                                                                          \
    }
CLAMP_INTS(int64_t, i64, INT64_MIN, INT64_MAX)
CLAMP_INTS(int32_t, i32, INT32_MIN, INT32_MAX)

// ---- Derivatives: x is the gradient, y the operator's argument or result ------------------------
#define D_BOTH(name, value) BINARY_FLOATS(name, value, value)
D_BOTH(d_abs, y > 0 ? x : y < 0 ? -x : 0)
D_BOTH(d_sqrt, x / (y + y))
BINARY_FLOATS(d_rsqrt, -0.5f * x * y * y * y, -0.5 * x * y * y * y)
D_BOTH(d_tanh, x *(1 - y * y))
D_BOTH(d_sigmoid, x *(1 - y) * y)
D_BOTH(d_relu, y <= 0 ? 0 : x)  // NaN lets it through
BINARY_FLOATS(d_gelu, x *gelu_slope_f32(y), x *gelu_slope_f64(y))

LOOPS_INLINE float silu_slope_f32(float x) {
    float s = sigmoid_f32(x);
    return s * (1 + x * (1 - s));
}
LOOPS_INLINE double silu_slope_f64(double x) {
    double s = sigmoid_f64(x);
    return s * (1 + x * (1 - s));
}
BINARY_FLOATS(d_silu, x *silu_slope_f32(y), x *silu_slope_f64(y))
D_WITH_REALS(d_leaky_relu, float, f32, y > 0 ? x : x * u)
D_WITH_REALS(d_leaky_relu, double, f64, y > 0 ? x : x * u)
D_WITH_REALS(d_clamp, float, f32, y >= u && y <= v ? x : 0)
D_WITH_REALS(d_clamp, double, f64, y >= u && y <= v ? x : 0)

#include "tensor/kernels/recurrent_loops.h"

// ---- Halves -------------------------------------------------------------------------------------
#define HALF(name, from, to)                                                                       \
    static void loop_##name(const from *restrict x, int64_t n, to *restrict out) {                 \
        for (int64_t i = 0; i < n; i++) out[i] = name(x[i]);                                       \
    }
HALF(f32_of_f16, uint16_t, float)
HALF(f32_of_bf16, uint16_t, float)
HALF(f16_of_f32, float, uint16_t)
HALF(bf16_of_f32, float, uint16_t)

#define OF_FLOATS(name)                                                                            \
    { loop_##name##_f32, loop_##name##_f64, NULL, NULL }
#define OF_INTS(name)                                                                              \
    { NULL, NULL, loop_##name##_i64, loop_##name##_i32 }
#define OF_ALL(name)                                                                               \
    { loop_##name##_f32, loop_##name##_f64, loop_##name##_i64, loop_##name##_i32 }

const loops LOOPS = {
    .at = {
        [LOOP_ADD] = OF_ALL(add),
        [LOOP_SUB] = OF_ALL(sub),
        [LOOP_MUL] = OF_ALL(mul),
        [LOOP_DIV] = OF_FLOATS(div),
        [LOOP_POW] = OF_ALL(pow),
        [LOOP_MAXIMUM] = OF_ALL(maximum),
        [LOOP_MINIMUM] = OF_ALL(minimum),
        [LOOP_REMAINDER] = OF_ALL(remainder),
        [LOOP_BITWISE_AND] = OF_INTS(bitwise_and),
        [LOOP_BITWISE_OR] = OF_INTS(bitwise_or),
        [LOOP_BITWISE_XOR] = OF_INTS(bitwise_xor),
        [LOOP_EQ] = OF_ALL(eq),
        [LOOP_NE] = OF_ALL(ne),
        [LOOP_LT] = OF_ALL(lt),
        [LOOP_LE] = OF_ALL(le),
        [LOOP_LOGICAL_AND] = OF_ALL(logical_and),
        [LOOP_LOGICAL_OR] = OF_ALL(logical_or),
        [LOOP_LOGICAL_XOR] = OF_ALL(logical_xor),
        [LOOP_WHERE] = OF_ALL(where),
        [LOOP_NEG] = OF_ALL(neg),
        [LOOP_ABS] = OF_ALL(abs),
        [LOOP_RELU] = OF_ALL(relu),
        [LOOP_CLAMP] = OF_ALL(clamp),
        [LOOP_BITWISE_NOT] = OF_INTS(bitwise_not),
        [LOOP_SQUARE] = OF_ALL(square),
        [LOOP_CUBE] = OF_ALL(cube),
        [LOOP_RECIPROCAL] = OF_FLOATS(reciprocal),
        [LOOP_EXP] = OF_FLOATS(exp),
        [LOOP_LOG] = OF_FLOATS(log),
        [LOOP_SQRT] = OF_FLOATS(sqrt),
        [LOOP_RSQRT] = OF_FLOATS(rsqrt),
        [LOOP_TANH] = OF_FLOATS(tanh),
        [LOOP_SIGMOID] = OF_FLOATS(sigmoid),
        [LOOP_LEAKY_RELU] = OF_FLOATS(leaky_relu),
        [LOOP_GELU] = OF_FLOATS(gelu),
        [LOOP_SILU] = OF_FLOATS(silu),
        [LOOP_FLOOR] = OF_FLOATS(floor),
        [LOOP_CEIL] = OF_FLOATS(ceil),
        [LOOP_ROUND] = OF_FLOATS(round),
        [LOOP_TRUNC] = OF_FLOATS(trunc),
        [LOOP_SIN] = OF_FLOATS(sin),
        [LOOP_COS] = OF_FLOATS(cos),
        [LOOP_ISFINITE] = OF_FLOATS(isfinite),
        [LOOP_ISNAN] = OF_FLOATS(isnan),
        [LOOP_ISINF] = OF_FLOATS(isinf),
        [LOOP_D_ABS] = OF_FLOATS(d_abs),
        [LOOP_D_SQRT] = OF_FLOATS(d_sqrt),
        [LOOP_D_RSQRT] = OF_FLOATS(d_rsqrt),
        [LOOP_D_TANH] = OF_FLOATS(d_tanh),
        [LOOP_D_SIGMOID] = OF_FLOATS(d_sigmoid),
        [LOOP_D_RELU] = OF_FLOATS(d_relu),
        [LOOP_D_LEAKY_RELU] = OF_FLOATS(d_leaky_relu),
        [LOOP_D_GELU] = OF_FLOATS(d_gelu),
        [LOOP_D_SILU] = OF_FLOATS(d_silu),
        [LOOP_D_CLAMP] = OF_FLOATS(d_clamp),
    },
    .uniform = uniform,
    .normal = normal,
    .lstm = { lstm_f32, lstm_f64 },
    .lstm_back = { lstm_back_f32, lstm_back_f64 },
    .gru = { gru_f32, gru_f64 },
    .gru_back = { gru_back_f32, gru_back_f64 },
    .f32_of_f16 = loop_f32_of_f16,
    .f32_of_bf16 = loop_f32_of_bf16,
    .f16_of_f32 = loop_f16_of_f32,
    .bf16_of_f32 = loop_bf16_of_f32,
};
