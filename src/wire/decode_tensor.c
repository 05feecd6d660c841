#include "wire/codec.h"

#include "base/limits.h"
#include "base/scope.h"
#include "tensor/rows.h"

#include <string.h>

// What stands in front of a tensor's numbers.
typedef struct tensor_header {
    gw_dtype dtype;
    gw_layout layout;
    int dims;
    bool in_segment;
    int64_t sizes[LIMIT_DIMS];
    size_t size_bytes;
    const uint8_t *numbers;  // where they lie, once they are read; of any alignment
} tensor_header;

static gw_status read_sizes(reader *r, tensor_header *h, gw_error *error) {
    // One size of 0 makes the product 0, so the others are multiplied by themselves.
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
    if (h->layout == GW_ROWS && numel <= INT64_MAX / 16) return GW_OK;  // few of these are here
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
    if (layout != GW_STRIDED && layout != GW_ROWS)
        return error_set(error, GW_UNSUPPORTED, "tensor: layout %u is unknown here", layout);
    if (dims > LIMIT_DIMS)
        return error_set(error, GW_LIMIT, "tensor: %u dimensions, at most %d", dims, LIMIT_DIMS);
    if (place > (layout == GW_STRIDED))
        return error_set(error, GW_PROTOCOL, "tensor: place %u", place);
    h->dtype = (gw_dtype)dtype;
    h->layout = (gw_layout)layout;
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

static gw_status read_inline(decoder *d, tensor_header *h, block **out, gw_error *error) {
    const uint8_t *numbers = reader_take(&d->in, h->size_bytes);
    if (!numbers)
        return error_set(error, GW_PROTOCOL, "tensor: %zu bytes of numbers, %zu left",
                         h->size_bytes, reader_left(&d->in));
    gw_status status = check_bools(h, numbers, error);
    h->numbers = numbers;
    if (status || !d->scope) return status;
    *out = block_take(h->size_bytes);
    if (!*out) return error_set(error, GW_NO_MEMORY, "no memory for a tensor");
    block_write(*out, 0, numbers, h->size_bytes);
    return GW_OK;
}

static gw_status read_segment(decoder *d, tensor_header *h, block **out, gw_error *error) {
    message *m = d->message;
    if (d->next_segment >= m->segment_count)
        return error_set(error, GW_PROTOCOL, "tensor: segment %u of %u", d->next_segment,
                         m->segment_count);
    const segment *s = &m->segments[d->next_segment];
    if (s->size != h->size_bytes)
        return error_set(error, GW_PROTOCOL, "tensor: %zu bytes of numbers, %zu in its segment",
                         h->size_bytes, s->size);
    h->numbers = block_lend(s->block, s->offset);
    gw_status status = check_bools(h, h->numbers, error);
    if (status) return status;
    d->next_segment++;
    if (d->scope) *out = block_retain(s->block);
    return GW_OK;
}

static gw_status error_of_scope(decoder *d, gw_error *error) {
    if (error) *error = *gw_scope_error(d->scope);
    return gw_scope_error(d->scope)->status;
}

// The numbers behind |h|. |out| gets one count, or NULL if nothing is to be made.
static gw_status read_dense(decoder *d, tensor_header *h, gw_tensor **out, gw_error *error) {
    block *numbers = NULL;
    gw_status status =
        h->in_segment ? read_segment(d, h, &numbers, error) : read_inline(d, h, &numbers, error);
    *out = NULL;
    if (status || !d->scope) return status;
    *out = tensor_over(d->scope, h->dtype, h->dims, h->sizes, numbers);
    return *out ? GW_OK : error_of_scope(d, error);
}

// ---- Sparse by rows -----------------------------------------------------------------------------
static gw_status read_part(decoder *d, tensor_header *h, gw_tensor **out, gw_error *error) {
    gw_status status = read_header(&d->in, h, error);
    if (status) return status;
    if (h->layout != GW_STRIDED)
        return error_set(error, GW_PROTOCOL, "tensor: a part of rows that has layout %d itself",
                         (int)h->layout);
    return read_dense(d, h, out, error);
}

static gw_status check_whole(const tensor_header *whole, gw_error *error) {
    if (whole->dtype > GW_BF16)
        return error_set(error, GW_PROTOCOL, "tensor: rows of %s, which are not floating",
                         gw_dtype_name(whole->dtype));
    if (whole->dims == 0) return error_set(error, GW_PROTOCOL, "tensor: rows of a scalar");
    return GW_OK;
}

static gw_status check_indices(const tensor_header *whole, const tensor_header *h, bool *ascending,
                               gw_error *error) {
    if (h->dtype != GW_I64 || h->dims != 1)
        return error_set(error, GW_PROTOCOL, "tensor: indices of rows in %s of %d dimensions",
                         gw_dtype_name(h->dtype), h->dims);
    int64_t at = rows_find_stray(h->numbers, h->sizes[0], whole->sizes[0], ascending);
    if (at == h->sizes[0]) return GW_OK;
    return error_set(error, GW_PROTOCOL, "tensor: index %lld is none of its %lld rows",
                     (long long)at, (long long)whole->sizes[0]);
}

static gw_status check_values(const tensor_header *whole, const tensor_header *h, int64_t count,
                              gw_error *error) {
    size_t rest = ((size_t)whole->dims - 1) * sizeof(int64_t);
    if (h->dtype != whole->dtype || h->dims != whole->dims || h->sizes[0] != count ||
        memcmp(h->sizes + 1, whole->sizes + 1, rest) != 0)
        return error_set(error, GW_PROTOCOL, "tensor: the values of its rows do not fit it");
    return GW_OK;
}

static gw_status read_rows(decoder *d, const tensor_header *whole, gw_tensor **out,
                           gw_error *error) {
    tensor_header h;
    gw_tensor *indices = NULL, *values = NULL;
    bool ascending = false;
    gw_status status = check_whole(whole, error);
    if (!status) status = read_part(d, &h, &indices, error);
    if (!status) status = check_indices(whole, &h, &ascending, error);
    int64_t count = status ? 0 : h.sizes[0];
    if (!status) status = read_part(d, &h, &values, error);
    if (!status) status = check_values(whole, &h, count, error);
    if (status || !d->scope) {
        handle_release(indices);
        handle_release(values);
        return status;
    }
    *out = tensor_of_rows(d->scope, whole->sizes[0], indices, values, ascending);
    return *out ? GW_OK : error_of_scope(d, error);
}

gw_status decode_tensor(decoder *d, gw_value *out, gw_error *error) {
    tensor_header h;
    gw_status status = read_header(&d->in, &h, error);
    if (status) return status;
    *out = (gw_value){ .kind = GW_TENSOR };
    gw_tensor *x = NULL;
    status = h.layout == GW_ROWS ? read_rows(d, &h, &x, error) : read_dense(d, &h, &x, error);
    if (status || !d->scope) return status;
    out->as.tensor = scope_own(d->scope, x);
    return out->as.tensor ? GW_OK : error_of_scope(d, error);
}
