#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/random.h"
#include "tensor/kernels/kernels.h"
#include "testing/testing.h"

// Every kernel gives the same bits on every kind of CPU. Kinds that this CPU is not are left out.
enum { ROOM = 1 << 14 };

typedef struct arrays {
    double a[ROOM], b[ROOM], out[ROOM], expected[ROOM];
} arrays;

static void fill(void *to, kernel_type type, uint64_t seed) {
    for (int i = 0; i < ROOM; i++) {
        uint32_t words[4];
        philox(seed, (uint64_t)i, words);
        double x = (double)words[0] / 0x1p30 - 2;
        if (type == KERNEL_F32)
            ((float *)to)[i] = (float)x;
        else if (type == KERNEL_F64)
            ((double *)to)[i] = x;
        else
            ((uint64_t *)to)[i] = (uint64_t)words[0] << 32 | words[1];
    }
}

typedef void run_kernel(const kernels *k, arrays *x, kernel_type type, int64_t rows, int64_t n);

static void multiply(const kernels *k, arrays *x, kernel_type t, int64_t rows, int64_t n) {
    matrix a = { x->a, n, 1 }, b = { x->b, 1, n };
    k->multiply[t](rows, rows, n, a, b, x->out, rows + 1, false);
    k->multiply[t](rows, 1, n, a, b, x->out, rows + 1, true);
}
static void sum_rows(const kernels *k, arrays *x, kernel_type t, int64_t rows, int64_t n) {
    k->sum_rows[t](x->a, rows, n, x->out);
}
static void sum_columns(const kernels *k, arrays *x, kernel_type t, int64_t rows, int64_t n) {
    k->sum_columns[t](x->a, 1, rows, n, x->out);
}
static void max_rows(const kernels *k, arrays *x, kernel_type t, int64_t rows, int64_t n) {
    k->extreme_rows[t](x->a, rows, n, true, x->out);
}
static void min_rows(const kernels *k, arrays *x, kernel_type t, int64_t rows, int64_t n) {
    k->extreme_rows[t](x->a, rows, n, false, x->out);
}
static void max_columns(const kernels *k, arrays *x, kernel_type t, int64_t rows, int64_t n) {
    k->extreme_columns[t](x->a, 1, rows, n, true, x->out);
}
static void min_columns(const kernels *k, arrays *x, kernel_type t, int64_t rows, int64_t n) {
    k->extreme_columns[t](x->a, 1, rows, n, false, x->out);
}
static void find_moments(const kernels *k, arrays *x, kernel_type t, int64_t rows, int64_t n) {
    k->moments[t](x->a, rows * n, (moments *)x->out);
}
static void softmax(const kernels *k, arrays *x, kernel_type t, int64_t rows, int64_t n) {
    k->softmax_rows[t](x->a, rows, n, x->out);
}
static void log_softmax(const kernels *k, arrays *x, kernel_type t, int64_t rows, int64_t n) {
    k->log_softmax_rows[t](x->a, rows, n, x->out);
}
static void softmax_back(const kernels *k, arrays *x, kernel_type t, int64_t rows, int64_t n) {
    k->softmax_back_rows[t](x->a, x->b, rows, n, x->out);
}
static void log_softmax_back(const kernels *k, arrays *x, kernel_type t, int64_t rows, int64_t n) {
    k->log_softmax_back_rows[t](x->a, x->b, rows, n, x->out);
}
static void exp_sum(const kernels *k, arrays *x, kernel_type t, int64_t rows, int64_t n) {
    k->exp_sum_rows[t](x->a, rows, n, x->out, x->out + rows);
}
static void raise_rows(const kernels *k, arrays *x, kernel_type t, int64_t rows, int64_t n) {
    k->raise_rows[t](x->a, rows, n, x->b, x->b + 100, x->b + 200, x->out);
}
static void mse(const kernels *k, arrays *x, kernel_type t, int64_t rows, int64_t n) {
    k->mse[t](x->a, x->b, rows * n, 0, x->out);
}
static void bce(const kernels *k, arrays *x, kernel_type t, int64_t rows, int64_t n) {
    k->bce[t](x->a, x->b, rows * n, 0, x->out);
}
static void smooth_l1(const kernels *k, arrays *x, kernel_type t, int64_t rows, int64_t n) {
    k->smooth_l1[t](x->a, x->b, rows * n, 0.7, x->out);
}
static void mask(const kernels *k, arrays *x, kernel_type t, int64_t rows, int64_t n) {
    static uint8_t kept[ROOM];
    k->draw_mask((const uint32_t *)x->b, UINT64_C(1) << 31, rows * n, kept);
    k->apply_mask[t](x->a, kept, 1.25, rows * n, x->out);
}
static void norm(const kernels *k, arrays *x, kernel_type t, int64_t rows, int64_t n) {
    k->norm_rows[t](x->a, rows, n, 1e-5, x->b, x->b + 3, x->out);
}
static void norm_back(const kernels *k, arrays *x, kernel_type t, int64_t rows, int64_t n) {
    k->norm_back_rows[t](x->a, x->b, rows, n, 1e-5, x->b + 3, x->out);
}
static void norm_product(const kernels *k, arrays *x, kernel_type t, int64_t rows, int64_t n) {
    k->norm_product_rows[t](x->a, x->b, rows, n, 1e-5, x->out);
}
static void random_words(const kernels *k, arrays *x, kernel_type t, int64_t rows, int64_t n) {
    (void)t;
    k->random_words(42, UINT64_C(0xfffffffe), rows * n / 4, (uint32_t *)x->out);
}

