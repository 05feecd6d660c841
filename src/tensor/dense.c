#include "tensor/dense.h"

#include "tensor/dtype.h"

enum { TILE = 32 };  // a tile of 32 by 32 elements stays in the first cache

// A strided array and a contiguous one with the same sizes, and which of the two is read.
typedef struct transfer {
    gw_dtype strided_dtype, packed_dtype;
    uint8_t *strided, *packed;
    bool to_packed;
    int dims;
    int64_t sizes[GW_DIMS_MAX], strides[GW_DIMS_MAX], packed_strides[GW_DIMS_MAX];
} transfer;

// Leaves out dimensions of size 1 and joins those that lie as one.
static void simplify(transfer *t) {
    int n = 0;
    for (int i = 0; i < t->dims; i++) {
        if (t->sizes[i] == 1) continue;
        if (n > 0 && t->strides[n - 1] == t->strides[i] * t->sizes[i]) {
            t->sizes[n - 1] *= t->sizes[i];
            t->strides[n - 1] = t->strides[i];
            continue;
        }
        t->sizes[n] = t->sizes[i];
        t->strides[n++] = t->strides[i];
    }
    t->dims = n;
    int64_t stride = 1;
    for (int i = n; i-- > 0; stride *= t->sizes[i]) t->packed_strides[i] = stride;
}

static uint8_t *strided_at(const transfer *t, int64_t i) {
    return t->strided + i * (int64_t)gw_dtype_size(t->strided_dtype);
}

static uint8_t *packed_at(const transfer *t, int64_t i) {
    return t->packed + i * (int64_t)gw_dtype_size(t->packed_dtype);
}

static void move_row(const transfer *t, int64_t strided, int64_t packed, int64_t stride,
                     int64_t n) {
    if (t->to_packed)
        dtype_gather(t->packed_dtype, packed_at(t, packed), t->strided_dtype,
                     strided_at(t, strided), stride, n);
    else
        dtype_scatter(t->strided_dtype, strided_at(t, strided), stride, t->packed_dtype,
                      packed_at(t, packed), n);
}

// The plane of the last dimension and of |unit|, whose elements are adjacent in the strided
// array: in tiles, so that elements that are adjacent in one array and far apart in the other are in the
// cache when they are moved. Writes are in order.
static void move_plane(const transfer *t, int unit, int64_t strided, int64_t packed) {
    int last = t->dims - 1;
    int64_t rows = t->sizes[unit], n = t->sizes[last], stride = t->strides[last];
    int64_t packed_stride = t->packed_strides[unit];
    for (int64_t i = 0; i < rows; i += TILE) {
        int64_t i_count = i + TILE < rows ? TILE : rows - i;
        for (int64_t j = 0; j < n; j += TILE) {
            int64_t j_count = j + TILE < n ? TILE : n - j;
            for (int64_t k = i; k < i + i_count && t->to_packed; k++)
                move_row(t, strided + k + j * stride, packed + k * packed_stride + j, stride,
                         j_count);
            for (int64_t k = j; k < j + j_count && !t->to_packed; k++)
                dtype_gather(t->strided_dtype, strided_at(t, strided + i + k * stride),
                             t->packed_dtype, packed_at(t, packed + i * packed_stride + k),
                             packed_stride, i_count);
        }
    }
}

static void move(transfer *t) {
    simplify(t);
    if (t->dims == 0) {
        move_row(t, 0, 0, 1, 1);
        return;
    }
    // The dimension whose elements lie side by side, unless it is the last anyway.
    int last = t->dims - 1, unit = -1;
    for (int i = 0; i < last && t->strides[last] != 1; i++)
        if (t->strides[i] == 1) unit = i;

    int64_t index[GW_DIMS_MAX] = { 0 }, strided = 0, packed = 0;
    for (;;) {
        if (unit >= 0)
            move_plane(t, unit, strided, packed);
        else
            move_row(t, strided, packed, t->strides[last], t->sizes[last]);
        int i = last - 1;
        for (; i >= 0; i--) {
            if (i == unit) continue;
            strided += t->strides[i];
            packed += t->packed_strides[i];
            if (++index[i] < t->sizes[i]) break;
            index[i] = 0;
            strided -= t->strides[i] * t->sizes[i];
            packed -= t->packed_strides[i] * t->sizes[i];
        }
        if (i < 0) return;
    }
}

