// Products without a library: blocked so that what is used again is still in the cache, in vectors the compiler makes.
#include "tensor/blas.h"
#include "tensor/lanes.h"

enum {
    TILE_ROWS = 4,      // rows whose sums are in registers at a time
    BLOCK_ROWS = 128,   // rows that use a packed strip of b
    BLOCK_DEPTH = 256,  // a strip has 128 bytes for each of these: 32 KiB
};

static inline int64_t least(int64_t a, int64_t b) {
    return a < b ? a : b;
}

#define ELEMENT float
#define VECTOR f32x16
#define NAMED(name) name##_f32
#include "tensor/blas_plain_loops.h"

#define ELEMENT double
#define VECTOR f64x8
#define NAMED(name) name##_f64
#include "tensor/blas_plain_loops.h"

// Unsigned, because integers wrap around.
#define ELEMENT uint64_t
#define VECTOR u64x8
#define NAMED(name) name##_i64
#include "tensor/blas_plain_loops.h"

static void clear(uint8_t *c, int64_t m, size_t row_bytes, size_t stride_bytes) {
    for (int64_t i = 0; i < m; i++) memset(c + (size_t)i * stride_bytes, 0, row_bytes);
}

void blas_multiply_plain(gw_dtype dtype, int64_t m, int64_t n, int64_t k, matrix a, matrix b,
                         void *c, int64_t c_stride, bool add) {
    size_t size = gw_dtype_size(dtype);
    if (k == 0 && !add) clear(c, m, (size_t)n * size, (size_t)c_stride * size);
    if (dtype == GW_F32)
        multiply_f32(m, n, k, a, b, c, c_stride, add);
    else if (dtype == GW_F64)
        multiply_f64(m, n, k, a, b, c, c_stride, add);
    else
        multiply_i64(m, n, k, a, b, c, c_stride, add);
}
