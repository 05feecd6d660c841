#include "tensor/kernels/draw.h"
#include "tensor/ops/op.h"
#include "testing/testing.h"
#include <gradwire/binding.h>
#include <gradwire/ops.h>

#include <math.h>

static void assert_fails(gw_scope *s, const char *text) {
    assert_int_equal(gw_scope_error(s)->status, GW_INVALID);
    assert_string_equal(gw_scope_error(s)->text, text);
    gw_scope_clear(s);
}

static void it_fills_in_every_dtype(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    for (int d = 0; d < GW_DTYPE_COUNT; d++) {
        gw_tensor *ones = gw_ones(s, (gw_dtype)d, 3, 30001), *zeros = gw_empty(s, (gw_dtype)d, 2);
        size_t size = gw_dtype_size((gw_dtype)d);
        for (int64_t i = 0; i < 90003; i += 29)
            assert_true(dtype_read((gw_dtype)d, tensor_bytes(ones) + (size_t)i * size) == 1);
        assert_true(dtype_read((gw_dtype)d, tensor_bytes(ones) + 90002 * size) == 1);
        assert_true(dtype_read((gw_dtype)d, tensor_bytes(zeros) + size) == 0);
    }
    assert_int_equal(gw_item_int(s, gw_full(s, GW_I64, INT64_MAX)), INT64_MAX);
    assert_true(gw_item(s, gw_full(s, GW_F32, -0.0)) == 0 &&
                signbit(gw_item(s, gw_full(s, GW_F32, -0.0))));
    assert_int_equal(gw_item_int(s, gw_full(s, GW_BOOL8, 0.5)), 1);
    gw_scope_close_up(s);
}

static void arange_counts_up_and_down(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    assert_string_equal(gw_to_text(s, gw_arange(s, GW_F32, 0, 1, 0.3)),
                        "tensor([0.0000, 0.3000, 0.6000, 0.9000])");
    assert_string_equal(gw_to_text(s, gw_arange(s, GW_I64, 3, -3, -2)), "tensor([ 3,  1, -1])");
    assert_int_equal(gw_numel(gw_arange(s, GW_F32, 2, 2, 1)), 0);
    assert_int_equal(gw_numel(gw_arange(s, GW_F32, 2, 2, -1)), 0);
    gw_arange(s, GW_F32, 2.5, 1, 3);
    assert_fails(s, "gw.arange: 2.5 to 1 cannot be divided into steps of 3: the step must not be "
                    "0, and must lead towards the end");
    gw_arange(s, GW_F32, 0, 5, -1);
    assert_fails(s, "gw.arange: 0 to 5 cannot be divided into steps of -1: the step must not be 0, "
                    "and must lead towards the end");
    gw_arange(s, GW_F32, 0, 5, 0);
    assert_fails(s, "gw.arange: 0 to 5 cannot be divided into steps of 0: the step must not be 0, "
                    "and must lead towards the end");
    gw_arange(s, GW_F32, 0, INFINITY, 1);
    assert_fails(s, "gw.arange: 0 to inf cannot be divided into steps of 1: the step must not be "
                    "0, and must lead towards the end");
    gw_arange(s, GW_BOOL8, 0, 2, 1);
    assert_fails(s, "gw.arange: bool is not supported: the operands must be numbers");
    gw_scope_close_up(s);
}

static void from_copies(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    int8_t values[] = { 1, -2, 3 };
    gw_tensor *x = gw_from(s, values, 3);
    values[0] = 9;
    assert_string_equal(gw_to_text(s, x), "tensor([ 1, -2,  3], dtype=i8)");
    gw_scope_close_up(s);
}

static void an_uninitialized_tensor_can_be_written(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *x = gw_uninitialized(s, GW_F32, GW_SHAPE(2, 3));
    float *numbers = gw_data_for_write(s, x);
    for (int i = 0; i < 6; i++) numbers[i] = (float)i;
    assert_float_equal(gw_item(s, gw_sum(s, x)), 15, 0);
    assert_int_equal(gw_size(x, 1), 3);
    gw_drop(s, gw_full(s, GW_U8, 7, 100));  // memory that is used again
    gw_tensor *bools = gw_uninitialized(s, GW_BOOL8, GW_SHAPE(100));
    assert_float_equal(gw_item(s, gw_sum(s, bools)), 0, 0);
    assert_int_equal(gw_numel(gw_uninitialized(s, GW_F32, GW_SHAPE(0))), 0);
    assert_string_equal(gw_scope_close(s).text, "");
}

static void a_number_that_is_no_dtype_is_refused(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    float one = 1;
    gw_dtype none = GW_DTYPE_COUNT;
    gw_zeros_with(s, none, GW_SHAPE(2));
    assert_fails(s, "gw.zeros: 10 is not a dtype, but must be a gw_dtype");
    gw_to_dtype(s, gw_ones(s, GW_F32, 2), (gw_dtype)-1);
    assert_fails(s, "gw.to_dtype: -1 is not a dtype, but must be a gw_dtype");
    gw_from_with(s, none, &one, GW_SHAPE(1));
    assert_fails(s, "gw.from: 10 is not a dtype, but must be a gw_dtype");
    gw_from_blob(s, (gw_dtype)99, &one, GW_SHAPE(1), NULL, NULL);
    assert_fails(s, "gw.from_blob: 99 is not a dtype, but must be a gw_dtype");
    gw_uninitialized(s, none, GW_SHAPE(1));
    assert_fails(s, "gw.uninitialized: 10 is not a dtype, but must be a gw_dtype");
    gw_from_with(s, GW_F32, NULL, GW_SHAPE(1));
    assert_fails(s, "gw.from: data is NULL");
    assert_int_equal(gw_numel(gw_from_with(s, GW_F32, NULL, GW_SHAPE(3, 0))), 0);
    assert_true(gw_ok(s));
    gw_scope_close_up(s);
}

