// Normalisation for one type of number: of rows, and of channels, whose mean is given. This file is included once for
// each type, after sum_loops.h and moments, with ELEMENT and NAMED(name) defined; it undefines these macros.

LANES_INLINE moments NAMED(row_moments)(const ELEMENT *x, int64_t n) {
    moments m;
    NAMED(moments)(x, n, &m);
    return m;
}

static ELEMENT NAMED(scale_of)(moments m, int64_t n, double eps) {
    return (ELEMENT)(1 / sqrt(m.squares / (double)n + eps));
}

static void NAMED(norm_rows)(const void *values, int64_t rows, int64_t n, double eps,
                             const void *weights, const void *biases, void *normal) {
    const ELEMENT *x = values, *weight = weights, *bias = biases;
    ELEMENT *out = normal;
    for (int64_t r = 0; r < rows; r++, x += n, out += n) {
        moments m = NAMED(row_moments)(x, n);
        ELEMENT mean = (ELEMENT)m.mean, scale = NAMED(scale_of)(m, n, eps);
        for (int64_t i = 0; i < n; i++) out[i] = (x[i] - mean) * scale;
        for (int64_t i = 0; weight && i < n; i++) out[i] *= weight[i];
        for (int64_t i = 0; bias && i < n; i++) out[i] += bias[i];
    }
}

// With z the normalised x and a = dy weight: dx = (a - mean of a - z mean of (a z)) / deviation.
static void NAMED(norm_back_rows)(const void *dys, const void *values, int64_t rows, int64_t n,
                                  double eps, const void *weights, void *dxs) {
    const ELEMENT *dy = dys, *x = values, *weight = weights;
    ELEMENT *dx = dxs;
    for (int64_t r = 0; r < rows; r++, dy += n, x += n, dx += n) {
        moments m = NAMED(row_moments)(x, n);
        ELEMENT mean = (ELEMENT)m.mean, scale = NAMED(scale_of)(m, n, eps);
        NAMED(cascade) sum = { .count = 0 }, sum_z = { .count = 0 };
        for (int64_t first = 0; first < n; first += LEAF) {
            ELEMENT a[LEAF];  // and then a z
            int64_t count = least(n - first, LEAF);
            for (int64_t i = 0; i < count; i++)
                a[i] = weight ? dy[first + i] * weight[first + i] : dy[first + i];
            NAMED(cascade_add)(&sum, NAMED(sum_leaf)(a, count));
            for (int64_t i = 0; i < count; i++) a[i] *= (x[first + i] - mean) * scale;
            NAMED(cascade_add)(&sum_z, NAMED(sum_leaf)(a, count));
        }
        ELEMENT mean_a = NAMED(cascade_total)(&sum) / (ELEMENT)n;
        ELEMENT mean_z = NAMED(cascade_total)(&sum_z) / (ELEMENT)n;
        for (int64_t i = 0; i < n; i++) {
            ELEMENT a = weight ? dy[i] * weight[i] : dy[i];
            dx[i] = (a - mean_a - (x[i] - mean) * scale * mean_z) * scale;
        }
    }
}

// z * dy, whose sum over rows is the gradient of the weight.
static void NAMED(norm_product_rows)(const void *dys, const void *values, int64_t rows, int64_t n,
                                     double eps, void *products) {
    const ELEMENT *dy = dys, *x = values;
    ELEMENT *out = products;
    for (int64_t r = 0; r < rows; r++, dy += n, x += n, out += n) {
        moments m = NAMED(row_moments)(x, n);
        ELEMENT mean = (ELEMENT)m.mean, scale = NAMED(scale_of)(m, n, eps);
        for (int64_t i = 0; i < n; i++) out[i] = (x[i] - mean) * scale * dy[i];
    }
}

static void NAMED(shift_scale)(const void *values, int64_t n, double mean, double scale,
                               double offset, void *outs) {
    const ELEMENT *restrict x = values;
    ELEMENT *restrict out = outs;
    ELEMENT m = (ELEMENT)mean, a = (ELEMENT)scale, b = (ELEMENT)offset;
    for (int64_t i = 0; i < n; i++) out[i] = (x[i] - m) * a + b;
}

static void NAMED(shifted_sums)(const void *ds, const void *values, int64_t n, double mean,
                                double *sums) {
    const ELEMENT *d = ds, *x = values;
    ELEMENT m = (ELEMENT)mean;
    NAMED(cascade) products = { .count = 0 };
    for (int64_t first = 0; first < n; first += LEAF) {
        ELEMENT a[LEAF];
        int64_t count = least(n - first, LEAF);
        for (int64_t i = 0; i < count; i++) a[i] = d[first + i] * (x[first + i] - m);
        NAMED(cascade_add)(&products, NAMED(sum_leaf)(a, count));
    }
    sums[0] = (double)NAMED(sum_row)(d, n);
    sums[1] = (double)NAMED(cascade_total)(&products);
}

static void NAMED(shift_scale_back)(const void *ds, const void *values, int64_t n, double mean,
                                    double shift, double slope, double scale, void *dxs) {
    const ELEMENT *restrict d = ds, *restrict x = values;
    ELEMENT *restrict dx = dxs;
    ELEMENT m = (ELEMENT)mean, a = (ELEMENT)shift, b = (ELEMENT)slope, c = (ELEMENT)scale;
    // Without a slope x counts for nothing, even if it is infinite.
    for (int64_t i = 0; b == 0 && i < n; i++) dx[i] = (d[i] - a) * c;
    for (int64_t i = 0; b != 0 && i < n; i++) dx[i] = (d[i] - a - (x[i] - m) * b) * c;
}

#undef ELEMENT
#undef NAMED
