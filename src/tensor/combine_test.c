#include "tensor/combine.h"

#include "tensor/dtype.h"
#include "testing/testing.h"

#include <math.h>
#include <string.h>

enum { VECTORS = 33, NUMBERS = 2 * 4096 + 77, SIZE_MAX_BYTES = 8 };

static const gw_dtype dtypes[] = { GW_F32, GW_F64, GW_F16, GW_BF16, GW_I64,
                                   GW_I32, GW_I16, GW_I8,  GW_U8,   GW_BOOL8 };
enum { DTYPES = sizeof dtypes / sizeof *dtypes };

typedef struct vectors {
    gw_dtype dtype;
    _Alignas(64) uint8_t bytes[VECTORS][NUMBERS * SIZE_MAX_BYTES];
    const void *at[VECTORS];
} vectors;

static vectors some, partial;

// Numbers of very different sizes, so that every order of addition gives other bits.
static void fill(vectors *v, gw_dtype dtype, uint32_t seed) {
    v->dtype = dtype;
    size_t size = gw_dtype_size(dtype);
    for (int i = 0; i < VECTORS; i++) {
        v->at[i] = v->bytes[i];
        for (int k = 0; k < NUMBERS; k++) {
            seed = seed * 1664525 + 1013904223;
            double x = ldexp((double)(seed >> 8) / (1 << 24) - 0.5, (int)(seed % 13) - 3);
            if (dtype_is_float(dtype))
                dtype_write(dtype, v->bytes[i] + (size_t)k * size, x);
            else
                dtype_write_int(dtype, v->bytes[i] + (size_t)k * size,
                                dtype == GW_BOOL8 ? seed >> 31 : (int64_t)seed << (seed & 31));
        }
    }
}

// ---- The definition, one number at a time -------------------------------------------------------
typedef union number {
    float f;
    double d;
    int64_t i;
} number;

typedef enum arithmetic { AS_FLOAT, AS_DOUBLE, AS_INT } arithmetic;

static arithmetic arithmetic_of(gw_dtype d) {
    return d == GW_F64 ? AS_DOUBLE : dtype_is_float(d) ? AS_FLOAT : AS_INT;
}

static number read_number(gw_dtype d, const void *p) {
    number x = { .i = 0 };
    switch (arithmetic_of(d)) {
    case AS_FLOAT: x.f = (float)dtype_read(d, p); break;
    case AS_DOUBLE: x.d = dtype_read(d, p); break;
    case AS_INT: x.i = dtype_read_int(d, p);
    }
    return x;
}

static void write_number(gw_dtype d, void *p, number x) {
    switch (arithmetic_of(d)) {
    case AS_FLOAT: dtype_write(d, p, x.f); break;
    case AS_DOUBLE: dtype_write(d, p, x.d); break;
    case AS_INT: dtype_write_int(d, p, d == GW_BOOL8 ? x.i != 0 : x.i);
    }
}

#define REAL(a, b)                                                                                 \
    (op == COMBINE_PRODUCT ? (a) * (b)                                                             \
     : op == COMBINE_MIN   ? ((a) < (b) || isnan(a) ? (a) : (b))                                   \
     : op == COMBINE_MAX   ? ((a) > (b) || isnan(a) ? (a) : (b))                                   \
                           : (a) + (b))

static number join(combine_op op, arithmetic as, number a, number b) {
    if (as == AS_FLOAT) return (number){ .f = REAL(a.f, b.f) };
    if (as == AS_DOUBLE) return (number){ .d = REAL(a.d, b.d) };
    uint64_t x = (uint64_t)a.i, y = (uint64_t)b.i;
    switch (op) {
    case COMBINE_PRODUCT: return (number){ .i = (int64_t)(x * y) };
    case COMBINE_MIN: return a.i < b.i ? a : b;
    case COMBINE_MAX: return a.i > b.i ? a : b;
    case COMBINE_BAND: return (number){ .i = a.i & b.i };
    case COMBINE_BOR: return (number){ .i = a.i | b.i };
    case COMBINE_BXOR: return (number){ .i = a.i ^ b.i };
    default: return (number){ .i = (int64_t)(x + y) };
    }
}

// Element |k| of the result of |c|.
static number expected_number(const combine_request *c, uint64_t k) {
    number y[VECTORS];
    arithmetic as = arithmetic_of(c->dtype);
    int p = 1;
    while (2 * p <= c->count) p *= 2;
    for (int i = 0; i < c->count; i++) {
        y[i] = read_number(c->dtype, (const uint8_t *)c->from[i] + k * gw_dtype_size(c->dtype));
        if (as == AS_FLOAT) y[i].f *= (float)c->factor;
        if (as == AS_DOUBLE) y[i].d *= c->factor;
        if (as == AS_INT && c->dtype != GW_BOOL8)
            y[i].i = (int64_t)((uint64_t)y[i].i * (uint64_t)(int64_t)c->factor);
    }
    for (int i = 0; i + p < c->count; i++) y[i] = join(c->op, as, y[i], y[i + p]);
    for (int width = p / 2; width >= 1; width /= 2)
        for (int i = 0; i < width; i++) y[i] = join(c->op, as, y[2 * i], y[2 * i + 1]);
    if (c->op == COMBINE_AVG && as == AS_FLOAT) y[0].f /= (float)c->divisor;
    if (c->op == COMBINE_AVG && as == AS_DOUBLE) y[0].d /= c->divisor;
    return y[0];
}

