#include "tensor/kernels/loops.h"

#include "tensor/kernels/kernels.h"
#include "testing/testing.h"

#include <math.h>
#include <string.h>

enum { COUNT = 4096 };

// Runs |l| over |x| in the loops for any CPU.
static void run(const loops *set, loop l, const float *x, const float *y, float *out, int64_t n) {
    const double reals[] = { -0.5, 0.75 };
    ew_row r = { .out = out, .in = { x, y }, .step = { 1, 1 }, .n = n, .reals = reals };
    set->at[l].f32(&r);
}

// ---- Accuracy -----------------------------------------------------------------------------------
typedef struct accuracy {
    loop loop;
    const char *name;
    double (*exact)(double x);
    double low, high;
    double bits;  // the largest error, in units in the last place
} accuracy;

static double exact_sigmoid(double x) {
    return 1 / (1 + exp(-x));
}
static double exact_gelu(double x) {
    return x * 0.5 * erfc(-x * M_SQRT1_2);
}
static double exact_silu(double x) {
    return x / (1 + exp(-x));
}

static const accuracy accuracies[] = {
    { LOOP_EXP, "exp", exp, -87, 88.7, 2 },
    { LOOP_LOG, "log", log, 1e-37, 3e38, 2 },
    { LOOP_LOG, "log near 1", log, 0.5, 2, 3 },
    { LOOP_TANH, "tanh", tanh, -12, 12, 3 },
    { LOOP_SIGMOID, "sigmoid", exact_sigmoid, -80, 80, 4 },
    { LOOP_GELU, "gelu", exact_gelu, -5, 20, 64 },
    { LOOP_SILU, "silu", exact_silu, -80, 80, 5 },
};

static double unit_in_last_place(double x) {
    float f = fabsf((float)x);
    return (double)nextafterf(f, INFINITY) - f;
}

static double largest_error(const accuracy *a) {
    double worst = 0;
    int rounds = testing_scaled(256);
    for (int round = 0; round < rounds; round++) {
        float x[COUNT], y[COUNT];
        for (int i = 0; i < COUNT; i++) {
            double part = ((double)i + (double)round / rounds) / COUNT;
            bool by_factor = a->low > 0 && a->high > 1e6;
            x[i] = (float)(by_factor ? a->low * pow(a->high / a->low, part)
                                     : a->low + (a->high - a->low) * part);
        }
        run(&loops_any, a->loop, x, x, y, COUNT);
        for (int i = 0; i < COUNT; i++) {
            double exact = a->exact(x[i]), error = fabs(y[i] - exact) / unit_in_last_place(exact);
            if (error > worst) worst = error;
        }
    }
    return worst;
}

static void functions_are_right_to_the_last_bits(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof accuracies / sizeof *accuracies; i++) {
        double worst = largest_error(&accuracies[i]);
        testing_note("%s is off by %g units in the last place", accuracies[i].name, worst);
        if (worst > accuracies[i].bits)
            fail_msg("%s is off by %g units in the last place", accuracies[i].name, worst);
    }
}

static float one(loop l, float x) {
    float y;
    run(&loops_any, l, &x, &x, &y, 1);
    return y;
}

static void functions_are_exact_at_their_limits(void **state) {
    (void)state;
    assert_true(one(LOOP_EXP, INFINITY) == INFINITY && one(LOOP_EXP, -INFINITY) == 0);
    assert_true(one(LOOP_EXP, 88.73f) == INFINITY && one(LOOP_EXP, 0) == 1 &&
                one(LOOP_EXP, -0.0f) == 1);
    assert_true(one(LOOP_EXP, -104) == 0);
    assert_true(fabs(one(LOOP_EXP, -100) - exp(-100)) < 2e-45);  // not normal
    assert_true(one(LOOP_LOG, 0) == -INFINITY && one(LOOP_LOG, -0.0f) == -INFINITY);
    assert_true(isnan(one(LOOP_LOG, -1)) && one(LOOP_LOG, INFINITY) == INFINITY &&
                one(LOOP_LOG, 1) == 0);
    assert_true(fabs(one(LOOP_LOG, 1e-42f) - log((double)1e-42f)) < 1e-5);
    assert_true(one(LOOP_TANH, INFINITY) == 1 && one(LOOP_TANH, -INFINITY) == -1);
    assert_true(one(LOOP_TANH, 0) == 0 && signbit(one(LOOP_TANH, -0.0f)));
    assert_true(one(LOOP_TANH, 1e-30f) == 1e-30f);
    assert_true(one(LOOP_SIGMOID, INFINITY) == 1 && one(LOOP_SIGMOID, -INFINITY) == 0);
    assert_true(one(LOOP_GELU, INFINITY) == INFINITY && one(LOOP_GELU, 0) == 0);
    assert_true(one(LOOP_GELU, -30) == 0 && one(LOOP_GELU, 30) == 30);
}

