// Kernels: the loops that take most of the time, compiled for several kinds of CPU.
//
// kernels_body.h is compiled for any CPU, for AVX2 and for AVX-512; the first use picks what this
// CPU can do. All three versions sum over the same lanes in the same order, and none fuses a multiplication with an
// addition, so all versions give the same bits. Kernels work on plain arrays, never fail and need no memory.
//
// Threads: any.
#ifndef TENSOR_KERNELS_KERNELS_H
#define TENSOR_KERNELS_KERNELS_H

#include "tensor/kernels/blas.h"

// The mean of some numbers, and the sum of the squares of their distances from it.
typedef struct moments {
    double mean, squares;
} moments;

// Types of numbers that have kernels of their own. KERNEL_I64 wraps around.
typedef enum kernel_type { KERNEL_F32, KERNEL_F64, KERNEL_I64, KERNEL_TYPE_COUNT } kernel_type;

typedef struct kernels {
    const char *name;
    const struct loops *loops;  // for the same CPU

    // c = a b, or c += a b. See blas_multiply.
    void (*multiply[KERNEL_TYPE_COUNT])(int64_t m, int64_t n, int64_t k, matrix a, matrix b,
                                        void *c, int64_t c_stride, bool add);

    // out[r] = sum of row r, or its largest or smallest number. Extremes need n > 0 and are NaN if one number is.
    void (*sum_rows[KERNEL_TYPE_COUNT])(const void *x, int64_t rows, int64_t n, void *out);
    void (*extreme_rows[KERNEL_TYPE_COUNT])(const void *x, int64_t rows, int64_t n, bool largest,
                                            void *out);

    // out[o, i] = the same over j of x[o, j, i]. x: outer n inner.
    void (*sum_columns[KERNEL_TYPE_COUNT])(const void *x, int64_t outer, int64_t n, int64_t inner,
                                           void *out);
    void (*extreme_columns[KERNEL_TYPE_COUNT])(const void *x, int64_t outer, int64_t n,
                                               int64_t inner, bool largest, void *out);

    // For floats only.
    void (*moments[2])(const void *x, int64_t n, moments *out);
    void (*softmax_rows[2])(const void *x, int64_t rows, int64_t n, void *out);
    void (*log_softmax_rows[2])(const void *x, int64_t rows, int64_t n, void *out);
    void (*softmax_back_rows[2])(const void *dy, const void *y, int64_t rows, int64_t n, void *dx);
    void (*log_softmax_back_rows[2])(const void *dy, const void *y, int64_t rows, int64_t n,
                                     void *dx);

    // The largest number of each row, and the sum of e^(x - largest); n > 0.
    void (*exp_sum_rows[2])(const void *x, int64_t rows, int64_t n, void *largest, void *sum);

    // out[r, i] = scale[r] * e^(x[r, i] - shift[r]) + offset[r].
    void (*raise_rows[2])(const void *x, int64_t rows, int64_t n, const void *shift,
                          const void *scale, const void *offset, void *out);

    // The loss of each number; |beta| is smooth_l1's.
    void (*mse[2])(const void *x, const void *target, int64_t n, double beta, void *out);
    void (*bce[2])(const void *x, const void *target, int64_t n, double beta, void *out);
    void (*smooth_l1[2])(const void *x, const void *target, int64_t n, double beta, void *out);
    void (*l1[2])(const void *x, const void *target, int64_t n, double beta, void *out);
    void (*kl_div[2])(const void *x, const void *target, int64_t n, double beta, void *out);
    void (*kl_div_log[2])(const void *x, const void *target, int64_t n, double beta, void *out);

    // out = x times 0 or |scale|, by the mask; the mask is 1 for words below |limit|.
    void (*apply_mask[2])(const void *x, const uint8_t *mask, double scale, int64_t n, void *out);
    void (*draw_mask)(const uint32_t *words, uint64_t limit, int64_t n, uint8_t *mask);

    // Layer normalisation of rows: z = (x - mean) / sqrt(variance + eps), out = z * weight + bias,
    // of which either may be NULL; its derivative for x; and z * dy, of which that for the weight
    // is the sum over rows.
    void (*norm_rows[2])(const void *x, int64_t rows, int64_t n, double eps, const void *weight,
                         const void *bias, void *out);
    void (*norm_back_rows[2])(const void *dy, const void *x, int64_t rows, int64_t n, double eps,
                              const void *weight, void *dx);
    void (*norm_product_rows[2])(const void *dy, const void *x, int64_t rows, int64_t n, double eps,
                                 void *out);

    // Batch normalisation of a run of one channel: out = (x - mean) * scale + offset; the sums of d
    // and of d (x - mean); and dx = (d - shift - (x - mean) * slope) * scale.
    void (*shift_scale[2])(const void *x, int64_t n, double mean, double scale, double offset,
                           void *out);
    void (*shifted_sums[2])(const void *d, const void *x, int64_t n, double mean, double *sums);
    void (*shift_scale_back[2])(const void *d, const void *x, int64_t n, double mean, double shift,
                                double slope, double scale, void *dx);

    // The four words of each of |blocks| blocks of Philox from |first| on.
    void (*random_words)(uint64_t key, uint64_t first, int64_t blocks, uint32_t *out);
} kernels;

extern const kernels kernels_any, kernels_avx2, kernels_avx512;

// Those for this CPU. GW_KERNELS=any or =avx2 chooses slower ones.
const kernels *kernels_get(void);

// Whether this CPU can run |k|.
bool kernels_run_here(const kernels *k);

static inline kernel_type kernel_type_of(gw_dtype dtype) {
    return dtype == GW_F32 ? KERNEL_F32 : dtype == GW_F64 ? KERNEL_F64 : KERNEL_I64;
}

#endif
