// A hostile peer may have chosen any integer here: none is used before it was checked,
// and checks precede allocation.
#include "base/limits.h"
#include "base/scope.h"
#include "tensor/rows.h"
#include "wire/codec.h"

#include <string.h>

static gw_status ends_early(gw_error *error, const char *what) {
    return error_set(error, GW_PROTOCOL, "%s: the message ends inside it", what);
}

// A handle could not be made: copies the error of the scope.
static gw_status scope_has_failed(const gw_scope *s, gw_error *error) {
    return error_copy(error, scope_error(s));
}

static gw_status take_text(reader *r, const char *what, const uint8_t **out, uint32_t *out_size,
                           gw_error *error) {
    *out_size = reader_u32(r);
    *out = reader_take(r, *out_size);
    if (!*out) return ends_early(error, what);
    if (memchr(*out, 0, *out_size)) return error_set(error, GW_PROTOCOL, "%s: a NUL in it", what);
    return GW_OK;
}

static bool read_aborts(reader *r, gw_error *out) {
    int count = reader_u8(r);
    if (count > GW_ERROR_ABORTS_MAX) return false;
    for (int i = 0; i < count; i++) {
        out->aborts[i].group = reader_u64(r);
        out->aborts[i].key = reader_u64(r);
        out->aborts[i].number = reader_u64(r);
    }
    return error_abort_count(out) == count || r->failed;
}

static bool read_lost(reader *r, gw_lost_worker *out) {
    uint8_t how = reader_u8(r);
    if (!how) return true;
    uint32_t rank = reader_u32(r);
    out->how = (gw_loss)how;
    out->rank = (int)rank;
    out->incarnation = reader_u64(r);
    reader_text(r, out->name, sizeof out->name);
    return r->failed || (how < GW_LOSS_COUNT && rank < LIMIT_WORKERS);
}

static bool read_trace(reader *r, gw_error *out) {
    gw_trace *t = &out->trace;
    t->calls = reader_u32(r);
    if (!t->calls) return true;
    t->function = reader_u64(r);
    t->first = reader_u16(r);
    t->last = reader_u16(r);
    return r->failed || (t->last <= strlen(out->text) && t->first <= strlen(out->text));
}

gw_status decode_error(reader *r, gw_error *out, gw_error *error) {
    uint8_t status = reader_u8(r), outcome = reader_u8(r);
    *out = (gw_error){ 0 };
    reader_text(r, out->worker, sizeof out->worker);
    reader_text(r, out->function, sizeof out->function);
    reader_text(r, out->text, sizeof out->text);
    bool has_aborts = read_aborts(r, out);
    bool has_lost = read_lost(r, &out->lost), has_trace = read_trace(r, out);
    if (r->failed) return ends_early(error, "error");
    if (!has_aborts) return error_set(error, GW_PROTOCOL, "malformed error: invalid aborts");
    if (!has_lost) return error_set(error, GW_PROTOCOL, "malformed error: invalid lost worker");
    if (!has_trace)
        return error_set(error, GW_PROTOCOL,
                         "malformed error: it counts calls that are not in its text");
    if (status == GW_OK || status >= GW_STATUS_COUNT)
        return error_set(error, GW_PROTOCOL, "malformed error: unknown status %u", status);
    if (outcome > GW_RAN_AND_FAILED)
        return error_set(error, GW_PROTOCOL, "malformed error: unknown outcome %u", outcome);
    out->status = (gw_status)status;
    out->outcome = (gw_outcome)outcome;
    return GW_OK;
}

// Memory of the scope, for the contents of a value.
static gw_status keep_bytes(decoder *d, const void *data, size_t size, const void **out,
                            gw_error *error) {
    if (!d->scope) return GW_OK;
    char *kept = gw_alloc(d->scope, size + 1);
    if (!kept) return scope_has_failed(d->scope, error);
    memcpy(kept, data, size);
    *out = kept;
    return GW_OK;
}

