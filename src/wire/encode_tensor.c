#include "wire/codec.h"

#include "base/limits.h"

#include <string.h>

// Copies the rows of |x|, last dimension first to vary, one after the other to |out|. The element
// size is a constant in each branch so that the compiler makes a plain load and store of the copy.
static uint8_t *gather_row(uint8_t *out, const uint8_t *at, int64_t count, ptrdiff_t step,
                           size_t size) {
    switch (size) {
    case 1:
        for (int64_t i = 0; i < count; i++, at += step) *out++ = *at;
        return out;
    case 2:
        for (int64_t i = 0; i < count; i++, at += step, out += 2) memcpy(out, at, 2);
        return out;
    case 4:
        for (int64_t i = 0; i < count; i++, at += step, out += 4) memcpy(out, at, 4);
        return out;
    default:
        for (int64_t i = 0; i < count; i++, at += step, out += 8) memcpy(out, at, 8);
        return out;
    }
}

static void gather(uint8_t *out, const gw_tensor *x) {
    size_t size = gw_dtype_size((gw_dtype)x->dtype);
    const uint8_t *at = tensor_bytes(x);
    if (x->contiguous || x->dims == 0) {
        memcpy(out, at, (size_t)x->numel * size);
        return;
    }
    int last = x->dims - 1;
    ptrdiff_t steps[GW_DIMS_MAX];
    for (int d = 0; d <= last; d++) steps[d] = (ptrdiff_t)x->strides[d] * (ptrdiff_t)size;
    int64_t index[GW_DIMS_MAX] = { 0 };
    for (;;) {
        out = gather_row(out, at, x->sizes[last], steps[last], size);
        int d = last - 1;
        for (; d >= 0; d--) {
            at += steps[d];
            if (++index[d] < x->sizes[d]) break;
            at -= steps[d] * (ptrdiff_t)x->sizes[d];
            index[d] = 0;
        }
        if (d < 0) return;
    }
}

static gw_status encode_segment(encoder *e, const gw_tensor *x, size_t size_bytes,
                                gw_error *error) {
    block *b;
    size_t offset = 0;
    if (x->contiguous) {
        b = block_retain(x->storage->block);
        offset = (size_t)x->offset * gw_dtype_size((gw_dtype)x->dtype);
    } else {
        b = block_take(size_bytes);
        if (!b) return error_set(error, GW_NO_MEMORY, "tensor: no memory to make it contiguous");
        gather(b->bytes, x);
    }
    bool added = message_add_segment(e->message, b, offset, size_bytes);
    block_release(b);
    if (!added) return error_set(error, GW_NO_MEMORY, "no memory for a message");
    return GW_OK;
}

static gw_status put_header(encoder *e, const gw_tensor *x, bool in_segment, gw_error *error) {
    uint8_t *at = bytes_extend(&e->message->head, 5 + 8 * (size_t)x->dims);
    if (!at) return error_set(error, GW_NO_MEMORY, "no memory for a message");
    at[0] = x->dtype;
    at[1] = x->device;
    at[2] = x->layout;
    at[3] = x->dims;
    at[4] = in_segment;
    memcpy(at + 5, x->sizes, 8 * (size_t)x->dims);
    return GW_OK;
}

gw_status encode_tensor(encoder *e, const gw_tensor *x, gw_error *error) {
    bytes *head = &e->message->head;
    if (tensor_is_rows(x)) {
        gw_status status = put_header(e, x, false, error);
        if (status) return status;
        status = encode_tensor(e, x->indices, error);
        return status ? status : encode_tensor(e, x->values, error);
    }
    if (!x->storage) return error_set(error, GW_INVALID, "tensor: it has no values to send");
    size_t size_bytes = (size_t)x->numel * gw_dtype_size((gw_dtype)x->dtype);
    if (size_bytes > LIMIT_TENSOR_BYTES)
        return error_set(error, GW_LIMIT, "tensor: %zu bytes, at most 4 GiB can be sent",
                         size_bytes);
    bool in_segment = size_bytes > MESSAGE_INLINE_BYTES;
    gw_status status = put_header(e, x, in_segment, error);
    if (status) return status;
    if (in_segment) return encode_segment(e, x, size_bytes, error);
    if (size_bytes == 0) return GW_OK;
    uint8_t *numbers = bytes_extend(head, size_bytes);
    if (!numbers) return error_set(error, GW_NO_MEMORY, "no memory for a message");
    gather(numbers, x);
    return GW_OK;
}
