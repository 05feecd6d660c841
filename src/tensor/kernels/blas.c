#include "tensor/kernels/blas.h"

#include "base/log.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdlib.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "base/system_error.h"

// CBLAS's enumerations, which are part of its interface.
enum { ROW_MAJOR = 101, NOT_TRANSPOSED = 111, TRANSPOSED = 112 };

typedef void sgemm_function(int order, int a_form, int b_form, int m, int n, int k, float alpha,
                            const float *a, int a_stride, const float *b, int b_stride, float beta,
                            float *c, int c_stride);
typedef void dgemm_function(int order, int a_form, int b_form, int m, int n, int k, double alpha,
                            const double *a, int a_stride, const double *b, int b_stride,
                            double beta, double *c, int c_stride);

typedef void sgemv_function(int order, int a_form, int m, int n, float alpha, const float *a,
                            int a_stride, const float *x, int x_stride, float beta, float *y,
                            int y_stride);
typedef void dgemv_function(int order, int a_form, int m, int n, double alpha, const double *a,
                            int a_stride, const double *x, int x_stride, double beta, double *y,
                            int y_stride);

static struct {
    sgemm_function *sgemm;  // both NULL: our own loops
    dgemm_function *dgemm;
    sgemv_function *sgemv;  // may be NULL
    dgemv_function *dgemv;
    const char *description;
} library = { .description = "plain" };

static pthread_once_t load_once = PTHREAD_ONCE_INIT;

// OpenBLAS picks its kernels by a list of CPU models and falls back to those of an old one (0.3.21:
// Haswell's on Zen 5, Prescott's on Sapphire Rapids), so we name the features of this CPU.
static const char *core_type(void) {
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl"))
        return "SkylakeX";
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return "Haswell";
#endif
    return NULL;
}

// Sets |name| unless the user did. Returns whether it has to be taken back.
static bool set_for_load(const char *name, const char *value) {
    return value && !getenv(name) && setenv(name, value, 1) == 0;
}

// Opens |wanted| or, if it is not set, whichever of the usual names there is.
static void *open_library(const char *wanted, int flags) {
    static const char *const usual[] = { "libopenblas.so.0", "libopenblas.so" };
    if (wanted && *wanted) return dlopen(wanted, RTLD_NOW | RTLD_LOCAL | flags);
    void *handle = NULL;
    for (size_t i = 0; !handle && i < sizeof usual / sizeof *usual; i++)
        handle = dlopen(usual[i], RTLD_NOW | RTLD_LOCAL | flags);
    return handle;
}

// The number of threads in the variable, 0 without.
static int threads_wanted(void) {
    const char *text = getenv("GW_BLAS_THREADS");
    long count = text ? strtol(text, NULL, 10) : 0;
    return count >= 1 && count <= 1024 ? (int)count : 0;
}

// If no library is named, plain loops are used without a log line.
static void log_unusable(const char *wanted, const char *reason) {
    if (!wanted || !*wanted) return;
    log_line("GW_BLAS=%.200s cannot be used: %.300s. Matrices are multiplied by the library's own "
             "loops, which are slow; set it to \"plain\", or to a CBLAS library such as "
             "libopenblas.so.0",
             wanted, reason ? reason : "it was not found");
}

