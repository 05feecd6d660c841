#include "tensor/dtype.h"
#include "testing/testing.h"

#include <math.h>

static void it_names_and_measures_dtypes(void **state) {
    (void)state;
    assert_string_equal(gw_dtype_name(GW_BF16), "bf16");
    assert_string_equal(gw_dtype_name(GW_BOOL8), "bool");
    assert_string_equal(gw_dtype_name((gw_dtype)99), "unknown dtype");
    assert_int_equal(gw_dtype_size(GW_F64), 8);
    assert_int_equal(gw_dtype_size(GW_BOOL8), 1);
    assert_int_equal(gw_dtype_size((gw_dtype)99), 0);
}

// torch.promote_types, recorded with PyTorch 1.13.
static const uint8_t promoted[GW_DTYPE_COUNT][GW_DTYPE_COUNT] = {
    { GW_F32, GW_F64, GW_F32, GW_F32, GW_F32, GW_F32, GW_F32, GW_F32, GW_F32, GW_F32 },
    { GW_F64, GW_F64, GW_F64, GW_F64, GW_F64, GW_F64, GW_F64, GW_F64, GW_F64, GW_F64 },
    { GW_F32, GW_F64, GW_F16, GW_F32, GW_F16, GW_F16, GW_F16, GW_F16, GW_F16, GW_F16 },
    { GW_F32, GW_F64, GW_F32, GW_BF16, GW_BF16, GW_BF16, GW_BF16, GW_BF16, GW_BF16, GW_BF16 },
    { GW_F32, GW_F64, GW_F16, GW_BF16, GW_I64, GW_I64, GW_I64, GW_I64, GW_I64, GW_I64 },
    { GW_F32, GW_F64, GW_F16, GW_BF16, GW_I64, GW_I32, GW_I32, GW_I32, GW_I32, GW_I32 },
    { GW_F32, GW_F64, GW_F16, GW_BF16, GW_I64, GW_I32, GW_I16, GW_I16, GW_I16, GW_I16 },
    { GW_F32, GW_F64, GW_F16, GW_BF16, GW_I64, GW_I32, GW_I16, GW_I8, GW_I16, GW_I8 },
    { GW_F32, GW_F64, GW_F16, GW_BF16, GW_I64, GW_I32, GW_I16, GW_I16, GW_U8, GW_U8 },
    { GW_F32, GW_F64, GW_F16, GW_BF16, GW_I64, GW_I32, GW_I16, GW_I8, GW_U8, GW_BOOL8 },
};

static void it_promotes_as_pytorch_does(void **state) {
    (void)state;
    for (int a = 0; a < GW_DTYPE_COUNT; a++)
        for (int b = 0; b < GW_DTYPE_COUNT; b++)
            assert_int_equal(dtype_promote((gw_dtype)a, (gw_dtype)b), promoted[a][b]);
}

static gw_dtype result_of(const gw_tensor *a, const gw_tensor *b, gw_value number) {
    promotion p = promotion_start();
    if (a) promotion_add_tensor(&p, a);
    if (b) promotion_add_tensor(&p, b);
    if (number.kind != GW_NONE) promotion_add_number(&p, number);
    return promotion_end(&p);
}

// The examples of PyTorch's documentation of type promotion, and cases that its rules leave open there.
static void scalars_and_numbers_only_raise_the_kind(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *half = gw_ones(s, GW_F16, 2), *int8 = gw_ones(s, GW_I8, 2),
              *truth = gw_ones(s, GW_BOOL8, 2);
    gw_tensor *scalar64 = gw_ones(s, GW_F64), *scalar_int = gw_ones(s, GW_I64);
    assert_int_equal(result_of(half, scalar64, gw_none()), GW_F16);
    assert_int_equal(result_of(int8, scalar64, gw_none()), GW_F64);
    assert_int_equal(result_of(int8, scalar_int, gw_none()), GW_I8);
    assert_int_equal(result_of(truth, scalar_int, gw_none()), GW_I64);
    assert_int_equal(result_of(half, NULL, gw_value_of(1.5)), GW_F16);
    assert_int_equal(result_of(int8, NULL, gw_value_of(1.5)), GW_F32);
    assert_int_equal(result_of(int8, NULL, gw_value_of(1000)), GW_I8);
    assert_int_equal(result_of(truth, NULL, gw_value_of(1)), GW_I64);
    assert_int_equal(result_of(truth, NULL, gw_value_of_bool(true)), GW_BOOL8);
    assert_int_equal(result_of(scalar_int, NULL, gw_value_of(1.5)), GW_F32);
    assert_int_equal(result_of(scalar64, NULL, gw_value_of(1.5)), GW_F64);
    assert_int_equal(result_of(scalar64, scalar_int, gw_none()), GW_F64);
    gw_scope_close_up(s);
}

