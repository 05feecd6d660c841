// Sums for one type of number. This file is included once for each type, with ELEMENT, VECTOR (LANES_BYTES of them) and
// NAMED(name) defined; it undefines these macros.

enum {
    NAMED(vector) = sizeof(VECTOR) / sizeof(ELEMENT),
    NAMED(group) = 64 / sizeof(ELEMENT),
    NAMED(quarter) = 16 / sizeof(ELEMENT)
};

typedef LANES_OF(ELEMENT, 16) NAMED(quarters);

typedef struct NAMED(cascade) {
    uint64_t count;
    ELEMENT levels[CASCADE_LEVELS];
} NAMED(cascade);

// See Note [Summing by halves].
LANES_INLINE void NAMED(cascade_add)(NAMED(cascade) * sums, ELEMENT x) {
    int level = 0;
    for (uint64_t n = sums->count++; n & 1; n >>= 1) x = sums->levels[level++] + x;
    sums->levels[level] = x;
}

LANES_INLINE ELEMENT NAMED(cascade_total)(const NAMED(cascade) * sums) {
    ELEMENT total = 0;
    int level = 0;
    for (uint64_t n = sums->count; n; n >>= 1, level++)
        if (n & 1) total = sums->levels[level] + total;
    return total;
}

// The sum of a group of lanes: halves on each other until one is left.
LANES_INLINE ELEMENT NAMED(fold)(const VECTOR *group) {
    NAMED(quarters) q[4];
    memcpy(q, group, 64);
    q[0] = (q[0] + q[2]) + (q[1] + q[3]);
    ELEMENT lanes[NAMED(quarter)];
    memcpy(lanes, q, 16);
    return NAMED(quarter) == 4
               ? (lanes[0] + lanes[NAMED(quarter) / 2]) + (lanes[1] + lanes[NAMED(quarter) - 1])
               : lanes[0] + lanes[1];
}

LANES_INLINE ELEMENT NAMED(sum_leaf)(const ELEMENT *x, int64_t n) {
    ELEMENT rest = 0;
    int64_t i = 0;
    if (n >= NAMED(group)) {
        VECTOR s[4 * LANES_GROUP];
#pragma GCC unroll 16
        for (int w = 0; w < 4 * LANES_GROUP; w++) s[w] = (VECTOR){ 0 };
        for (; i + 4 * NAMED(group) <= n; i += 4 * NAMED(group)) {
#pragma GCC unroll 16
            for (int w = 0; w < 4 * LANES_GROUP; w++) s[w] += ((const VECTOR *)(x + i))[w];
        }
        for (; i + NAMED(group) <= n; i += NAMED(group)) {
#pragma GCC unroll 4
            for (int w = 0; w < LANES_GROUP; w++) s[w] += ((const VECTOR *)(x + i))[w];
        }
#pragma GCC unroll 4
        for (int w = 0; w < LANES_GROUP; w++)
            s[w] = (s[w] + s[w + LANES_GROUP]) + (s[w + 2 * LANES_GROUP] + s[w + 3 * LANES_GROUP]);
        rest = NAMED(fold)(s);
    }
    for (; i < n; i++) rest += x[i];
    return rest;
}

LANES_INLINE ELEMENT NAMED(sum_row)(const ELEMENT *x, int64_t n) {
    if (n <= LEAF) return NAMED(sum_leaf)(x, n);
    NAMED(cascade) sums;
    sums.count = 0;
    for (int64_t i = 0; i < n; i += LEAF) {
        NAMED(cascade_add)(&sums, NAMED(sum_leaf)(x + i, least(n - i, LEAF)));
    }
    return NAMED(cascade_total)(&sums);
}

static void NAMED(sum_rows)(const void *values, int64_t rows, int64_t n, void *sums) {
    const ELEMENT *x = values;
    ELEMENT *out = sums;
    for (int64_t r = 0; r < rows; r++) out[r] = NAMED(sum_row)(x + r * n, n);
}

// Sums of |width| vectors side by side down |n| rows. |width| is a constant to the compiler.
LANES_INLINE void NAMED(sum_strip)(const ELEMENT *x, int64_t n, int64_t stride, int width,
                                   ELEMENT *out) {
    VECTOR levels[CASCADE_LEVELS][4], sum[4];
    uint64_t count = 0;
    for (int64_t i = 0; i < n; i += LEAF_ROWS) {
        int64_t end = i + least(n - i, LEAF_ROWS);
#pragma GCC unroll 4
        for (int w = 0; w < width; w++) sum[w] = (VECTOR){ 0 };
        for (int64_t r = i; r < end; r++) {
#pragma GCC unroll 4
            for (int w = 0; w < width; w++) sum[w] += ((const VECTOR *)(x + r * stride))[w];
        }
        int level = 0;
        for (uint64_t k = count++; k & 1; k >>= 1, level++)
            for (int w = 0; w < width; w++) sum[w] = levels[level][w] + sum[w];
        for (int w = 0; w < width; w++) levels[level][w] = sum[w];
    }
    for (int w = 0; w < width; w++) sum[w] = (VECTOR){ 0 };
    int level = 0;
    for (uint64_t k = count; k; k >>= 1, level++)
        for (int w = 0; k & 1 && w < width; w++) sum[w] = levels[level][w] + sum[w];
    memcpy(out, sum, (size_t)width * sizeof(VECTOR));
}

LANES_INLINE ELEMENT NAMED(sum_column)(const ELEMENT *x, int64_t n, int64_t stride) {
    NAMED(cascade) sums;
    sums.count = 0;
    for (int64_t i = 0; i < n; i += LEAF_ROWS) {
        int64_t end = i + least(n - i, LEAF_ROWS);
        ELEMENT sum = 0;
        for (int64_t r = i; r < end; r++) sum += x[r * stride];
        NAMED(cascade_add)(&sums, sum);
    }
    return NAMED(cascade_total)(&sums);
}

// A column's sum is the same whichever way it is taken.
static void NAMED(sum_columns)(const void *values, int64_t outer, int64_t n, int64_t inner,
                               void *sums) {
    const ELEMENT *x = values;
    ELEMENT *out = sums;
    for (int64_t o = 0; o < outer; o++, x += n * inner, out += inner) {
        int64_t i = 0;
        for (; i + 4 * NAMED(vector) <= inner; i += 4 * NAMED(vector)) {
            NAMED(sum_strip)(x + i, n, inner, 4, out + i);
        }
        for (; i + NAMED(vector) <= inner; i += NAMED(vector)) {
            NAMED(sum_strip)(x + i, n, inner, 1, out + i);
        }
        for (; i < inner; i++) out[i] = NAMED(sum_column)(x + i, n, inner);
    }
}

#undef ELEMENT
#undef VECTOR
#undef NAMED