static gw_status decode_string(decoder *d, gw_value *out, gw_error *error) {
    const uint8_t *text;
    uint32_t size;
    gw_status status = take_text(&d->in, "string", &text, &size, error);
    if (status) return status;
    const void *kept = NULL;
    status = keep_bytes(d, text, size, &kept, error);
    *out = (gw_value){ .kind = GW_STRING, .as.string = kept, .size = size };
    return status;
}

static gw_status decode_bytes(decoder *d, gw_value *out, gw_error *error) {
    uint64_t size = reader_u64(&d->in);
    const uint8_t *data = size <= reader_left(&d->in) ? reader_take(&d->in, size) : NULL;
    if (!data) return ends_early(error, "bytes");
    const void *kept = NULL;
    gw_status status = keep_bytes(d, data, size, &kept, error);
    *out = (gw_value){ .kind = GW_BYTES, .as.bytes = kept, .size = size };
    return status;
}

static gw_status decode_worker(decoder *d, gw_value *out, gw_error *error) {
    char name[LIMIT_NAME_BYTES + 1];
    reader_text(&d->in, name, sizeof name);
    uint32_t rank = reader_u32(&d->in);
    uint64_t incarnation = reader_u64(&d->in);
    if (d->in.failed) return ends_early(error, "worker");
    if (rank >= LIMIT_WORKERS)
        return error_set(error, GW_PROTOCOL,
                         "malformed worker: rank %u, but ranks are less than %d", rank,
                         LIMIT_WORKERS);
    *out = (gw_value){ .kind = GW_WORKER, .rank = (int)rank, .incarnation = incarnation };
    if (!d->scope) return GW_OK;
    out->as.worker = gw_format(d->scope, "%s", name);
    return gw_ok(d->scope) ? GW_OK : scope_has_failed(d->scope, error);
}

static gw_status decode_error_value(decoder *d, gw_value *out, gw_error *error) {
    gw_error e;
    gw_status status = decode_error(&d->in, &e, error);
    if (status) return status;
    const void *kept = NULL;
    status = keep_bytes(d, &e, sizeof e, &kept, error);
    *out = (gw_value){ .kind = GW_ERROR, .as.error = kept };
    return status;
}

// Each value takes a byte at least, so a count beyond the remaining bytes is wrong.
static gw_status take_count(decoder *d, const char *what, size_t least_each, uint32_t *out,
                            gw_error *error) {
    *out = reader_u32(&d->in);
    if (d->in.failed || *out > reader_left(&d->in) / least_each) return ends_early(error, what);
    return GW_OK;
}

static gw_status decode_list(decoder *d, gw_value *out, gw_error *error) {
    uint32_t count;
    gw_status status = take_count(d, "list", 1, &count, error);
    if (status) return status;
    gw_list *list = d->scope ? gw_list_open(d->scope) : NULL;
    if (list && !gw_ok(d->scope)) return scope_has_failed(d->scope, error);
    for (uint32_t i = 0; i < count; i++) {
        gw_value item;
        if ((status = decode_value(d, &item, error))) return status;
        if (!d->scope) continue;
        gw_list_add_with(d->scope, list, item);
        if (!gw_ok(d->scope)) return scope_has_failed(d->scope, error);
    }
    *out = (gw_value){ .kind = GW_LIST, .as.list = list };
    return GW_OK;
}

static gw_status decode_map_entry(decoder *d, gw_map *map, gw_error *error) {
    const uint8_t *key;
    uint32_t key_size;
    gw_status status = take_text(&d->in, "map key", &key, &key_size, error);
    if (status) return status;
    gw_value item;
    if ((status = decode_value(d, &item, error)) || !d->scope) return status;
    int before = gw_map_count(map);
    if (!map_set(map, (const char *)key, key_size, item))
        return error_set(error, GW_NO_MEMORY, "no memory for a map");
    if (gw_map_count(map) == before)
        return error_set(error, GW_PROTOCOL, "malformed map: it has the key \"%.*s\" twice",
                         key_size < 64 ? (int)key_size : 64, (const char *)key);
    return GW_OK;
}

