// Matrix products of a CBLAS library, if one is found.
//
// The library is loaded at the first product, with the kernels that fit this CPU and with one thread. Two environment
// variables decide otherwise: GW_BLAS names another library with CBLAS's functions, or "plain" for our own loops;
// GW_BLAS_THREADS sets the number of threads. The same operands give the same bits on one machine.
//
// Threads: any.
#ifndef TENSOR_KERNELS_BLAS_H
#define TENSOR_KERNELS_BLAS_H

#include <stdbool.h>
#include <stdint.h>

#include <gradwire/tensor.h>

// A matrix as the operand of a product: strides in elements, any at all.
typedef struct matrix {
    const void *values;
    int64_t row_stride, column_stride;
} matrix;

// c = a times b, or c += a times b if |add|. a: M K, b: K N, c: M N with rows |c_stride| apart,
// overlapping neither.
// |dtype| is f32, f64 or i64; i64 wraps around.
void blas_multiply(gw_dtype dtype, int64_t m, int64_t n, int64_t k, matrix a, matrix b, void *c,
                   int64_t c_stride, bool add);

// Whether blas_multiply is fast for |x| (|rows| times |columns|) as it lies. A copy is worth it if
// not.
bool matrix_is_fast(matrix x, int64_t rows, int64_t columns);

// The implementation: "plain", or the library's description of itself ("OpenBLAS 0.3.21 ... SkylakeX").
const char *blas_description(void);

// The same by our own loops, which need no library.
void blas_multiply_plain(gw_dtype dtype, int64_t m, int64_t n, int64_t k, matrix a, matrix b,
                         void *c, int64_t c_stride, bool add);

#endif