static void assert_is_as_defined(const combine_request *c, const void *out) {
    size_t size = gw_dtype_size(c->dtype);
    for (uint64_t k = 0; k < c->numbers; k++) {
        uint64_t expected = 0, found = 0;
        write_number(c->dtype, &expected, expected_number(c, k));
        memcpy(&found, (const uint8_t *)out + k * size, size);
        if (expected != found &&
            !(dtype_is_float(c->dtype) && isnan(dtype_read(c->dtype, &found)) &&
              isnan(dtype_read(c->dtype, &expected))))
            fail_msg("op %d, %s, %d vectors: number %lu of %lu is %g, not %g", (int)c->op,
                     gw_dtype_name(c->dtype), c->count, (unsigned long)k, (unsigned long)c->numbers,
                     dtype_read(c->dtype, &found), dtype_read(c->dtype, &expected));
    }
}

static combine_request request_of(combine_op op, const vectors *v, int count, uint64_t numbers) {
    return (combine_request){ .op = op,
                              .dtype = v->dtype,
                              .count = count,
                              .from = v->at,
                              .numbers = numbers,
                              .factor = 1,
                              .divisor = count };
}

// ---- Tests --------------------------------------------------------------------------------------
static void every_operation_is_its_definition(void **state) {
    (void)state;
    static const int counts[] = { 1, 2, 3, 4, 5, 6, 7, 8, 9, 16, 17, 31, 32, 33 };
    static const uint64_t lengths[] = { 0, 1, 3, 511, 513, 1025 };
    _Alignas(64) uint8_t out[1025 * SIZE_MAX_BYTES];
    for (int d = 0; d < DTYPES; d++) {
        fill(&some, dtypes[d], (uint32_t)d + 1);
        for (combine_op op = COMBINE_SUM; op <= COMBINE_BXOR; op++) {
            if (!combine_is_supported(op, dtypes[d])) continue;
            for (size_t n = 0; n < sizeof counts / sizeof *counts; n++) {
                for (size_t l = n % 3; l < sizeof lengths / sizeof *lengths; l += 3) {
                    combine_request c = request_of(op, &some, counts[n], lengths[l]);
                    c.out = out;
                    combine(&c);
                    assert_is_as_defined(&c, out);
                }
            }
        }
    }
}

static void numbers_are_multiplied_first(void **state) {
    (void)state;
    static uint8_t out[600 * SIZE_MAX_BYTES];
    for (int d = 0; d < DTYPES; d++) {
        fill(&some, dtypes[d], (uint32_t)d + 50);
        combine_op op = dtypes[d] == GW_BOOL8 ? COMBINE_BXOR : COMBINE_SUM;
        for (int count = 1; count < 8; count++) {
            combine_request c = request_of(op, &some, count, 600);
            c.out = out;
            c.factor = dtype_is_float(dtypes[d]) ? 1.0 / 3 : 3;
            combine(&c);
            assert_is_as_defined(&c, out);
        }
    }
}

static void a_mean_is_a_true_quotient(void **state) {
    (void)state;
    // 3 times (1 / 3) is not 1 in every sum; 3 / 3 is.
    float x[] = { 1 }, y[] = { 1 }, z[] = { 1 }, out[] = { 0 };
    combine_request c = { .op = COMBINE_AVG,
                          .dtype = GW_F32,
                          .count = 3,
                          .from = (const void *[]){ x, y, z },
                          .out = out,
                          .numbers = 1,
                          .factor = 1,
                          .divisor = 3 };
    combine(&c);
    assert_true(out[0] == 1);
    // A divisor of its own: members that have ended do not count.
    c.divisor = 2;
    combine(&c);
    assert_true(out[0] == 1.5f);
}

static void nan_propagates(void **state) {
    (void)state;
    for (int at = 0; at < 5; at++) {
        float x[5] = { 1, 2, -3, 4, 5 }, out;
        const void *from[5];
        for (int i = 0; i < 5; i++) from[i] = &x[i];
        x[at] = NAN;
        combine_request c = {
            .dtype = GW_F32, .count = 5, .from = from, .out = &out, .numbers = 1, .factor = 1
        };
        c.op = COMBINE_MIN;
        combine(&c);
        assert_true(isnan(out));
        c.op = COMBINE_MAX;
        combine(&c);
        assert_true(isnan(out));
    }
}