static gw_status decode_map(decoder *d, gw_value *out, gw_error *error) {
    uint32_t count;
    gw_status status = take_count(d, "map", 5, &count, error);
    if (status) return status;
    gw_map *map = d->scope ? gw_map_open(d->scope) : NULL;
    if (map && !gw_ok(d->scope)) return scope_has_failed(d->scope, error);
    for (uint32_t i = 0; i < count; i++)
        if ((status = decode_map_entry(d, map, error))) return status;
    *out = (gw_value){ .kind = GW_MAP, .as.map = map };
    return GW_OK;
}

static gw_status decode_container(decoder *d, gw_kind kind, gw_value *out, gw_error *error) {
    if (d->depth == LIMIT_NESTING)
        return error_set(error, GW_LIMIT, "value: lists and maps nested deeper than %d",
                         LIMIT_NESTING);
    d->depth++;
    gw_status status = kind == GW_LIST ? decode_list(d, out, error) : decode_map(d, out, error);
    d->depth--;
    return status;
}

static gw_status decode_attachment(decoder *d, gw_kind kind, gw_value *out, gw_error *error) {
    if (!d->attachment)
        return error_set(error, GW_PROTOCOL, "malformed message: a %s where none is allowed",
                         gw_kind_name(kind));
    return d->attachment(d->user, d, kind, out, error);
}

static gw_status decode_tracked(decoder *d, gw_value *out, gw_error *error) {
    uint32_t attachment = reader_u32(&d->in), slot = reader_u32(&d->in);
    if (!d->tracked)
        return error_set(error, GW_PROTOCOL,
                         "malformed message: a tracked tensor where none is allowed");
    gw_status status = decode_tensor(d, out, error);
    if (status) return status;
    // Where nothing is recorded it is an ordinary tensor.
    gw_tensor *x = d->scope && d->scope->grad_enabled ? out->as.tensor : NULL;
    return d->tracked(d->user, attachment, slot, x, error);
}

static gw_status decode_scalar(decoder *d, gw_kind kind, gw_value *out, gw_error *error) {
    *out = (gw_value){ .kind = kind };
    if (kind == GW_BOOL) {
        uint8_t x = reader_u8(&d->in);
        if (x > 1) return error_set(error, GW_PROTOCOL, "bool: %u", x);
        out->as.boolean = x;
    } else if (kind == GW_INT) {
        out->as.integer = (int64_t)reader_u64(&d->in);
    } else if (kind == GW_FLOAT) {
        out->as.real = reader_f64(&d->in);
    }
    return d->in.failed ? ends_early(error, gw_kind_name(kind)) : GW_OK;
}

gw_status decode_value(decoder *d, gw_value *out, gw_error *error) {
    if (d->count++ >= LIMIT_VALUES)
        return error_set(error, GW_LIMIT, "malformed message: it has more than %d values",
                         LIMIT_VALUES);
    *out = (gw_value){ .kind = GW_NONE };
    uint8_t tag = reader_u8(&d->in);
    if (d->in.failed) return ends_early(error, "value");
    if (tag == TAG_TRACKED_TENSOR) return decode_tracked(d, out, error);
    gw_kind kind = (gw_kind)tag;
    switch (kind) {
    case GW_NONE:
    case GW_BOOL:
    case GW_INT:
    case GW_FLOAT: return decode_scalar(d, kind, out, error);
    case GW_STRING: return decode_string(d, out, error);
    case GW_BYTES: return decode_bytes(d, out, error);
    case GW_TENSOR: return decode_tensor(d, out, error);
    case GW_LIST:
    case GW_MAP: return decode_container(d, kind, out, error);
    case GW_RREF:
    case GW_FUTURE: return decode_attachment(d, kind, out, error);
    case GW_WORKER: return decode_worker(d, out, error);
    case GW_ERROR: return decode_error_value(d, out, error);
    case GW_KIND_COUNT: break;
    }
    return error_set(error, GW_PROTOCOL, "value: tag %u does not exist", tag);
}

// ---- Tensors ------------------------------------------------------------------------------------

