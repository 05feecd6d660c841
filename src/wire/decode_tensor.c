#include "wire/codec.h"

#include "base/limits.h"
#include "base/scope.h"

#include <string.h>

// What stands in front of a tensor's numbers.
typedef struct tensor_header {
    gw_dtype dtype;
    int dims;
    bool in_segment;
    int64_t sizes[LIMIT_DIMS];
    size_t size_bytes;
} tensor_header;

static gw_status read_sizes(reader *r, tensor_header *h, gw_error *error) {
    // Sizes of 0 make the product 0 whatever the others are, so the others are multiplied by themselves.
    uint64_t numel = 1;
    bool empty = false;
    for (int d = 0; d < h->dims; d++) {
        uint64_t size = reader_u64(r);
        if (r->failed) return error_set(error, GW_PROTOCOL, "tensor: the message ends inside it");
        if (size > INT64_MAX)
            return error_set(error, GW_PROTOCOL, "tensor: size %lld of dimension %d",
                             (long long)size, d);
        h->sizes[d] = (int64_t)size;
        if (size == 0) {
            empty = true;
        } else if (__builtin_mul_overflow(numel, size, &numel) || numel > INT64_MAX) {
            return error_set(error, GW_PROTOCOL,
                             "tensor: the product of its sizes overflows at dimension %d", d);
        }
    }
    uint64_t size_bytes;
    if (empty) numel = 0;
    if (__builtin_mul_overflow(numel, gw_dtype_size(h->dtype), &size_bytes) ||
        size_bytes > LIMIT_TENSOR_BYTES)
        return error_set(error, GW_LIMIT, "tensor: %llu numbers of %s, at most 4 GiB",
                         (unsigned long long)numel, gw_dtype_name(h->dtype));
    h->size_bytes = (size_t)size_bytes;
    return GW_OK;
}

static gw_status read_header(reader *r, tensor_header *h, gw_error *error) {
    uint8_t dtype = reader_u8(r), device = reader_u8(r), layout = reader_u8(r);
    uint8_t dims = reader_u8(r), place = reader_u8(r);
    if (r->failed) return error_set(error, GW_PROTOCOL, "tensor: the message ends inside it");
    if (dtype >= GW_DTYPE_COUNT)
        return error_set(error, GW_UNSUPPORTED, "tensor: dtype %u is unknown here", dtype);
    if (device != GW_CPU)
        return error_set(error, GW_UNSUPPORTED, "tensor: device %u is unknown here", device);
    if (layout != GW_STRIDED)
        return error_set(error, GW_UNSUPPORTED, "tensor: layout %u is unknown here", layout);
    if (dims > LIMIT_DIMS)
        return error_set(error, GW_LIMIT, "tensor: %u dimensions, at most %d", dims, LIMIT_DIMS);
    if (place > 1) return error_set(error, GW_PROTOCOL, "tensor: place %u", place);
    h->dtype = (gw_dtype)dtype;
    h->dims = dims;
    h->in_segment = place == 1;
    return read_sizes(r, h, error);
}

// Kernels load a bool as it lies there; any other byte would be undefined behaviour to them.
static gw_status check_bools(const tensor_header *h, const uint8_t *numbers, gw_error *error) {
    if (h->dtype != GW_BOOL8) return GW_OK;
    uint8_t all = 0;
    for (size_t i = 0; i < h->size_bytes; i++) all |= numbers[i];
    return all <= 1 ? GW_OK : error_set(error, GW_PROTOCOL, "tensor: a bool that is not 0 or 1");
}

static gw_status read_inline(decoder *d, const tensor_header *h, block **out, gw_error *error) {
    const uint8_t *numbers = reader_take(&d->in, h->size_bytes);
    if (!numbers)
        return error_set(error, GW_PROTOCOL, "tensor: %zu bytes of numbers, %zu left",
                         h->size_bytes, reader_left(&d->in));
    gw_status status = check_bools(h, numbers, error);
    if (status || !d->scope) return status;
    *out = block_take(h->size_bytes);
    if (!*out) return error_set(error, GW_NO_MEMORY, "no memory for a tensor");
    memcpy((*out)->bytes, numbers, h->size_bytes);
    return GW_OK;
}

static gw_status read_segment(decoder *d, const tensor_header *h, block **out, gw_error *error) {
    message *m = d->message;
    if (d->next_segment >= m->segment_count)
        return error_set(error, GW_PROTOCOL, "tensor: segment %u of %u", d->next_segment,
                         m->segment_count);
    const segment *s = &m->segments[d->next_segment];
    if (s->size != h->size_bytes)
        return error_set(error, GW_PROTOCOL, "tensor: %zu bytes of numbers, %zu in its segment",
                         h->size_bytes, s->size);
    gw_status status = check_bools(h, s->block->bytes + s->offset, error);
    if (status) return status;
    d->next_segment++;
    if (d->scope) *out = block_retain(s->block);
    return GW_OK;
}

gw_status decode_tensor(decoder *d, gw_value *out, gw_error *error) {
    tensor_header h;
    gw_status status = read_header(&d->in, &h, error);
    if (status) return status;
    *out = (gw_value){ .kind = GW_TENSOR };
    block *numbers = NULL;
    status =
        h.in_segment ? read_segment(d, &h, &numbers, error) : read_inline(d, &h, &numbers, error);
    if (status || !d->scope) return status;
    out->as.tensor = scope_own(d->scope, tensor_over(d->scope, h.dtype, h.dims, h.sizes, numbers));
    if (out->as.tensor) return GW_OK;
    if (error) *error = *gw_scope_error(d->scope);
    return gw_scope_error(d->scope)->status;
}