static void bools_are_all_any_or_an_odd_count(void **state) {
    (void)state;
    // Any byte but 0 is true, as it may be received from elsewhere.
    uint8_t x[] = { 0, 1, 7, 2 }, y[] = { 0, 0, 1, 4 }, out[4];
    combine_request c = { .dtype = GW_BOOL8,
                          .count = 2,
                          .from = (const void *[]){ x, y },
                          .out = out,
                          .numbers = 4,
                          .factor = 1 };
    const combine_op ops[] = { COMBINE_BAND, COMBINE_MIN, COMBINE_BOR, COMBINE_MAX, COMBINE_BXOR };
    const uint8_t expected[][4] = {
        { 0, 0, 1, 1 }, { 0, 0, 1, 1 }, { 0, 1, 1, 1 }, { 0, 1, 1, 1 }, { 0, 1, 0, 0 }
    };
    for (int i = 0; i < 5; i++) {
        c.op = ops[i];
        combine(&c);
        assert_memory_equal(out, expected[i], 4);
    }
    assert_false(combine_is_supported(COMBINE_SUM, GW_BOOL8));
    assert_false(combine_is_supported(COMBINE_AVG, GW_I32));
    assert_false(combine_is_supported(COMBINE_BOR, GW_BF16));
    assert_true(combine_is_supported(COMBINE_AVG, GW_F16));
    assert_true(combine_is_supported(COMBINE_BXOR, GW_U8));
}

static void the_result_may_replace_a_vector(void **state) {
    (void)state;
    static _Alignas(64) uint8_t copy[NUMBERS * SIZE_MAX_BYTES], out[NUMBERS * SIZE_MAX_BYTES];
    for (int d = 0; d < DTYPES; d++) {
        for (int count = 1; count < 6; count++) {
            for (int at = 0; at < count; at++) {
                fill(&some, dtypes[d], 9);
                combine_request c = request_of(COMBINE_MAX, &some, count, NUMBERS);
                c.out = out;
                combine(&c);
                c.out = some.bytes[at];
                combine(&c);
                size_t bytes = NUMBERS * gw_dtype_size(dtypes[d]);
                memcpy(copy, some.bytes[at], bytes);
                assert_memory_equal(copy, out, bytes);
            }
        }
    }
}

static void cutting_the_work_changes_no_bit(void **state) {
    (void)state;
    static uint8_t whole[NUMBERS * SIZE_MAX_BYTES], parts[NUMBERS * SIZE_MAX_BYTES];
    for (int d = 0; d < 4; d++) {
        fill(&some, dtypes[d], 77);
        size_t size = gw_dtype_size(dtypes[d]);
        combine_request c = request_of(COMBINE_AVG, &some, 7, NUMBERS);
        c.out = whole;
        combine(&c);
        for (uint64_t at = 0, step = 1; at < NUMBERS; at += step, step = step * 3 + 1) {
            const void *from[7];
            for (int i = 0; i < 7; i++) from[i] = some.bytes[i] + at * size;
            combine_request part = c;
            part.from = from;
            part.out = parts + at * size;
            part.numbers = NUMBERS - at < step ? NUMBERS - at : step;
            combine(&part);
        }
        assert_memory_equal(whole, parts, NUMBERS * size);
    }
}

// Six vectors: those of the first four with their partners of the last two, then pairs.
static void partial_sums_give_the_bits_of_the_whole(void **state) {
    (void)state;
    enum { N = 700 };
    static _Alignas(64) uint8_t whole[N * SIZE_MAX_BYTES], out[N * SIZE_MAX_BYTES];
    for (int d = 0; d < DTYPES; d++) {
        if (dtypes[d] == GW_BOOL8) continue;
        fill(&some, dtypes[d], 31);
        combine_op op = dtype_is_float(dtypes[d]) ? COMBINE_AVG : COMBINE_SUM;
        combine_request c = request_of(op, &some, 6, N);
        c.factor = dtype_is_float(dtypes[d]) ? 0.3 : 5;
        c.out = whole;
        combine(&c);
        for (int i = 0; i < 4; i++) {
            combine_request leaf = c;
            leaf.from = (const void *[]){ some.at[i], i < 2 ? some.at[i + 4] : NULL };
            leaf.count = i < 2 ? 2 : 1;
            leaf.out = partial.bytes[i];
            combine_begin(&leaf);
        }
        for (int i = 0; i < 4; i += 2) {
            combine_request pair = c;
            pair.from = (const void *[]){ partial.bytes[i], partial.bytes[i + 1] };
            pair.count = 2;
            pair.out = partial.bytes[i];
            combine_partial(&pair, false);
        }
        combine_request last = c;
        last.from = (const void *[]){ partial.bytes[0], partial.bytes[2] };
        last.count = 2;
        last.out = out;
        combine_partial(&last, true);
        assert_memory_equal(out, whole, N * gw_dtype_size(dtypes[d]));
    }
    assert_int_equal(combine_partial_dtype(GW_BF16), GW_F32);
    assert_int_equal(combine_partial_dtype(GW_F64), GW_F64);
    assert_int_equal(combine_partial_dtype(GW_U8), GW_U8);
}

GW_TESTS(tensor_combine, every_operation_is_its_definition, numbers_are_multiplied_first,
         a_mean_is_a_true_quotient, nan_propagates, bools_are_all_any_or_an_odd_count,
         the_result_may_replace_a_vector, cutting_the_work_changes_no_bit,
         partial_sums_give_the_bits_of_the_whole);