// OpenBLAS maps 128 MiB for each thread that multiplies, and tries again for ever where that fails: for a limit of
// addresses (RLIMIT_AS) or of private memory (RLIMIT_DATA), or since the system promises no more than it has
// (vm.overcommit_memory=2). So memory for eight threads is mapped here first, and given back untouched.
static bool has_room(void) {
    static const size_t wanted = (size_t)1 << 30;
    void *room = mmap(NULL, wanted, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (room != MAP_FAILED) {
        munmap(room, wanted);
        return true;
    }
    log_line(
        "OpenBLAS is not used, because it may need %zu MiB of memory, and products are slower: %s",
        wanted >> 20, system_error_text(errno).text);
    return false;
}

static void load(void) {
    const char *wanted = getenv("GW_BLAS");
    if (wanted && strcmp(wanted, "plain") == 0) return;
    if (!has_room()) return;

    // Other code in this process may use it already, and with more threads.
    void *handle = open_library(wanted, RTLD_NOLOAD);
    bool is_shared = handle != NULL;

    // The library reads these while it is loaded, and would start a thread per CPU.
    bool core_set = set_for_load("OPENBLAS_CORETYPE", core_type());
    bool threads_set = set_for_load("OPENBLAS_NUM_THREADS", "1");
    if (!handle) handle = open_library(wanted, 0);
    if (threads_set) unsetenv("OPENBLAS_NUM_THREADS");
    if (core_set) unsetenv("OPENBLAS_CORETYPE");
    if (!handle) {
        log_unusable(wanted, dlerror());
        return;
    }

    sgemm_function *sgemm = (sgemm_function *)dlsym(handle, "cblas_sgemm");
    dgemm_function *dgemm = (dgemm_function *)dlsym(handle, "cblas_dgemm");
    if (!sgemm || !dgemm) {
        log_unusable(wanted, "it has no cblas_sgemm");
        dlclose(handle);
        return;
    }
    void (*set_threads)(int) = (void (*)(int))dlsym(handle, "openblas_set_num_threads");
    int threads = threads_wanted();
    if (set_threads && (threads || !is_shared)) set_threads(threads ? threads : 1);
    char *(*describe)(void) = (char *(*)(void))dlsym(handle, "openblas_get_config");
    library.sgemv = (sgemv_function *)dlsym(handle, "cblas_sgemv");
    library.dgemv = (dgemv_function *)dlsym(handle, "cblas_dgemv");
    library.sgemm = sgemm;
    library.dgemm = dgemm;
    library.description = describe ? describe() : "CBLAS";
}

const char *blas_description(void) {
    pthread_once(&load_once, load);
    return library.description;
}

// CBLAS takes a matrix whose rows or whose columns are contiguous. Fills in the form of |x| for it.
static bool as_cblas(matrix x, int64_t rows, int64_t columns, int *form, int *stride) {
    // The stride along a dimension of size 1 is meaningless.
    bool by_rows = (x.column_stride == 1 || columns == 1) && (x.row_stride >= columns || rows == 1);
    bool by_columns = (x.row_stride == 1 || rows == 1) && (x.column_stride >= rows || columns == 1);
    if (!by_rows && !by_columns) return false;
    int64_t length = by_rows ? columns : rows;
    int64_t wanted = by_rows ? x.row_stride : x.column_stride;
    if ((by_rows ? rows : columns) == 1) wanted = length;
    if (wanted > INT_MAX) return false;
    *form = by_rows ? NOT_TRANSPOSED : TRANSPOSED;
    *stride = (int)(wanted > 1 ? wanted : 1);
    return true;
}

bool matrix_is_fast(matrix x, int64_t rows, int64_t columns) {
    int form, stride;
    return as_cblas(x, rows, columns, &form, &stride);
}

// A row of few numbers times adjacent columns: a small layer on one observation. Products with vectors
// are faster at that than those with matrices, up to about this many numbers.
enum { SHORT_ROW_MAX = 32 };

static bool is_short_row(int64_t m, int64_t k, matrix a, int b_form) {
    return m == 1 && k <= SHORT_ROW_MAX && b_form == TRANSPOSED && a.column_stride >= 1 &&
           a.column_stride <= INT_MAX && library.sgemv && library.dgemv;
}

void blas_multiply(gw_dtype dtype, int64_t m, int64_t n, int64_t k, matrix a, matrix b, void *c,
                   int64_t c_stride, bool add) {
    if (m < 1 || n < 1) return;
    pthread_once(&load_once, load);
    int a_form, a_stride, b_form, b_stride;
    if (!library.sgemm || (dtype != GW_F32 && dtype != GW_F64) || k < 1 || m > INT_MAX ||
        n > INT_MAX || k > INT_MAX || c_stride > INT_MAX ||
        !as_cblas(a, m, k, &a_form, &a_stride) || !as_cblas(b, k, n, &b_form, &b_stride)) {
        blas_multiply_plain(dtype, m, n, k, a, b, c, c_stride, add);
        return;
    }
    if (is_short_row(m, k, a, b_form)) {
        int step = (int)a.column_stride;
        if (dtype == GW_F32)
            library.sgemv(ROW_MAJOR, NOT_TRANSPOSED, (int)n, (int)k, 1, b.values, b_stride,
                          a.values, step, add, c, 1);
        else
            library.dgemv(ROW_MAJOR, NOT_TRANSPOSED, (int)n, (int)k, 1, b.values, b_stride,
                          a.values, step, add, c, 1);
        return;
    }
    if (dtype == GW_F32)
        library.sgemm(ROW_MAJOR, a_form, b_form, (int)m, (int)n, (int)k, 1, a.values, a_stride,
                      b.values, b_stride, add, c, (int)c_stride);
    else
        library.dgemm(ROW_MAJOR, a_form, b_form, (int)m, (int)n, (int)k, 1, a.values, a_stride,
                      b.values, b_stride, add, c, (int)c_stride);
}
