// Products with matrices of low rank, by loops of our own: their bits are the same on every CPU, while
// those of BLAS are not, and replicas have to stay equal.
//
// M is rows x columns, row by row. P is |rank| vectors of |rows| numbers, Q |rank| vectors of |columns| numbers, one
// after the other.
#ifndef PARALLEL_HOOKS_LOW_RANK_H
#define PARALLEL_HOOKS_LOW_RANK_H

#include <gradwire/tensor.h>

typedef struct low_rank {
    gw_dtype dtype;  // f32 or f64, of all of them
    int64_t rows, columns;
    int rank;
} low_rank;

void low_rank_multiply(const low_rank *x, const void *m, const void *q, void *p);  // P = M Q
// Q = transposed M by P
void low_rank_multiply_transposed(const low_rank *x, const void *m, const void *p, void *q);
// M = P by transposed Q
void low_rank_expand(const low_rank *x, const void *p, const void *q, void *m);

// Makes |count| vectors of |length| orthogonal, of length 1 (Gram-Schmidt). |epsilon| is added to each
// norm; a vector of norm 0 stays as it is.
void low_rank_orthogonalise(gw_dtype dtype, void *vectors, int64_t length, int count,
                            double epsilon);

#endif
