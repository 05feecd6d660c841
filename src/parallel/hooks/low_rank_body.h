// The loops of low_rank.c for one type of number, NUMBER; NAMED(x) is x of that type.

// Eight sums side by side, so that the order is the same with vectors of any width.
static double NAMED(dot)(const NUMBER *a, const NUMBER *b, int64_t count) {
    NUMBER sums[LANES] = { 0 };
    int64_t i = 0;
    for (; i + LANES <= count; i += LANES)
        for (int k = 0; k < LANES; k++) sums[k] += a[i + k] * b[i + k];
    double sum = 0;
    for (int k = 0; k < LANES; k++) sum += (double)sums[k];
    for (; i < count; i++) sum += (double)a[i] * (double)b[i];
    return sum;
}

static void NAMED(add_scaled)(NUMBER *to, const NUMBER *from, NUMBER by, int64_t count) {
    for (int64_t i = 0; i < count; i++) to[i] += by * from[i];
}

static void NAMED(multiply)(const low_rank *x, const NUMBER *m, const NUMBER *q, NUMBER *p) {
    for (int64_t i = 0; i < x->rows; i++)
        for (int k = 0; k < x->rank; k++)
            p[k * x->rows + i] =
                (NUMBER)NAMED(dot)(m + i * x->columns, q + k * x->columns, x->columns);
}

static void NAMED(multiply_transposed)(const low_rank *x, const NUMBER *m, const NUMBER *p,
                                       NUMBER *q) {
    memset(q, 0, (size_t)(x->rank * x->columns) * sizeof *q);
    for (int64_t i = 0; i < x->rows; i++) {
        for (int k = 0; k < x->rank; k++) {
            NUMBER *to = q + k * x->columns;
            NAMED(add_scaled)(to, m + i * x->columns, p[k * x->rows + i], x->columns);
        }
    }
}

static void NAMED(expand)(const low_rank *x, const NUMBER *p, const NUMBER *q, NUMBER *m) {
    memset(m, 0, (size_t)(x->rows * x->columns) * sizeof *m);
    for (int64_t i = 0; i < x->rows; i++) {
        for (int k = 0; k < x->rank; k++) {
            NUMBER *to = m + i * x->columns;
            NAMED(add_scaled)(to, q + k * x->columns, p[k * x->rows + i], x->columns);
        }
    }
}

static void NAMED(orthogonalise)(NUMBER *vectors, int64_t length, int count, double epsilon) {
    for (int k = 0; k < count; k++) {
        NUMBER *v = vectors + k * length;
        double norm = sqrt(NAMED(dot)(v, v, length)) + epsilon;
        for (int64_t i = 0; i < length && norm != 0; i++) v[i] = (NUMBER)((double)v[i] / norm);
        for (int l = k + 1; l < count; l++) {
            NUMBER *w = vectors + l * length;
            NAMED(add_scaled)(w, v, (NUMBER)-NAMED(dot)(v, w, length), length);
        }
    }
}
