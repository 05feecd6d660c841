#include "parallel/hooks/low_rank.h"
#include "testing/testing.h"

#include <math.h>

enum { ROWS = 5, COLUMNS = 19, RANK = 2 };

static double number(int i) {
    return (double)(i * 37 % 23 - 11) / 8;
}

typedef struct matrices {
    double m[ROWS * COLUMNS], p[RANK * ROWS], q[RANK * COLUMNS];
} matrices;

static const low_rank shape = { GW_F64, ROWS, COLUMNS, RANK };

static void fill(matrices *x) {
    for (int i = 0; i < ROWS * COLUMNS; i++) x->m[i] = number(i);
    for (int i = 0; i < RANK * ROWS; i++) x->p[i] = number(i + 100);
    for (int i = 0; i < RANK * COLUMNS; i++) x->q[i] = number(i + 200);
}

static void products_are_those_of_the_definition(void **state) {
    (void)state;
    matrices x;
    double p[RANK * ROWS], q[RANK * COLUMNS], m[ROWS * COLUMNS];
    fill(&x);
    low_rank_multiply(&shape, x.m, x.q, p);
    low_rank_multiply_transposed(&shape, x.m, x.p, q);
    low_rank_expand(&shape, x.p, x.q, m);
    for (int k = 0; k < RANK; k++) {
        for (int i = 0; i < ROWS; i++) {
            double sum = 0;
            for (int j = 0; j < COLUMNS; j++) sum += x.m[i * COLUMNS + j] * x.q[k * COLUMNS + j];
            assert_true(p[k * ROWS + i] == sum);  // all of them are exact
        }
        for (int j = 0; j < COLUMNS; j++) {
            double sum = 0;
            for (int i = 0; i < ROWS; i++) sum += x.m[i * COLUMNS + j] * x.p[k * ROWS + i];
            assert_true(q[k * COLUMNS + j] == sum);
        }
    }
    for (int i = 0; i < ROWS; i++)
        for (int j = 0; j < COLUMNS; j++)
            assert_true(m[i * COLUMNS + j] == x.p[i] * x.q[j] + x.p[ROWS + i] * x.q[COLUMNS + j]);
}

static void narrow_numbers_give_the_same(void **state) {
    (void)state;
    matrices x;
    float m[ROWS * COLUMNS], q[RANK * COLUMNS], p[RANK * ROWS];
    double wide[RANK * ROWS];
    low_rank narrow = shape;
    narrow.dtype = GW_F32;
    fill(&x);
    for (int i = 0; i < ROWS * COLUMNS; i++) m[i] = (float)x.m[i];
    for (int i = 0; i < RANK * COLUMNS; i++) q[i] = (float)x.q[i];
    low_rank_multiply(&narrow, m, q, p);
    low_rank_multiply(&shape, x.m, x.q, wide);
    for (int i = 0; i < RANK * ROWS; i++) assert_true(p[i] == (float)wide[i]);
}

static double dot(const double *a, const double *b) {
    double sum = 0;
    for (int i = 0; i < COLUMNS; i++) sum += a[i] * b[i];
    return sum;
}

static void vectors_become_orthogonal(void **state) {
    (void)state;
    double v[3 * COLUMNS];
    for (int i = 0; i < 3 * COLUMNS; i++) v[i] = number(i * i);
    low_rank_orthogonalise(GW_F64, v, COLUMNS, 3, 0);
    for (int k = 0; k < 3; k++)
        for (int l = 0; l < 3; l++)
            assert_true(fabs(dot(v + k * COLUMNS, v + l * COLUMNS) - (k == l)) < 1e-12);
}

// A layer that no member has used has a gradient of zeros.
static void a_vector_of_zeros_stays(void **state) {
    (void)state;
    double v[2 * COLUMNS] = { 0 };
    v[COLUMNS] = 3;
    low_rank_orthogonalise(GW_F64, v, COLUMNS, 2, 0);
    assert_true(v[0] == 0 && v[COLUMNS] == 1);
    low_rank_orthogonalise(GW_F64, v, COLUMNS, 2, 1e-8);
    assert_true(v[0] == 0 && v[COLUMNS] < 1 && v[COLUMNS] > 0.999);
}

GW_TESTS(parallel_low_rank, products_are_those_of_the_definition, narrow_numbers_give_the_same,
         vectors_become_orthogonal, a_vector_of_zeros_stays);