// ---- The same bits on every CPU -----------------------------------------------------------------
static void fill(float *x, uint32_t seed) {
    for (int i = 0; i < COUNT; i++) {
        seed = seed * 1664525 + 1013904223;
        x[i] = i % 16 == 0 ? float_of_bits(seed) : ((float)(seed >> 8) * 0x1p-24f - 0.5f) * 20;
    }
}

static bool is_same(const float *a, const float *b) {
    for (int i = 0; i < COUNT; i++)
        if (memcmp(&a[i], &b[i], 4) != 0 && !(isnan(a[i]) && isnan(b[i]))) return false;
    return true;
}

static void every_cpu_computes_the_same_bits(void **state) {
    (void)state;
    float x[COUNT], y[COUNT], expected[COUNT], out[COUNT];
    fill(x, 1);
    fill(y, 2);
    for (int l = 0; l < LOOP_COUNT; l++) {
        if (l >= LOOP_EQ && l <= LOOP_WHERE)
            continue;  // their arguments and results are other types
        testing_note("loop %d", l);
        run(&loops_any, (loop)l, x, y, expected, COUNT);
        memset(out, 0, sizeof out);
        if (kernels_run_here(&kernels_avx2)) {
            run(&loops_avx2, (loop)l, x, y, out, COUNT);
            assert_true(is_same(out, expected));
        }
        memset(out, 0, sizeof out);
        if (kernels_run_here(&kernels_avx512)) {
            run(&loops_avx512, (loop)l, x, y, out, COUNT);
            assert_true(is_same(out, expected));
        }
    }
}

static void check_draws(const loops *set) {
    float expected[4 * 100], out[4 * 100];
    uint64_t first = UINT64_C(0xfffffff0);  // the counter's upper half changes on the way
    loops_any.uniform(9, first, 100, expected);
    set->uniform(9, first, 100, out);
    assert_memory_equal(out, expected, sizeof out);
    loops_any.normal(9, first, 100, expected);
    set->normal(9, first, 100, out);
    assert_memory_equal(out, expected, sizeof out);
    set->normal(9, first + 37, 1, out);  // a block alone is the same
    assert_memory_equal(out, expected + 4 * 37, 4 * sizeof *out);
}

static void check_halves(const loops *set, const float *x) {
    uint16_t expected[COUNT], out[COUNT];
    float wide[COUNT], wide_expected[COUNT];
    loops_any.f16_of_f32(x, COUNT, expected);
    set->f16_of_f32(x, COUNT, out);
    assert_memory_equal(out, expected, sizeof out);
    loops_any.f32_of_f16(expected, COUNT, wide_expected);
    set->f32_of_f16(expected, COUNT, wide);
    assert_true(is_same(wide, wide_expected));
    loops_any.bf16_of_f32(x, COUNT, expected);
    set->bf16_of_f32(x, COUNT, out);
    assert_memory_equal(out, expected, sizeof out);
    loops_any.f32_of_bf16(expected, COUNT, wide_expected);
    set->f32_of_bf16(expected, COUNT, wide);
    assert_true(is_same(wide, wide_expected));
}

static void every_cpu_draws_and_rounds_the_same(void **state) {
    (void)state;
    float x[COUNT];
    fill(x, 5);
    const loops *sets[] = { kernels_run_here(&kernels_avx2) ? &loops_avx2 : &loops_any,
                            kernels_run_here(&kernels_avx512) ? &loops_avx512 : &loops_any };
    for (int i = 0; i < 2; i++) {
        check_draws(sets[i]);
        check_halves(sets[i], x);
    }
}

// Whether a number stands at the end of a vector or in the rest behind it makes no difference.
static void a_result_does_not_depend_on_its_offset(void **state) {
    (void)state;
    float x[COUNT], y[COUNT], expected[COUNT], out[COUNT];
    fill(x, 3);
    fill(y, 4);
    const loops *here = loops_get();
    for (int l = 0; l < LOOP_COUNT; l++) {
        if (l >= LOOP_EQ && l <= LOOP_WHERE) continue;
        testing_note("loop %d", l);
        run(here, (loop)l, x, y, expected, COUNT);
        for (int i = 0; i < COUNT; i += 7)
            run(here, (loop)l, x + i, y + i, out + i, i + 7 < COUNT ? 7 : COUNT - i);
        assert_true(is_same(out, expected));
    }
}

GW_TESTS(tensor_loops, functions_are_right_to_the_last_bits, functions_are_exact_at_their_limits,
         every_cpu_computes_the_same_bits, every_cpu_draws_and_rounds_the_same,
         a_result_does_not_depend_on_its_offset);