// The fields before a tensor's data.
typedef struct tensor_header {
    gw_dtype dtype;
    gw_layout layout;
    int dims;
    bool in_segment;
    int64_t sizes[LIMIT_DIMS];
    size_t size_bytes;
    const uint8_t *numbers;  // their address, once they are read; of any alignment
} tensor_header;

static gw_status read_sizes(reader *r, tensor_header *h, gw_error *error) {
    // A size of 0 makes the product 0, so overflow is checked for the other sizes alone.
    uint64_t numel = 1;
    bool empty = false;
    for (int d = 0; d < h->dims; d++) {
        uint64_t size = reader_u64(r);
        if (r->failed) return error_set(error, GW_PROTOCOL, "tensor: the message ends inside it");
        if (size > INT64_MAX)
            return error_set(error, GW_PROTOCOL,
                             "malformed tensor: size %lld of dimension %d is invalid",
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
    if (h->layout == GW_ROWS && numel <= INT64_MAX / 16) return GW_OK;  // only some rows are sent
    if (__builtin_mul_overflow(numel, gw_dtype_size(h->dtype), &size_bytes) ||
        size_bytes > LIMIT_TENSOR_BYTES)
        return error_set(error, GW_LIMIT,
                         "malformed tensor: %llu numbers of %s, at most 4 GiB are allowed",
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
        return error_set(error, GW_LIMIT, "malformed tensor: %u dimensions, at most %d are allowed",
                         dims, LIMIT_DIMS);
    if (place > (layout == GW_STRIDED))
        return error_set(error, GW_PROTOCOL,
                         "malformed tensor: the place %u of its elements is invalid", place);
    h->dtype = (gw_dtype)dtype;
    h->layout = (gw_layout)layout;
    h->dims = dims;
    h->in_segment = place == 1;
    return read_sizes(r, h, error);
}

// Kernels load a bool from its byte; any byte but 0 and 1 is undefined behaviour.
static gw_status check_bools(const tensor_header *h, const uint8_t *numbers, gw_error *error) {
    if (h->dtype != GW_BOOL8) return GW_OK;
    uint8_t all = 0;
    for (size_t i = 0; i < h->size_bytes; i++) all |= numbers[i];
    return all <= 1 ? GW_OK
                    : error_set(error, GW_PROTOCOL, "malformed tensor: a bool is neither 0 nor 1");
}

static gw_status read_inline(decoder *d, tensor_header *h, block **out, gw_error *error) {
    const uint8_t *numbers = reader_take(&d->in, h->size_bytes);
    if (!numbers)
        return error_set(error, GW_PROTOCOL,
                         "malformed tensor: it needs %zu bytes, but the message has %zu left",
                         h->size_bytes, reader_left(&d->in));
    gw_status status = check_bools(h, numbers, error);
    h->numbers = numbers;
    if (status || !d->scope) return status;
    *out = block_take(h->size_bytes);
    if (!*out) return error_set(error, GW_NO_MEMORY, "no memory for a tensor");
    block_write(*out, 0, numbers, h->size_bytes);
    return GW_OK;
}

// Values that determine later memory accesses, such as indices, must not change after the check (LEND-8);
// and kernels do not read unaligned data.
static bool must_copy(const tensor_header *h, const segment *g) {
    size_t size = gw_dtype_size(h->dtype);
    return (g->block->is_mapped && h->dtype > GW_BF16) || g->offset % size != 0 ||
           (uintptr_t)block_lend(g->block, 0) % size != 0;
}

static bool copy_segment(segment *g) {
    block *own = block_take(g->size);
    if (!own) return false;
    block_copy(own, 0, g->block, g->offset, g->size);
    *g = (segment){ .block = own, .size = g->size };
    return true;
}

// |out| gets one count on the block, if a tensor is to be made.
static gw_status read_segment(decoder *d, tensor_header *h, segment *out, gw_error *error) {
    message *m = d->message;
    if (d->next_segment >= m->segment_count)
        return error_set(error, GW_PROTOCOL,
                         "malformed tensor: segment %u is out of range for %u segments",
                         d->next_segment, m->segment_count);
    segment g = m->segments[d->next_segment];
    if (g.size != h->size_bytes)
        return error_set(error, GW_PROTOCOL,
                         "malformed tensor: it needs %zu bytes, but its segment has %zu",
                         h->size_bytes, g.size);
    bool copies = d->scope && must_copy(h, &g);
    if (copies && !copy_segment(&g))
        return error_set(error, GW_NO_MEMORY, "no memory for a tensor");
    h->numbers = block_lend(g.block, g.offset);
    gw_status status = check_bools(h, h->numbers, error);
    if (!status) d->next_segment++;
    if (status && copies) block_release(g.block);
    if (status || !d->scope) return status;
    if (!copies) block_retain(g.block);
    *out = g;
    return GW_OK;
}

static gw_status error_of_scope(decoder *d, gw_error *error) {
    return error_copy(error, scope_error(d->scope));
}

// The data after |h|. |out| gets one count, or NULL if no tensor is to be made.
static gw_status read_dense(decoder *d, tensor_header *h, gw_tensor **out, gw_error *error) {
    segment numbers = { 0 };
    gw_status status = h->in_segment ? read_segment(d, h, &numbers, error)
                                     : read_inline(d, h, &numbers.block, error);
    *out = NULL;
    if (status || !d->scope) return status;
    gw_tensor *x = tensor_over(d->scope, h->dtype, h->dims, h->sizes, numbers.block);
    if (!x) return error_of_scope(d, error);
    x->offset = (int64_t)(numbers.offset / gw_dtype_size(h->dtype));
    if (numbers.shared) storage_pin(x->storage);
    *out = x;
    return GW_OK;
}

// ---- Sparse by rows -----------------------------------------------------------------------------
static gw_status read_part(decoder *d, tensor_header *h, gw_tensor **out, gw_error *error) {
    gw_status status = read_header(&d->in, h, error);
    if (status) return status;
    if (h->layout != GW_STRIDED)
        return error_set(
            error, GW_PROTOCOL,
            "malformed tensor: a part of a tensor that is sparse by rows has layout %d",
            (int)h->layout);
    return read_dense(d, h, out, error);
}

static gw_status check_whole(const tensor_header *whole, gw_error *error) {
    if (whole->dtype > GW_BF16)
        return error_set(error, GW_PROTOCOL, "malformed tensor: rows of %s, which is not floating",
                         gw_dtype_name(whole->dtype));
    if (whole->dims == 0)
        return error_set(error, GW_PROTOCOL, "malformed tensor: a scalar cannot have rows");
    return GW_OK;
}

static gw_status check_indices(const tensor_header *whole, const tensor_header *h, bool *ascending,
                               gw_error *error) {
    if (h->dtype != GW_I64 || h->dims != 1)
        return error_set(error, GW_PROTOCOL,
                         "malformed tensor: indices of rows are %s and have %d dimensions",
                         gw_dtype_name(h->dtype), h->dims);
    int64_t at = rows_find_invalid(h->numbers, h->sizes[0], whole->sizes[0], ascending);
    if (at == h->sizes[0]) return GW_OK;
    int64_t index;
    memcpy(&index, h->numbers + (size_t)at * sizeof index, sizeof index);
    return error_set(error, GW_PROTOCOL,
                     "malformed tensor: index %lld is %lld, which is out of range for %lld rows",
                     (long long)at, (long long)index, (long long)whole->sizes[0]);
}

static gw_status check_values(const tensor_header *whole, const tensor_header *h, int64_t count,
                              gw_error *error) {
    size_t rest = ((size_t)whole->dims - 1) * sizeof(int64_t);
    if (h->dtype != whole->dtype || h->dims != whole->dims || h->sizes[0] != count ||
        memcmp(h->sizes + 1, whole->sizes + 1, rest) != 0)
        return error_set(error, GW_PROTOCOL,
                         "malformed tensor: the values of its rows have another shape");
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