static const struct {
    const char *name;
    run_kernel *run;
    int types;
} all[] = {
    { "multiply", multiply, 3 },
    { "sum_rows", sum_rows, 3 },
    { "sum_columns", sum_columns, 3 },
    { "max_rows", max_rows, 3 },
    { "min_rows", min_rows, 3 },
    { "max_columns", max_columns, 3 },
    { "min_columns", min_columns, 3 },
    { "moments", find_moments, 2 },
    { "softmax", softmax, 2 },
    { "log_softmax", log_softmax, 2 },
    { "softmax_back", softmax_back, 2 },
    { "log_softmax_back", log_softmax_back, 2 },
    { "exp_sum", exp_sum, 2 },
    { "raise", raise_rows, 2 },
    { "mse", mse, 2 },
    { "bce", bce, 2 },
    { "smooth_l1", smooth_l1, 2 },
    { "mask", mask, 2 },
    { "norm", norm, 2 },
    { "norm_back", norm_back, 2 },
    { "norm_product", norm_product, 2 },
    { "random_words", random_words, 1 },
};

static void compare(arrays *x, const kernels *k, kernel_type t, int64_t rows, int64_t n) {
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        if ((int)t >= all[i].types) continue;
        testing_note("%s of %dx%d, type %d, for %s", all[i].name, (int)rows, (int)n, (int)t,
                     k->name);
        memset(x->out, 0, sizeof x->out);
        all[i].run(&kernels_any, x, t, rows, n);
        memcpy(x->expected, x->out, sizeof x->out);
        memset(x->out, 0, sizeof x->out);
        all[i].run(k, x, t, rows, n);
        assert_memory_equal(x->out, x->expected, sizeof x->out);
    }
}

static void compare_shapes(arrays *x, const kernels *k, kernel_type t) {
    static const int64_t shapes[][2] = { { 1, 1 },  { 3, 5 },   { 2, 16 },    { 5, 33 },
                                         { 4, 64 }, { 7, 129 }, { 120, 100 }, { 3, 3100 } };
    fill(x->a, t, 1);
    fill(x->b, t, 2);
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        compare(x, k, t, shapes[i][0], shapes[i][1]);
}

static void every_kind_of_cpu_gives_the_same_bits(void **state) {
    (void)state;
    static const kernels *const kinds[] = { &kernels_avx2, &kernels_avx512 };
    arrays *x = mem_alloc(sizeof *x);
    assert_non_null(x);
    int compared = 0;
    for (int i = 0; i < 2; i++) {
        if (!kernels_run_here(kinds[i])) continue;
        for (int t = 0; t < KERNEL_TYPE_COUNT; t++) compare_shapes(x, kinds[i], (kernel_type)t);
        compared++;
    }
    mem_free(x);
    if (!compared) testing_skip("this processor has one kind of kernels");
}

static void a_kind_can_be_chosen(void **state) {
    (void)state;
    setenv("GW_KERNELS", "any", 1);
    assert_ptr_equal(kernels_get(), &kernels_any);
    assert_string_equal(kernels_get()->name, "any");
}

static void words_are_those_of_philox(void **state) {
    (void)state;
    uint32_t words[4 * 21], expected[4];
    kernels_get()->random_words(7, UINT64_C(0xfffffff0), 21, words);
    for (int i = 0; i < 21; i++) {
        philox(7, UINT64_C(0xfffffff0) + (uint64_t)i, expected);
        assert_memory_equal(words + 4 * i, expected, sizeof expected);
    }
}

GW_TESTS(tensor_kernels, every_kind_of_cpu_gives_the_same_bits, a_kind_can_be_chosen,
         words_are_those_of_philox);