static transfer transfer_of(const gw_tensor *x, int last, gw_dtype dtype, void *packed) {
    transfer t = {
        .strided_dtype = (gw_dtype)x->dtype,
        .packed_dtype = dtype,
        .strided = (uint8_t *)tensor_bytes(x),
        .packed = packed,
    };
    for (int i = 0; i < x->dims; i++) {
        if (i == last) continue;
        t.sizes[t.dims] = x->sizes[i];
        t.strides[t.dims++] = x->strides[i];
    }
    if (x->dims > 0) {
        t.sizes[t.dims] = x->sizes[last];
        t.strides[t.dims++] = x->strides[last];
    }
    return t;
}

// Whether |x| lies in the order wanted.
static bool is_in_place(const gw_tensor *x, int last, gw_dtype dtype) {
    if (x->dtype != dtype || !x->contiguous) return false;
    int64_t behind = 1;
    for (int i = last + 1; i < x->dims; i++) behind *= x->sizes[i];
    return behind == 1 || x->dims == 0 || x->sizes[last] == 1;
}

block *scratch_open(op_call *c, int64_t count, size_t size) {
    size_t bytes;
    block *b = __builtin_mul_overflow((size_t)count, size, &bytes) ? NULL : block_take(bytes);
    if (!b) op_fail(c, GW_NO_MEMORY, "no memory for %lld elements", (long long)count);
    return b;
}

bool dense_open_rows(op_call *c, const gw_tensor *x, int last, gw_dtype dtype, dense *out) {
    *out = (dense){ 0 };
    if (is_in_place(x, last, dtype)) {
        out->values = tensor_bytes(x);
        return true;
    }
    out->copy = scratch_open(c, x->numel, gw_dtype_size(dtype));
    if (!out->copy) return false;
    out->values = out->copy->bytes;
    if (x->numel == 0) return true;
    transfer t = transfer_of(x, last, dtype, out->copy->bytes);
    t.to_packed = true;
    move(&t);
    return true;
}

bool dense_open(op_call *c, const gw_tensor *x, gw_dtype dtype, dense *out) {
    return dense_open_rows(c, x, x->dims - 1, dtype, out);
}

bool dense_open_expanded(op_call *c, const gw_tensor *x, int dims, const int64_t *sizes,
                         gw_dtype dtype, dense *out) {
    int64_t strides[GW_DIMS_MAX];
    bool same = dims == x->dims;
    for (int i = 0; i < dims; i++) {
        int own = i - (dims - x->dims);
        strides[i] = own < 0 || x->sizes[own] != sizes[i] ? 0 : x->strides[own];
        same = same && x->sizes[i] == sizes[i];
    }
    if (same) return dense_open(c, x, dtype, out);
    *out = (dense){ 0 };
    gw_tensor *wide = tensor_view_for(c->scope, c->op->name, x, dims, sizes, strides, x->offset);
    bool ok = wide && dense_open(c, wide, dtype, out);
    handle_release(wide);
    return ok;
}

bool dense_open_optional(op_call *c, const gw_tensor *x, gw_dtype dtype, dense *out) {
    *out = (dense){ 0 };
    return !x || dense_open(c, x, dtype, out);
}

void dense_close(dense *d) {
    block_release(d->copy);
}

bool result_open_rows(op_call *c, int i, int last, gw_dtype dtype, result *out) {
    gw_tensor *x = c->outputs[i];
    *out = (result){ .tensor = x, .dtype = dtype, .last = last };
    if (is_in_place(x, last, dtype)) {
        // Fresh from infer: its block has no other holder.
        out->values = (uint8_t *)tensor_bytes(x);
        return true;
    }
    out->copy = scratch_open(c, x->numel, gw_dtype_size(dtype));
    if (!out->copy) return false;
    out->values = out->copy->bytes;
    return true;
}

bool result_open(op_call *c, int i, gw_dtype dtype, result *out) {
    return result_open_rows(c, i, c->outputs[i]->dims - 1, dtype, out);
}

void result_close(result *r) {
    if (!r->copy) return;
    if (r->tensor->numel > 0) {
        transfer t = transfer_of(r->tensor, r->last, r->dtype, r->values);
        move(&t);
    }
    block_release(r->copy);
}
