#include "tensor/dtype.h"
#include "testing/testing.h"

#include <math.h>

enum { COUNT = 37 };

// Element by element, as dtype_write and dtype_read do it; integers to integers without a float
// between.
static void convert_naively(gw_dtype to, void *out, gw_dtype from, const void *in) {
    if (dtype_is_float(from)) {
        dtype_write(to, out, dtype_read(from, in));
    } else {
        dtype_write_int(to, out, dtype_read_int(from, in));
    }
}

static void check(gw_dtype to, int64_t to_stride, gw_dtype from, int64_t from_stride) {
    size_t to_size = gw_dtype_size(to), from_size = gw_dtype_size(from);
    uint8_t in[COUNT * 3 * 8] = { 0 }, out[COUNT * 3 * 8], expected[COUNT * 3 * 8];
    memset(out, 0xaa, sizeof out);
    memset(expected, 0xaa, sizeof expected);
    for (int i = 0; i < COUNT; i++) {
        dtype_write(from, in + (size_t)(i * from_stride) * from_size, (i - 18) * 3.3);
        convert_naively(to, expected + (size_t)(i * to_stride) * to_size, from,
                        in + (size_t)(i * from_stride) * from_size);
    }
    dtype_convert(to, out, to_stride, from, in, from_stride, COUNT);
    assert_memory_equal(out, expected, sizeof out);
}

static void it_converts_every_dtype_to_every_other(void **state) {
    (void)state;
    for (int to = 0; to < GW_DTYPE_COUNT; to++) {
        for (int from = 0; from < GW_DTYPE_COUNT; from++) {
            testing_note("%s to %s", gw_dtype_name((gw_dtype)from), gw_dtype_name((gw_dtype)to));
            check((gw_dtype)to, 1, (gw_dtype)from, 1);
            check((gw_dtype)to, 1, (gw_dtype)from, 3);
            check((gw_dtype)to, 2, (gw_dtype)from, 1);
            check((gw_dtype)to, 3, (gw_dtype)from, 2);
        }
    }
}

static void it_spreads_one_number(void **state) {
    (void)state;
    int16_t x = -7;
    float out[5];
    dtype_gather(GW_F32, out, GW_I16, &x, 0, 5);
    for (int i = 0; i < 5; i++) assert_true(out[i] == -7);
}

static void it_keeps_large_integers(void **state) {
    (void)state;
    int64_t x = INT64_MAX;
    int32_t narrow;
    dtype_gather(GW_I32, &narrow, GW_I64, &x, 1, 1);
    assert_int_equal(narrow, -1);
    int64_t wide;
    dtype_gather(GW_I64, &wide, GW_I64, &x, 1, 1);
    assert_int_equal(wide, INT64_MAX);
    double nan = NAN;
    uint8_t truth;
    dtype_gather(GW_BOOL8, &truth, GW_F64, &nan, 1, 1);
    assert_int_equal(truth, 1);
}

GW_TESTS(tensor_convert, it_converts_every_dtype_to_every_other, it_spreads_one_number,
         it_keeps_large_integers);
