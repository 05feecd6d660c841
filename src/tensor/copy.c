#include "tensor/copy.h"

#include "tensor/dtype.h"

enum { TILE = 32 };

// Two arrays of the same sizes, each with strides of its own.
typedef struct copier {
    int dims;
    int64_t sizes[GW_DIMS_MAX], to_strides[GW_DIMS_MAX], from_strides[GW_DIMS_MAX];
    gw_dtype to_dtype, from_dtype;
    int64_t to_size, from_size;  // of an element
    uint8_t *to;
    const uint8_t *from;
} copier;

// Leaves out dimensions of size 1 and joins those that lie as one on both sides.
static void simplify(copier *c) {
    int n = 0;
    for (int i = 0; i < c->dims; i++) {
        if (c->sizes[i] == 1) continue;
        bool joins = n > 0 && c->to_strides[n - 1] == c->to_strides[i] * c->sizes[i] &&
                     c->from_strides[n - 1] == c->from_strides[i] * c->sizes[i];
        int at = joins ? n - 1 : n++;
        c->sizes[at] = joins ? c->sizes[at] * c->sizes[i] : c->sizes[i];
        c->to_strides[at] = c->to_strides[i];
        c->from_strides[at] = c->from_strides[i];
    }
    if (n == 0) {
        c->sizes[0] = c->to_strides[0] = c->from_strides[0] = 1;
        n = 1;
    }
    c->dims = n;
}

// The bits of elements; packed numbers of a message may have any alignment.
#define COPY_BITS(name, type)                                                                      \
    static void name(uint8_t *to, int64_t to_stride, const uint8_t *from, int64_t from_stride,     \
                     int64_t n) {                                                                  \
        for (int64_t i = 0; i < n; i++)                                                            \
            memcpy(to + i * to_stride * (int64_t)sizeof(type),                                     \
                   from + i * from_stride * (int64_t)sizeof(type), sizeof(type));                  \
    }
COPY_BITS(copy_bits_1, uint8_t)
COPY_BITS(copy_bits_2, uint16_t)
COPY_BITS(copy_bits_4, uint32_t)
COPY_BITS(copy_bits_8, uint64_t)

static void copy_row_of_bits(const copier *c, uint8_t *to, const uint8_t *from, int64_t n) {
    int64_t to_stride = c->to_strides[c->dims - 1], from_stride = c->from_strides[c->dims - 1];
    if (to_stride == 1 && from_stride == 1) {
        memmove(to, from, (size_t)(n * c->to_size));
        return;
    }
    switch (c->to_size) {
    case 1: copy_bits_1(to, to_stride, from, from_stride, n); return;
    case 2: copy_bits_2(to, to_stride, from, from_stride, n); return;
    case 4: copy_bits_4(to, to_stride, from, from_stride, n); return;
    default: copy_bits_8(to, to_stride, from, from_stride, n);
    }
}

static void copy_row(const copier *c, uint8_t *to, const uint8_t *from, int64_t n) {
    int last = c->dims - 1;
    if (c->to_dtype == c->from_dtype)
        copy_row_of_bits(c, to, from, n);
    else
        dtype_convert(c->to_dtype, to, c->to_strides[last], c->from_dtype, from,
                      c->from_strides[last], n);
}

// A tile of |rows| by |columns| elements: each row lies side by side in |from|, each column in
// |to|. It goes through a buffer, because rows that lie a power of two apart would drive each other
// out of the cache.
#define TRANSPOSE(name, type)                                                                      \
    static void name(uint8_t *to, int64_t to_stride, const uint8_t *from, int64_t from_stride,     \
                     int64_t rows, int64_t columns) {                                              \
        type tile[TILE][TILE];                                                                     \
        for (int64_t i = 0; i < rows; i++)                                                         \
            memcpy(tile[i], from + i * from_stride * (int64_t)sizeof(type),                        \
                   (size_t)columns * sizeof(type));                                                \
        for (int64_t k = 0; k < columns; k++) {                                                    \
            uint8_t *out = to + k * to_stride * (int64_t)sizeof(type);                             \
            for (int64_t i = 0; i < rows; i++)                                                     \
                memcpy(out + i * (int64_t)sizeof(type), &tile[i][k], sizeof(type));                \
        }                                                                                          \
    }
TRANSPOSE(transpose_1, uint8_t)
TRANSPOSE(transpose_2, uint16_t)
TRANSPOSE(transpose_4, uint32_t)
TRANSPOSE(transpose_8, uint64_t)

static void transpose(const copier *c, int unit, uint8_t *to, const uint8_t *from, int64_t rows,
                      int64_t columns) {
    int64_t to_stride = c->to_strides[unit], from_stride = c->from_strides[c->dims - 1];
    switch (c->to_size) {
    case 1: transpose_1(to, to_stride, from, from_stride, rows, columns); return;
    case 2: transpose_2(to, to_stride, from, from_stride, rows, columns); return;
    case 4: transpose_4(to, to_stride, from, from_stride, rows, columns); return;
    default: transpose_8(to, to_stride, from, from_stride, rows, columns);
    }
}

