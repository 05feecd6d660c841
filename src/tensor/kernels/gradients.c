#include "tensor/kernels/gradients.h"

#include "tensor/dtype.h"
#include "tensor/pack.h"

enum { LANES = 8, PIECE = 1024 };

// Sums of squares in double, in as many lanes as a register may have: the same order, and so the
// same bits, on every machine.
#define LOOPS(T)                                                                                   \
    static void add_##T(T *restrict to, const T *restrict from, int64_t count) {                   \
        for (int64_t i = 0; i < count; i++) to[i] += from[i];                                      \
    }                                                                                              \
    static double squares_##T(const T *x, int64_t count) {                                         \
        double sums[LANES] = { 0 }, total = 0;                                                     \
        int64_t i = 0;                                                                             \
        for (; i + LANES <= count; i += LANES)                                                     \
            for (int k = 0; k < LANES; k++) sums[k] += (double)x[i + k] * (double)x[i + k];        \
        for (; i < count; i++) total += (double)x[i] * (double)x[i];                               \
        for (int k = 0; k < LANES; k++) total += sums[k];                                          \
        return total;                                                                              \
    }                                                                                              \
    static void scale_##T(T *to, const T *from, int64_t count, double by) {                        \
        for (int64_t i = 0; i < count; i++) to[i] = from[i] * (T)by;                               \
    }
LOOPS(float)
LOOPS(double)
#undef LOOPS

static const void *numbers(const gw_tensor *x) {
    return tensor_bytes(x);
}

static bool are_on_cpu(const gw_tensor *a, const gw_tensor *b) {
    return a->device == GW_CPU && b->device == GW_CPU;
}

void numbers_add(gw_dtype dtype, void *to, const void *from, int64_t count) {
    if (dtype == GW_F32)
        add_float(to, from, count);
    else
        add_double(to, from, count);
}

bool tensor_add_into(gw_tensor *to, const gw_tensor *from) {
    if (!are_on_cpu(to, from) || !from->contiguous || to->dtype != from->dtype ||
        to->numel != from->numel || to->dtype > GW_F64)
        return false;
    uint8_t *bytes = storage_writable(to->storage);
    if (!bytes) return false;
    void *out = bytes + tensor_offset(to);
    numbers_add((gw_dtype)to->dtype, out, numbers(from), to->numel);
    return true;
}

static int64_t piece_at(int64_t at, int64_t count) {
    return count - at < PIECE ? count - at : PIECE;
}

// Halves are widened a piece at a time.
static double squares_half(gw_dtype dtype, const uint8_t *x, int64_t count) {
    float wide[PIECE];
    double total = 0;
    for (int64_t i = 0; i < count; i += PIECE) {
        dtype_convert(GW_F32, wide, 1, dtype, x + i * 2, 1, piece_at(i, count));
        total += squares_float(wide, piece_at(i, count));
    }
    return total;
}

bool tensor_squares(const gw_tensor *x, double *out) {
    packed p;
    if (!tensor_pack(x, &p)) return false;
    const void *first = p.bytes;
    switch ((gw_dtype)x->dtype) {
    case GW_F32: *out = squares_float(first, x->numel); break;
    case GW_F64: *out = squares_double(first, x->numel); break;
    default: *out = squares_half((gw_dtype)x->dtype, first, x->numel);
    }
    packed_release(&p);
    return true;
}

static void scale_half(gw_dtype dtype, uint8_t *to, const uint8_t *from, int64_t count, double by) {
    float wide[PIECE];
    for (int64_t i = 0; i < count; i += PIECE) {
        dtype_convert(GW_F32, wide, 1, dtype, from + i * 2, 1, piece_at(i, count));
        scale_float(wide, wide, piece_at(i, count), by);
        dtype_convert(dtype, to + i * 2, 1, GW_F32, wide, 1, piece_at(i, count));
    }
}

bool tensor_scale_into(gw_tensor *to, const gw_tensor *from, double by) {
    if (!are_on_cpu(to, from)) return false;
    void *out = to->storage->block->bytes + tensor_offset(to);
    switch ((gw_dtype)to->dtype) {
    case GW_F32: scale_float(out, numbers(from), to->numel, by); break;
    case GW_F64: scale_double(out, numbers(from), to->numel, by); break;
    default: scale_half((gw_dtype)to->dtype, out, numbers(from), to->numel, by);
    }
    return true;
}
