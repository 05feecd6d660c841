// Products of matrices for one type of number. This file is included once for each type, with ELEMENT, VECTOR (64 bytes
// of them) and NAMED(name) defined; it undefines these macros.

enum {
    NAMED(strip_width) = 2 * sizeof(VECTOR) / sizeof(ELEMENT),
    NAMED(fitting) = STRIP_BYTES / (2 * sizeof(VECTOR)),
    NAMED(depth) = NAMED(fitting) < BLOCK_DEPTH ? NAMED(fitting) : BLOCK_DEPTH
};

// Some rows of a, some of their columns; as many rows of b, a strip wide; and where their product
// goes.
typedef struct NAMED(part) {
    const ELEMENT *a, *b;
    ELEMENT *c;
    int64_t a_row, a_column, b_row, c_row;  // strides
    int64_t rows, depth, width;
    bool add;  // to the values of c
} NAMED(part);

// |rows| rows from |first| on. |rows| is a constant to the compiler, so that the sums stay in
// registers.
LANES_INLINE void NAMED(tile)(NAMED(part) x, int64_t first, int rows) {
    VECTOR sums[TILE_ROWS][2];
    const ELEMENT *a = x.a + first * x.a_row;
    ELEMENT *c = x.c + first * x.c_row;
#pragma GCC unroll 4
    for (int r = 0; r < rows; r++) {
        const VECTOR *old = (const VECTOR *)(c + r * x.c_row);
        sums[r][0] = x.add ? old[0] : (VECTOR){ 0 };
        sums[r][1] = x.add ? old[1] : (VECTOR){ 0 };
    }
    for (int64_t p = 0; p < x.depth; p++) {
        const VECTOR *b = (const VECTOR *)(x.b + p * x.b_row);
        VECTOR left = b[0], right = b[1];
#pragma GCC unroll 4
        for (int r = 0; r < rows; r++) {
            ELEMENT factor = a[r * x.a_row + p * x.a_column];
            sums[r][0] += factor * left;
            sums[r][1] += factor * right;
        }
    }
#pragma GCC unroll 4
    for (int r = 0; r < rows; r++) {
        VECTOR *out = (VECTOR *)(c + r * x.c_row);
        out[0] = sums[r][0];
        out[1] = sums[r][1];
    }
}

LANES_INLINE void NAMED(tiles)(NAMED(part) x) {
    int64_t r = 0;
    for (; r + TILE_ROWS <= x.rows; r += TILE_ROWS) {
        NAMED(tile)(x, r, TILE_ROWS);
    }
    for (; r < x.rows; r++) {
        NAMED(tile)(x, r, 1);
    }
}

// The last columns, if they are fewer than a strip has, are computed aside in full width.
LANES_INLINE void NAMED(edge)(NAMED(part) x) {
    size_t size = (size_t)x.width * sizeof(ELEMENT);
    for (int64_t r = 0; r < x.rows; r++) {
        ELEMENT line[NAMED(strip_width)] = { 0 };
        NAMED(part) one = x;
        one.a += r * x.a_row;
        one.c = line;
        if (x.add) memcpy(line, x.c + r * x.c_row, size);
        NAMED(tile)(one, 0, 1);
        memcpy(x.c + r * x.c_row, line, size);
    }
}

// Columns past |width| are zeros.
LANES_INLINE void NAMED(pack)(NAMED(part) * x, int64_t b_column, ELEMENT *packed) {
    for (int64_t p = 0; p < x->depth; p++) {
        ELEMENT *out = packed + p * NAMED(strip_width);
        const ELEMENT *in = x->b + p * x->b_row;
        if (x->width < NAMED(strip_width)) memset(out, 0, NAMED(strip_width) * sizeof *out);
        for (int64_t j = 0; j < x->width; j++) out[j] = in[j * b_column];
    }
    x->b = packed;
    x->b_row = NAMED(strip_width);
}

static void NAMED(multiply)(int64_t m, int64_t n, int64_t k, matrix a, matrix b, void *out,
                            int64_t c_stride, bool add) {
    ELEMENT *c = out;
    ELEMENT packed[NAMED(depth) * NAMED(strip_width)];
    const ELEMENT *a_values = a.values, *b_values = b.values;
    for (int64_t i = 0; i < m; i += BLOCK_ROWS) {
        for (int64_t p = 0; p < k; p += NAMED(depth)) {
            for (int64_t j = 0; j < n; j += NAMED(strip_width)) {
                NAMED(part)
                x = {
                    .a = a_values + i * a.row_stride + p * a.column_stride,
                    .b = b_values + p * b.row_stride + j * b.column_stride,
                    .c = c + i * c_stride + j,
                    .a_row = a.row_stride,
                    .a_column = a.column_stride,
                    .b_row = b.row_stride,
                    .c_row = c_stride,
                    .rows = least(m - i, BLOCK_ROWS),
                    .depth = least(k - p, NAMED(depth)),
                    .width = least(n - j, NAMED(strip_width)),
                    .add = add || p > 0,
                };
                bool is_edge = x.width < NAMED(strip_width);
                // A few rows are not worth the copy.
                if (is_edge || b.column_stride != 1 || x.rows > TILE_ROWS)
                    NAMED(pack)(&x, b.column_stride, packed);
                if (is_edge)
                    NAMED(edge)(x);
                else
                    NAMED(tiles)(x);
            }
        }
    }
}

#undef ELEMENT
#undef VECTOR
#undef NAMED