// Rows of |to| along the last dimension, for all values of dimension |unit|: in tiles, so that elements
// that are adjacent on one side and far apart on the other are still in the cache when they are
// copied.
static void copy_plane(const copier *c, int unit, uint8_t *to, const uint8_t *from) {
    int last = c->dims - 1;
    int64_t height = c->sizes[unit], width = c->sizes[last];
    bool same = c->to_dtype == c->from_dtype && c->to_strides[last] == 1;
    for (int64_t i = 0; i < height; i += TILE) {
        for (int64_t j = 0; j < width; j += TILE) {
            int64_t columns = height - i < TILE ? height - i : TILE;
            int64_t rows = width - j < TILE ? width - j : TILE;
            uint8_t *t = to + (i * c->to_strides[unit] + j * c->to_strides[last]) * c->to_size;
            const uint8_t *f =
                from + (i * c->from_strides[unit] + j * c->from_strides[last]) * c->from_size;
            if (same) {
                transpose(c, unit, t, f, rows, columns);
                continue;
            }
            for (int64_t k = 0; k < columns; k++)
                copy_row(c, t + k * c->to_strides[unit] * c->to_size,
                         f + k * c->from_strides[unit] * c->from_size, rows);
        }
    }
}

// The dimension along which |from| lies side by side, if it is not the last anyway.
static int unit_of(const copier *c) {
    int last = c->dims - 1;
    if (c->from_strides[last] <= 1) return -1;
    for (int i = 0; i < last; i++)
        if (c->from_strides[i] == 1) return i;
    return -1;
}

static void copy_all(const copier *c) {
    int last = c->dims - 1, unit = unit_of(c);
    int64_t counter[GW_DIMS_MAX] = { 0 };
    uint8_t *to = c->to;
    const uint8_t *from = c->from;
    for (;;) {
        if (unit >= 0) {
            copy_plane(c, unit, to, from);
        } else {
            copy_row(c, to, from, c->sizes[last]);
        }
        int i = last - 1;
        for (; i >= 0; i--) {
            if (i == unit) continue;
            bool wraps = ++counter[i] == c->sizes[i];
            int64_t steps = wraps ? 1 - c->sizes[i] : 1;
            to += steps * c->to_strides[i] * c->to_size;
            from += steps * c->from_strides[i] * c->from_size;
            if (!wraps) break;
            counter[i] = 0;
        }
        if (i < 0) return;
    }
}

// ---- Between tensors and packed numbers ---------------------------------------------------------
static copier start(gw_dtype to_dtype, uint8_t *to, gw_dtype from_dtype, const uint8_t *from) {
    return (copier){
        .to_dtype = to_dtype,
        .from_dtype = from_dtype,
        .to_size = (int64_t)gw_dtype_size(to_dtype),
        .from_size = (int64_t)gw_dtype_size(from_dtype),
        .to = to,
        .from = from,
    };
}

static void add(copier *c, int64_t size, int64_t to_stride, int64_t from_stride) {
    c->sizes[c->dims] = size;
    c->to_strides[c->dims] = to_stride;
    c->from_strides[c->dims++] = from_stride;
}

static void run(copier *c) {
    simplify(c);
    copy_all(c);
}

void copy_values(const gw_tensor *to, uint8_t *bytes, const gw_tensor *from) {
    if (to->numel == 0) return;
    copier c = start((gw_dtype)to->dtype, bytes, (gw_dtype)from->dtype, tensor_bytes(from));
    for (int i = 0; i < to->dims; i++) {
        int own = i - (to->dims - from->dims);
        bool spread = own < 0 || (from->sizes[own] == 1 && to->sizes[i] != 1);
        add(&c, to->sizes[i], to->strides[i], spread ? 0 : from->strides[own]);
    }
    run(&c);
}

// The strides of the dimensions of |x| in rows along |last|.
static void strides_of_rows(const gw_tensor *x, int last, int64_t strides[GW_DIMS_MAX]) {
    int64_t stride = x->dims ? x->sizes[last] : 1;
    for (int i = x->dims - 1; i >= 0; i--) {
        if (i == last) continue;
        strides[i] = stride;
        stride *= x->sizes[i];
    }
    if (x->dims) strides[last] = 1;
}

// Writes are in order in both directions.
static void to_rows(copier c, const gw_tensor *from, int last) {
    int64_t strides[GW_DIMS_MAX];
    strides_of_rows(from, last, strides);
    for (int i = 0; i < from->dims; i++)
        if (i != last) add(&c, from->sizes[i], strides[i], from->strides[i]);
    if (from->dims) add(&c, from->sizes[last], 1, from->strides[last]);
    run(&c);
}

void copy_to_rows(gw_dtype dtype, uint8_t *rows, const gw_tensor *from, int last) {
    if (from->numel == 0) return;
    to_rows(start(dtype, rows, (gw_dtype)from->dtype, tensor_bytes(from)), from, last);
}

void copy_from_rows(const gw_tensor *to, int last, gw_dtype dtype, const uint8_t *rows) {
    if (to->numel == 0) return;
    int64_t strides[GW_DIMS_MAX];
    strides_of_rows(to, last, strides);
    copier c = start((gw_dtype)to->dtype, (uint8_t *)tensor_bytes(to), dtype, rows);
    for (int i = 0; i < to->dims; i++) add(&c, to->sizes[i], to->strides[i], strides[i]);
    run(&c);
}

void copy_bits(uint8_t *bytes, const gw_tensor *from) {
    static const gw_dtype as[] = { [1] = GW_U8, [2] = GW_I16, [4] = GW_I32, [8] = GW_I64 };
    gw_dtype dtype = as[gw_dtype_size((gw_dtype)from->dtype)];
    if (from->numel) to_rows(start(dtype, bytes, dtype, tensor_bytes(from)), from, from->dims - 1);
}
