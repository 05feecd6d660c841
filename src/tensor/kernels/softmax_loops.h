// Softmax and related loops for one type of number. This file is included once for each type, after sum_loops.h and
// extreme_loops.h, with ELEMENT and NAMED(name) defined; it undefines these macros.

// The function of a number x of a row: e^(x - shift) * scale + offset.
typedef struct NAMED(raise) {
    ELEMENT shift, scale, offset;
} NAMED(raise);

LANES_INLINE void NAMED(raise_row)(const ELEMENT *restrict x, int64_t n, NAMED(raise) how,
                                   ELEMENT *restrict out) {
    for (int64_t i = 0; i < n; i++) out[i] = NAMED(exp)(x[i] - how.shift) * how.scale + how.offset;
}

static void NAMED(raise_rows)(const void *values, int64_t rows, int64_t n, const void *shifts,
                              const void *scales, const void *offsets, void *raised) {
    const ELEMENT *x = values, *shift = shifts, *scale = scales, *offset = offsets;
    ELEMENT *out = raised;
    for (int64_t r = 0; r < rows; r++) {
        NAMED(raise) how = { shift[r], scale[r], offset[r] };
        NAMED(raise_row)(x + r * n, n, how, out + r * n);
    }
}

// The largest number of a row, to subtract before e^x, so that no sum overflows.
static void NAMED(softmax_rows)(const void *values, int64_t rows, int64_t n, void *softmax) {
    const ELEMENT *x = values;
    ELEMENT *out = softmax;
    for (int64_t r = 0; r < rows; r++, x += n, out += n) {
        NAMED(raise) how = { .shift = NAMED(extreme)(x, n, true), .scale = 1 };
        NAMED(raise_row)(x, n, how, out);
        ELEMENT sum = NAMED(sum_row)(out, n);
        for (int64_t i = 0; i < n; i++) out[i] /= sum;
    }
}

// The sum of e^(x - |largest|).
LANES_INLINE ELEMENT NAMED(exp_sum)(const ELEMENT *x, int64_t n, ELEMENT largest) {
    ELEMENT raised[LEAF];
    NAMED(raise) how = { .shift = largest, .scale = 1 };
    NAMED(cascade) sums;
    sums.count = 0;
    for (int64_t i = 0; i < n; i += LEAF) {
        int64_t count = least(n - i, LEAF);
        NAMED(raise_row)(x + i, count, how, raised);
        NAMED(cascade_add)(&sums, NAMED(sum_leaf)(raised, count));
    }
    return NAMED(cascade_total)(&sums);
}

static void NAMED(exp_sum_rows)(const void *values, int64_t rows, int64_t n, void *largest,
                                void *sums) {
    const ELEMENT *x = values;
    ELEMENT *max = largest, *sum = sums;
    for (int64_t r = 0; r < rows; r++) {
        max[r] = NAMED(extreme)(x + r * n, n, true);
        sum[r] = NAMED(exp_sum)(x + r * n, n, max[r]);
    }
}

static void NAMED(log_softmax_rows)(const void *values, int64_t rows, int64_t n, void *logs) {
    const ELEMENT *x = values;
    ELEMENT *out = logs;
    for (int64_t r = 0; r < rows; r++, x += n, out += n) {
        ELEMENT max = NAMED(extreme)(x, n, true);
        ELEMENT total = (ELEMENT)log((double)NAMED(exp_sum)(x, n, max));
        // One after the other: together they would lose the digits of the smaller.
        for (int64_t i = 0; i < n; i++) out[i] = x[i] - max - total;
    }
}

// The sum of a * b.
LANES_INLINE ELEMENT NAMED(dot)(const ELEMENT *a, const ELEMENT *b, int64_t n) {
    ELEMENT products[LEAF];
    NAMED(cascade) sums;
    sums.count = 0;
    for (int64_t i = 0; i < n; i += LEAF) {
        int64_t count = least(n - i, LEAF);
        for (int64_t j = 0; j < count; j++) products[j] = a[i + j] * b[i + j];
        NAMED(cascade_add)(&sums, NAMED(sum_leaf)(products, count));
    }
    return NAMED(cascade_total)(&sums);
}

// dx = y (dy - sum of dy y), where y = softmax x.
static void NAMED(softmax_back_rows)(const void *dys, const void *ys, int64_t rows, int64_t n,
                                     void *dxs) {
    const ELEMENT *dy = dys, *y = ys;
    ELEMENT *dx = dxs;
    for (int64_t r = 0; r < rows; r++, dy += n, y += n, dx += n) {
        ELEMENT sum = NAMED(dot)(dy, y, n);
        for (int64_t i = 0; i < n; i++) dx[i] = y[i] * (dy[i] - sum);
    }
}

// dx = dy - e^y sum of dy, where y = log softmax x.
static void NAMED(log_softmax_back_rows)(const void *dys, const void *ys, int64_t rows, int64_t n,
                                         void *dxs) {
    const ELEMENT *dy = dys, *y = ys;
    ELEMENT *dx = dxs;
    for (int64_t r = 0; r < rows; r++, dy += n, y += n, dx += n) {
        NAMED(raise) how = { .scale = NAMED(sum_row)(dy, n) };
        NAMED(raise_row)(y, n, how, dx);
        for (int64_t i = 0; i < n; i++) dx[i] = dy[i] - dx[i];
    }
}

#undef ELEMENT
#undef NAMED
