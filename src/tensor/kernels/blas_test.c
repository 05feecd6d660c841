#include "testing/testing.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/random.h"
#include "tensor/kernels/blas.h"

typedef void multiply_function(gw_dtype dtype, int64_t m, int64_t n, int64_t k, matrix a, matrix b,
                               void *c, int64_t c_stride, bool add);

typedef struct layout {
    int64_t row_stride, column_stride;
} layout;

// Every way a matrix may lie: by rows, by columns, apart, spread out, repeated.
static layout layout_of(int way, int64_t rows, int64_t columns) {
    switch (way) {
    case 0: return (layout){ columns, 1 };
    case 1: return (layout){ 1, rows };
    case 2: return (layout){ columns + 3, 1 };
    case 3: return (layout){ 2 * columns, 2 };
    default: return (layout){ 0, 1 };
    }
}

static double small_number(uint64_t i) {
    uint32_t words[4];
    philox(7, i, words);
    return (double)(words[0] % 17) - 8;
}

static double read_number(gw_dtype dtype, const void *p, int64_t i) {
    return dtype == GW_F32   ? (double)((const float *)p)[i]
           : dtype == GW_F64 ? ((const double *)p)[i]
                             : (double)((const int64_t *)p)[i];
}

static void write_number(gw_dtype dtype, void *p, int64_t i, double x) {
    if (dtype == GW_F32)
        ((float *)p)[i] = (float)x;
    else if (dtype == GW_F64)
        ((double *)p)[i] = x;
    else
        ((int64_t *)p)[i] = (int64_t)x;
}

// Small whole numbers, so that every order of adding gives the same sum.
static void check(multiply_function *multiply, gw_dtype dtype, int64_t m, int64_t n, int64_t k,
                  int a_way, int b_way, bool add) {
    layout la = layout_of(a_way, m, k), lb = layout_of(b_way, k, n);
    size_t size = gw_dtype_size(dtype);
    size_t a_count = (size_t)(m * la.row_stride + k * la.column_stride + 1);
    size_t b_count = (size_t)(k * lb.row_stride + n * lb.column_stride + 1);
    int64_t c_stride = n + 2;
    size_t c_count = (size_t)(m * c_stride + 1);
    char *a = mem_alloc(a_count * size), *b = mem_alloc(b_count * size);
    char *c = mem_alloc(c_count * size);
    for (size_t i = 0; i < a_count; i++) write_number(dtype, a, (int64_t)i, small_number(i));
    for (size_t i = 0; i < b_count; i++) write_number(dtype, b, (int64_t)i, small_number(i + 999));
    for (size_t i = 0; i < c_count; i++) write_number(dtype, c, (int64_t)i, (double)(i % 5));

    multiply(dtype, m, n, k, (matrix){ a, la.row_stride, la.column_stride },
             (matrix){ b, lb.row_stride, lb.column_stride }, c, c_stride, add);
    for (int64_t i = 0; i < m; i++) {
        for (int64_t j = 0; j < c_stride; j++) {
            double expected = j < n && !add ? 0 : (double)((i * c_stride + j) % 5);
            for (int64_t p = 0; j < n && p < k; p++)
                expected += read_number(dtype, a, i * la.row_stride + p * la.column_stride) *
                            read_number(dtype, b, p * lb.row_stride + j * lb.column_stride);
            assert_true(read_number(dtype, c, i * c_stride + j) == expected);
        }
    }
    mem_free(a);
    mem_free(b);
    mem_free(c);
}

static void check_one(multiply_function *multiply, gw_dtype dtype, const int64_t shape[3],
                      int way) {
    testing_note("%s: %dx%d times %dx%d, layouts %d and %d", gw_dtype_name(dtype), (int)shape[0],
                 (int)shape[2], (int)shape[2], (int)shape[1], way / 5, way % 5);
    check(multiply, dtype, shape[0], shape[1], shape[2], way / 5, way % 5, way % 2);
}

static void check_all(multiply_function *multiply) {
    static const int64_t shapes[][3] = {
        { 1, 1, 1 }, { 1, 5, 3 }, { 4, 32, 7 },   { 5, 33, 9 },   { 3, 16, 0 },
        { 0, 4, 4 }, { 4, 0, 4 }, { 7, 2, 31 },   { 130, 40, 5 }, { 2, 64, 300 },
        { 1, 9, 1 }, { 9, 1, 4 }, { 33, 70, 13 },
    };
    static const gw_dtype dtypes[] = { GW_F32, GW_F64, GW_I64 };
    for (size_t d = 0; d < 3; d++)
        for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
            for (int way = 0; way < 25; way++) check_one(multiply, dtypes[d], shapes[i], way);
}

static void it_multiplies_matrices_however_they_lie(void **state) {
    (void)state;
    check_all(blas_multiply);
}

