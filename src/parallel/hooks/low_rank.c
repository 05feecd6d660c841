#include "parallel/hooks/low_rank.h"

#include <math.h>
#include <string.h>

enum { LANES = 8 };

#define NUMBER float
#define NAMED(x) x##_f32
#include "parallel/hooks/low_rank_body.h"
#undef NUMBER
#undef NAMED
#define NUMBER double
#define NAMED(x) x##_f64
#include "parallel/hooks/low_rank_body.h"

void low_rank_multiply(const low_rank *x, const void *m, const void *q, void *p) {
    if (x->dtype == GW_F64)
        multiply_f64(x, m, q, p);
    else
        multiply_f32(x, m, q, p);
}

void low_rank_multiply_transposed(const low_rank *x, const void *m, const void *p, void *q) {
    if (x->dtype == GW_F64)
        multiply_transposed_f64(x, m, p, q);
    else
        multiply_transposed_f32(x, m, p, q);
}

void low_rank_expand(const low_rank *x, const void *p, const void *q, void *m) {
    if (x->dtype == GW_F64)
        expand_f64(x, p, q, m);
    else
        expand_f32(x, p, q, m);
}

void low_rank_orthogonalise(gw_dtype dtype, void *vectors, int64_t length, int count,
                            double epsilon) {
    if (dtype == GW_F64)
        orthogonalise_f64(vectors, length, count, epsilon);
    else
        orthogonalise_f32(vectors, length, count, epsilon);
}