// ---- Random -------------------------------------------------------------------------------------
static void a_seed_means_the_same_numbers_everywhere(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_seed(s, 0);
    // The first block of key 0 is 6627e8d5 e169c58d bc57ac4c 9b00dbd8 (Salmon et al. 2011), of
    // which each f32 takes 24 bits.
    const uint32_t words[] = { 0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8 };
    gw_tensor *x = gw_rand(s, GW_F32, 4);
    for (int i = 0; i < 4; i++)
        assert_true(((const float *)gw_data(x))[i] == (float)(words[i] >> 8) * 0x1p-24f);
    gw_seed(s, 0);
    gw_tensor *z = gw_randn(s, GW_F64, 2);
    gw_seed(s, 0);
    gw_tensor *n = gw_randn(s, GW_F32, 4);
    double u = (words[0] + 1.0) * 0x1p-32, v = words[1] * 0x1p-32;
    assert_true(((const float *)gw_data(n))[0] == (float)(sqrt(-2 * log(u)) * cos(2 * M_PI * v)));
    assert_true(((const float *)gw_data(n))[1] == (float)(sqrt(-2 * log(u)) * sin(2 * M_PI * v)));
    assert_true(fabs(((const double *)gw_data(z))[0] - ((const float *)gw_data(n))[0]) >
                0);  // other blocks
    gw_scope_close_up(s);
}

static void a_block_is_the_same_wherever_it_is_drawn(void **state) {
    (void)state;
    float all[4096], part[4];
    generator g = { .key = 5 };
    draw_normal(&g, GW_F32, all, 4096);
    assert_int_equal(g.counter, 1024);
    for (uint64_t block = 0; block < 1024; block += 37) {
        g.counter = block;
        draw_normal(&g, GW_F32, part, 3);
        assert_memory_equal(part, all + 4 * block, 3 * sizeof *part);
        assert_int_equal(g.counter, block + 1);
    }
}

static void children_continue_the_sequence_of_the_parent(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_seed(s, 3);
    gw_tensor *a = gw_rand(s, GW_F32, 4), *b = gw_rand(s, GW_F32, 4);
    gw_seed(s, 3);
    gw_scope *inner = gw_scope_open(s);
    gw_tensor *a2 = gw_keep(s, gw_rand(inner, GW_F32, 4));
    gw_scope_close_up(inner);
    assert_true(gw_equal(s, a, a2));
    assert_true(gw_equal(s, b, gw_rand(s, GW_F32, 4)));
    assert_false(gw_equal(s, a, b));
    gw_scope_close_up(s);
}

enum { DRAWS = 200000 };

// Mean, variance and kurtosis of many draws, within six standard errors.
static void check_moments(gw_dtype dtype) {
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *u = gw_rand(s, dtype, DRAWS), *n = gw_randn(s, dtype, DRAWS);
    double sum = 0, squares = 0, fourths = 0, least = 1, most = 0, uniform = 0;
    size_t size = gw_dtype_size(dtype);
    for (size_t i = 0; i < DRAWS; i++) {
        double x = dtype_read(dtype, tensor_bytes(n) + i * size);
        sum += x;
        squares += x * x;
        fourths += x * x * x * x;
        double y = dtype_read(dtype, tensor_bytes(u) + i * size);
        uniform += y;
        least = y < least ? y : least;
        most = y > most ? y : most;
    }
    double error = 6 / sqrt(DRAWS), coarse = dtype == GW_BF16 ? 0.004 : 0.0005;
    assert_true(fabs(sum / DRAWS) < error);
    assert_true(fabs(squares / DRAWS - 1) < error * sqrt(2) + coarse);
    assert_true(fabs(fourths / DRAWS - 3) < error * sqrt(96) + 4 * coarse);
    assert_true(least >= 0 && least < 0.01 && most < 1 && most > 0.99);
    assert_true(fabs(uniform / DRAWS - 0.5) < error * sqrt(1 / 12.0) + coarse);
    gw_scope_close_up(s);
}

static void numbers_have_their_distribution(void **state) {
    (void)state;
    check_moments(GW_F32);
    check_moments(GW_F64);
    check_moments(GW_F16);
    check_moments(GW_BF16);
}

static void only_floats_are_random(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_randn(s, GW_I64, 3);
    assert_fails(s, "gw.randn: the dtype must be a float, but is i64; gw_to_dtype converts it");
    gw_scope_close_up(s);
}

GW_TESTS(tensor_op_create, it_fills_in_every_dtype, arange_counts_up_and_down,
         an_uninitialized_tensor_can_be_written, a_number_that_is_no_dtype_is_refused, from_copies,
         a_seed_means_the_same_numbers_everywhere, a_block_is_the_same_wherever_it_is_drawn,
         children_continue_the_sequence_of_the_parent, numbers_have_their_distribution,
         only_floats_are_random);
