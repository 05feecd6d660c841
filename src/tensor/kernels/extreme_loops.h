// The largest or smallest numbers, for one type of number. This file is included once for each type, with ELEMENT,
// VECTOR (LANES_BYTES of them), MASK (integers as wide), UNORDERED(x) (whether x is NaN) and NAMED(name) defined; it
// undefines these macros.

LANES_INLINE bool NAMED(is_better)(ELEMENT x, ELEMENT best, bool largest) {
    return (largest ? x > best : x < best) | !!UNORDERED(x);
}

// The largest of |n| > 0 numbers, or the smallest; NaN if one of them is NaN.
LANES_INLINE ELEMENT NAMED(extreme)(const ELEMENT *x, int64_t n, bool largest) {
    enum { WIDTH = sizeof(VECTOR) / sizeof(ELEMENT) };
    ELEMENT best = x[0];
    int64_t i = 0;
    if (n >= WIDTH) {
        // As bits, to choose with.
        MASK m = *(const MASK *)x;
        for (; i + WIDTH <= n; i += WIDTH) {
            VECTOR v = *(const VECTOR *)(x + i), old = (VECTOR)m;
            MASK better = (MASK)(largest ? v > old : v < old) | (MASK)UNORDERED(v);
            m = (better & (MASK)v) | (~better & m);
        }
        ELEMENT lanes[WIDTH];
        memcpy(lanes, &m, sizeof lanes);
        best = lanes[0];
        for (int j = 1; j < WIDTH; j++)
            if (NAMED(is_better)(lanes[j], best, largest)) best = lanes[j];
    }
    for (; i < n; i++)
        if (NAMED(is_better)(x[i], best, largest)) best = x[i];
    return best;
}

// |largest| is a constant of each loop.
static void NAMED(extreme_rows)(const void *values, int64_t rows, int64_t n, bool largest,
                                void *extremes) {
    const ELEMENT *x = values;
    ELEMENT *out = extremes;
    for (int64_t r = 0; r < rows; r++, x += n)
        out[r] = largest ? NAMED(extreme)(x, n, true) : NAMED(extreme)(x, n, false);
}

// Down |n| > 0 rows, with the best so far of each column in |out|.
LANES_INLINE void NAMED(extremes_down)(const ELEMENT *x, int64_t n, int64_t inner, bool largest,
                                       ELEMENT *restrict out) {
    memcpy(out, x, (size_t)inner * sizeof *out);
    for (int64_t r = 1; r < n; r++) {
        const ELEMENT *row = x + r * inner;
        for (int64_t i = 0; i < inner; i++)
            out[i] = NAMED(is_better)(row[i], out[i], largest) ? row[i] : out[i];
    }
}

static void NAMED(extreme_columns)(const void *values, int64_t outer, int64_t n, int64_t inner,
                                   bool largest, void *extremes) {
    const ELEMENT *x = values;
    ELEMENT *out = extremes;
    for (int64_t o = 0; o < outer; o++, x += n * inner, out += inner) {
        if (largest)
            NAMED(extremes_down)(x, n, inner, true, out);
        else
            NAMED(extremes_down)(x, n, inner, false, out);
    }
}

#undef ELEMENT
#undef VECTOR
#undef MASK
#undef UNORDERED
#undef NAMED