static void it_does_so_without_a_library(void **state) {
    (void)state;
    check_all(blas_multiply_plain);
}

static void it_does_not_load_the_library_if_disabled(void **state) {
    (void)state;
    setenv("GW_BLAS", "plain", 1);
    assert_string_equal(blas_description(), "plain");
    check(blas_multiply, GW_F32, 5, 7, 3, 0, 1, false);
}

static char logged[256];

static void keep(const char *line) {
    snprintf(logged, sizeof logged, "%s", line);
}

static void a_missing_library_is_logged_and_not_used(void **state) {
    (void)state;
    log_hook = keep;
    setenv("GW_BLAS", "libno-such-blas.so.7", 1);
    assert_string_equal(blas_description(), "plain");
    assert_non_null(strstr(logged, "GW_BLAS=libno-such-blas.so.7 cannot be used"));
    check(blas_multiply, GW_F64, 5, 7, 3, 1, 0, false);
}

// The library would wait for the memory for ever.
static void without_memory_for_the_library_it_is_not_used(void **state) {
    (void)state;
    if (!MEM_CACHED) testing_skip("a sanitizer needs more memory than such a limit leaves");
    struct rlimit data;
    assert_int_equal(getrlimit(RLIMIT_DATA, &data), 0);
    data.rlim_cur = (rlim_t)512 << 20;
    assert_int_equal(setrlimit(RLIMIT_DATA, &data), 0);
    log_hook = keep;
    assert_string_equal(blas_description(), "plain");
    assert_non_null(strstr(logged, "OpenBLAS is not used"));
    assert_non_null(strstr(logged, "ulimit -d is 524288"));
    check(blas_multiply, GW_F64, 5, 7, 3, 1, 0, false);
}

static void it_leaves_the_environment_as_it_was(void **state) {
    (void)state;
    unsetenv("OPENBLAS_NUM_THREADS");
    setenv("OPENBLAS_CORETYPE", "Haswell", 1);
    const char *description = blas_description();
    assert_null(getenv("OPENBLAS_NUM_THREADS"));
    assert_string_equal(getenv("OPENBLAS_CORETYPE"), "Haswell");
    // The user's choice holds.
    if (strstr(description, "OpenBLAS")) assert_non_null(strstr(description, "Haswell"));
}

static void it_picks_the_kernels_that_suit_the_cpu(void **state) {
    (void)state;
    unsetenv("OPENBLAS_CORETYPE");
    const char *description = blas_description();
    assert_null(getenv("OPENBLAS_CORETYPE"));
#if defined(__x86_64__)
    if (!strstr(description, "OpenBLAS")) testing_skip("there is no OpenBLAS");
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl"))
        assert_non_null(strstr(description, "SkylakeX"));
#endif
}

static void it_wraps_integers_around(void **state) {
    (void)state;
    int64_t a[] = { INT64_MAX, 2 }, b[] = { 2, 1 }, c;
    blas_multiply(GW_I64, 1, 1, 2, (matrix){ a, 2, 1 }, (matrix){ b, 1, 1 }, &c, 1, false);
    assert_true(c == 0);
}

static void *multiply_often(void *context) {
    for (int i = 0; i < 20; i++) check(blas_multiply, GW_F32, 33, 70, 13, 0, 1, false);
    return context;
}

static void it_may_be_used_by_many_threads_at_once(void **state) {
    (void)state;
    pthread_t threads[4];
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, multiply_often, NULL), 0);
    for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
}

static void it_reports_which_layouts_need_no_copy(void **state) {
    (void)state;
    assert_true(matrix_is_fast((matrix){ NULL, 5, 1 }, 4, 5));
    assert_true(matrix_is_fast((matrix){ NULL, 1, 4 }, 4, 5));
    assert_true(matrix_is_fast((matrix){ NULL, 9, 1 }, 4, 5));
    assert_true(matrix_is_fast((matrix){ NULL, 3, 7 }, 1, 1));
    assert_true(matrix_is_fast((matrix){ NULL, 3, 7 }, 4, 1));
    assert_false(matrix_is_fast((matrix){ NULL, 0, 1 }, 4, 5));
    assert_false(matrix_is_fast((matrix){ NULL, 10, 2 }, 4, 5));
}

GW_TESTS(tensor_blas, it_multiplies_matrices_however_they_lie, it_does_so_without_a_library,
         it_does_not_load_the_library_if_disabled, a_missing_library_is_logged_and_not_used,
         without_memory_for_the_library_it_is_not_used, it_leaves_the_environment_as_it_was,
         it_picks_the_kernels_that_suit_the_cpu, it_wraps_integers_around,
         it_may_be_used_by_many_threads_at_once, it_reports_which_layouts_need_no_copy);
