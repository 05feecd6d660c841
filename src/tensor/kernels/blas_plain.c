// Products without a library.
#include "tensor/kernels/kernels.h"

#include <string.h>

static void clear(uint8_t *c, int64_t m, size_t row_bytes, size_t stride_bytes) {
    for (int64_t i = 0; i < m; i++) memset(c + (size_t)i * stride_bytes, 0, row_bytes);
}

void blas_multiply_plain(gw_dtype dtype, int64_t m, int64_t n, int64_t k, matrix a, matrix b,
                         void *c, int64_t c_stride, bool add) {
    size_t size = gw_dtype_size(dtype);
    if (k == 0 && !add) clear(c, m, (size_t)n * size, (size_t)c_stride * size);
    kernels_get()->multiply[kernel_type_of(dtype)](m, n, k, a, b, c, c_stride, add);
}