// ---- Halves -------------------------------------------------------------------------------------
static double f16_by_definition(uint16_t h) {
    int e = h >> 10 & 31, m = h & 1023;
    double size = e == 31 ? (m ? NAN : INFINITY) : e ? ldexp(1024 + m, e - 25) : ldexp(m, -24);
    return h & 0x8000 ? -size : size;
}

static void every_f16_round_trips_through_f32(void **state) {
    (void)state;
    for (uint32_t h = 0; h < 65536; h++) {
        double meant = f16_by_definition((uint16_t)h);
        float x = f32_of_f16((uint16_t)h);
        if (isnan(meant)) {
            assert_true(isnan(x) && isnan(f32_of_f16(f16_of_f32(x))));
            continue;
        }
        assert_true(x == meant && !signbit(x) == !signbit(meant));
        assert_int_equal(f16_of_f32(x), h);
    }
}

// Between two neighbours the nearer one, and the even one in the middle.
static void f32_rounds_to_the_nearest_f16(void **state) {
    (void)state;
    for (uint16_t h = 0; h < 0x7c00; h++) {
        double a = f16_by_definition(h);
        double b = h == 0x7bff ? 65536 : f16_by_definition((uint16_t)(h + 1));
        float middle = (float)((a + b) / 2);  // exact
        uint16_t even = h & 1 ? (uint16_t)(h + 1) : h;
        assert_int_equal(f16_of_f32(middle), even);
        assert_int_equal(f16_of_f32(nextafterf(middle, 0)), h);
        assert_int_equal(f16_of_f32(nextafterf(middle, INFINITY)), h + 1);
        assert_int_equal(f16_of_f32(-middle), even | 0x8000);
    }
    assert_int_equal(f16_of_f32(INFINITY), 0x7c00);
    assert_int_equal(f16_of_f32(1e30f), 0x7c00);
    assert_int_equal(f16_of_f32(-1e-30f), 0x8000);
}

static void f32_rounds_to_the_nearest_bf16(void **state) {
    (void)state;
    for (uint32_t h = 0; h < 0x7f80; h++) {
        float a = f32_of_bf16((uint16_t)h), middle = float_of_bits(h << 16 | 0x8000);
        assert_int_equal(bf16_of_f32(a), h);
        assert_int_equal(bf16_of_f32(middle), h & 1 ? h + 1 : h);
        assert_int_equal(bf16_of_f32(float_of_bits(h << 16 | 0x7fff)), h);
        assert_int_equal(bf16_of_f32(float_of_bits(h << 16 | 0x8001)), h + 1);
    }
    assert_true(isnan(f32_of_bf16(bf16_of_f32(NAN))));
    assert_true(isnan(f32_of_bf16(bf16_of_f32(float_of_bits(0x7f800001)))));
}

// ---- Numbers ------------------------------------------------------------------------------------
static void it_reads_the_values_that_it_wrote(void **state) {
    (void)state;
    for (int d = 0; d < GW_DTYPE_COUNT; d++) {
        uint64_t p = 0;
        dtype_write((gw_dtype)d, &p, 1);
        assert_true(dtype_read((gw_dtype)d, &p) == 1);
        assert_int_equal(dtype_read_int((gw_dtype)d, &p), 1);
        dtype_write_int((gw_dtype)d, &p, 0);
        assert_true(dtype_read((gw_dtype)d, &p) == 0);
        dtype_write_value((gw_dtype)d, &p, gw_value_of_bool(true));
        assert_int_equal(dtype_read_int((gw_dtype)d, &p), 1);
    }
    int64_t p;
    dtype_write_int(GW_I64, &p, INT64_MAX);
    assert_int_equal(dtype_read_int(GW_I64, &p), INT64_MAX);  // not through double
}

static void floats_out_of_range_become_the_least_integer(void **state) {
    (void)state;
    assert_int_equal(int_of_real(1e30), INT64_MIN);
    assert_int_equal(int_of_real(-1e30), INT64_MIN);
    assert_int_equal(int_of_real(NAN), INT64_MIN);
    assert_int_equal(int_of_real(-2.9), -2);
}

GW_TESTS(tensor_dtype, it_names_and_measures_dtypes, it_promotes_as_pytorch_does,
         scalars_and_numbers_only_raise_the_kind, every_f16_round_trips_through_f32,
         f32_rounds_to_the_nearest_f16, f32_rounds_to_the_nearest_bf16,
         it_reads_the_values_that_it_wrote, floats_out_of_range_become_the_least_integer);
