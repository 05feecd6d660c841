// Buffers that travel with gradients, behind the numbers of a bucket: those of one member, or the mean
// of all. Bits of one member's go as numbers of 16 bits each, which a sum with zeros leaves as they
// are, whatever the buffer's dtype.
#include "parallel/ddp/ddp.h"
#include "tensor/tensor.h"
#include <gradwire/ops.h>

#include <string.h>

enum { PIECE_BYTES = 2 };

bool buffers_ride(const gw_ddp *d) {
    gw_buffers how = d->options.buffers;
    bool alone = d->stats.world_size == 1;
    return !alone && d->buffer_count &&
           (how == GW_BUFFERS_WITH_GRADIENTS || how == GW_BUFFERS_AVERAGE);
}

static bool is_averaged(const gw_ddp *d, const gw_tensor *x) {
    return d->options.buffers == GW_BUFFERS_AVERAGE && x->dtype <= GW_BF16;
}

static int64_t numbers_of(const gw_ddp *d, const gw_tensor *x) {
    if (is_averaged(d, x)) return x->numel;
    return ((int64_t)tensor_size(x) + PIECE_BYTES - 1) / PIECE_BYTES;
}

// Behind them, one number: 1 if this member contributes any, else 0.
int64_t buffers_count(const gw_ddp *d) {
    int64_t count = 1;
    for (int i = 0; i < d->buffer_count; i++) count += numbers_of(d, d->buffers[i]);
    return count;
}

static gw_tensor *pieces_of(gw_scope *s, gw_tensor *x, int64_t count) {
    float *pieces = gw_alloc(s, (size_t)count * sizeof *pieces + 1);
    const uint8_t *bytes = gw_data(gw_contiguous(s, x));
    size_t size = tensor_size(x);
    for (size_t i = 0; pieces && bytes && i < (size_t)count; i++) {
        uint16_t piece = 0;
        size_t left = size - i * PIECE_BYTES;
        memcpy(&piece, bytes + i * PIECE_BYTES, left < PIECE_BYTES ? left : PIECE_BYTES);
        pieces[i] = piece;
    }
    return pieces && bytes ? gw_from_with(s, GW_F32, pieces, (gw_shape){ 1, &count })
                           : tensor_poison_of(s);
}

// A member that shadows others in a join contributes zeros.
gw_tensor *buffers_pack(gw_scope *s, const ddp_pass *r, gw_dtype dtype) {
    const gw_ddp *d = r->ddp;
    int64_t all = buffers_count(d), one = 1;
    if (r->is_shadow) return gw_zeros_with(s, dtype, (gw_shape){ 1, &all });
    gw_tensor **parts = gw_alloc(s, ((size_t)d->buffer_count + 1) * sizeof(gw_tensor *));
    for (int i = 0; parts && i < d->buffer_count; i++) {
        gw_tensor *x = d->buffers[i];
        int64_t count = numbers_of(d, x);
        if (is_averaged(d, x))
            x = gw_reshape_with(s, x, (gw_shape){ 1, &count });
        else if (d->stats.rank == r->buffer_root)
            x = pieces_of(s, x, count);
        else
            x = gw_zeros_with(s, dtype, (gw_shape){ 1, &count });
        parts[i] = gw_to_dtype(s, x, dtype);
    }
    if (!parts) return tensor_poison_of(s);
    parts[d->buffer_count] = gw_full_with(s, dtype, gw_value_of(1), (gw_shape){ 1, &one });
    return gw_cat(s, parts, d->buffer_count + 1, 0);
}

static gw_tensor *from_pieces(gw_scope *s, const gw_tensor *like, const float *pieces) {
    size_t size = tensor_size(like);
    uint8_t *bytes = gw_alloc(s, size + 1);
    for (size_t at = 0; bytes && at < size; at += PIECE_BYTES) {
        uint16_t piece = (uint16_t)pieces[at / PIECE_BYTES];
        memcpy(bytes + at, &piece, size - at < PIECE_BYTES ? size - at : PIECE_BYTES);
    }
    return bytes ? gw_from_with(s, (gw_dtype)like->dtype, bytes,
                                (gw_shape){ like->dims, like->sizes })
                 : tensor_poison_of(s);
}

static void put(gw_scope *s, const gw_ddp *d, gw_tensor *sum) {
    int64_t last = gw_numel(sum) - 1, at = 0;
    double contributors = gw_item(s, gw_slice(s, sum, 0, last, last + 1, 1));
    const float *pieces = gw_data(gw_contiguous(s, gw_to_dtype(s, sum, GW_F32)));
    for (int i = 0; gw_ok(s) && i < d->buffer_count; i++) {
        gw_tensor *x = d->buffers[i], *value;
        int64_t count = numbers_of(d, x);
        if (is_averaged(d, x))
            value =
                gw_reshape_with(s, gw_div(s, gw_slice(s, sum, 0, at, at + count, 1), contributors),
                                (gw_shape){ x->dims, x->sizes });
        else
            value = from_pieces(s, x, pieces + at);
        gw_copy_(s, x, gw_to_dtype(s, value, (gw_dtype)x->dtype));
        at += count;
    }
}

void buffers_put(gw_scope *s, ddp_pass *r) {
    if (!r->buffers || !gw_ok(s)) return;
    gw_scope *t = scope_open_unrecorded(s);
    put(t, r->ddp, r->buffers);
    gw_scope_close_up(t);
}
