#include "base/limits.h"
#include "base/value.h"
#include "tensor/pack.h"
#include "wire/codec.h"

#include <string.h>

// Cuts a long text: an error that is sent in part is better than none.
static void put_text_cut(bytes *b, const char *text, size_t max) {
    size_t size = strnlen(text, max - 1);
    bytes_put_u32(b, (uint32_t)size);
    bytes_put(b, text, size);
}

void encode_error(bytes *b, const gw_error *e) {
    bytes_put_u8(b, (uint8_t)e->status);
    bytes_put_u8(b, (uint8_t)e->outcome);
    put_text_cut(b, e->worker, sizeof e->worker);
    put_text_cut(b, e->function, sizeof e->function);
    put_text_cut(b, e->text, sizeof e->text);
    int count = error_abort_count(e);
    bytes_put_u8(b, (uint8_t)count);
    for (int i = 0; i < count; i++) {
        bytes_put_u64(b, e->aborts[i].group);
        bytes_put_u64(b, e->aborts[i].key);
        bytes_put_u64(b, e->aborts[i].number);
    }
    bytes_put_u8(b, (uint8_t)e->lost.how);
    if (e->lost.how) {
        bytes_put_u32(b, (uint32_t)e->lost.rank);
        bytes_put_u64(b, e->lost.incarnation);
        put_text_cut(b, e->lost.name, sizeof e->lost.name);
    }
    bytes_put_u32(b, e->trace.calls);
    if (e->trace.calls) {
        bytes_put_u64(b, e->trace.function);
        bytes_put_u16(b, e->trace.first);
        bytes_put_u16(b, e->trace.last);
    }
}

static gw_status encode_string(bytes *head, gw_value v, gw_error *error) {
    if (v.size >= UINT32_MAX)
        return error_set(error, GW_LIMIT,
                         "string: it has %zu bytes, but less than 4 GiB are allowed", v.size);
    if (memchr(v.as.string, 0, v.size))
        return error_set(error, GW_INVALID, "string: byte %zu is a NUL: send such data as bytes",
                         strlen(v.as.string));
    bytes_put_u32(head, (uint32_t)v.size);
    bytes_put(head, v.as.string, v.size);
    return GW_OK;
}

static gw_status encode_bytes(bytes *head, gw_value v, gw_error *error) {
    if (v.size >= UINT32_MAX)
        return error_set(error, GW_LIMIT, "bytes: there are %zu, but less than 4 GiB are allowed",
                         v.size);
    bytes_put_u64(head, v.size);
    bytes_put(head, v.as.bytes, v.size);
    return GW_OK;
}

static gw_status encode_list(encoder *e, const gw_list *list, gw_error *error) {
    bytes_put_u32(&e->message->head, (uint32_t)list->count);
    for (int i = 0; i < list->count; i++) {
        gw_status status = encode_value(e, list->items[i], error);
        if (status) return status;
    }
    return GW_OK;
}

static gw_status encode_map(encoder *e, const gw_map *map, gw_error *error) {
    bytes_put_u32(&e->message->head, (uint32_t)map->values.count);
    for (int i = 0; i < map->values.count; i++) {
        bytes_put_text(&e->message->head, map->keys[i]);
        gw_status status = encode_value(e, map->values.items[i], error);
        if (status) return status;
    }
    return GW_OK;
}

static gw_status encode_container(encoder *e, gw_value v, gw_error *error) {
    if (v.as.list == &list_poison || v.as.map == &map_poison)
        return error_set(error, GW_INVALID, "the %s was made in a scope that has failed",
                         gw_kind_name(v.kind));
    if (e->depth == LIMIT_NESTING)
        return error_set(error, GW_LIMIT, "value: lists and maps nested deeper than %d",
                         LIMIT_NESTING);
    e->depth++;
    gw_status status =
        v.kind == GW_LIST ? encode_list(e, v.as.list, error) : encode_map(e, v.as.map, error);
    e->depth--;
    return status;
}

static gw_status encode_worker(bytes *head, gw_value v, gw_error *error) {
    if (v.rank < 0 || v.rank >= LIMIT_WORKERS)
        return error_set(error, GW_INVALID, "worker: no worker has rank %d", v.rank);
    put_text_cut(head, v.as.worker, LIMIT_NAME_BYTES + 1);
    bytes_put_u32(head, (uint32_t)v.rank);
    bytes_put_u64(head, v.incarnation);
    return GW_OK;
}

static gw_status encode_tracked(encoder *e, gw_tensor *x, gw_error *error) {
    gw_error own = { 0 };
    bytes_put_u8(&e->message->head, TAG_TRACKED_TENSOR);
    if (e->track(e->user, e, x, &own)) return encode_tensor(e, x, error);
    if (error) *error = own;
    return own.status ? own.status : GW_NO_MEMORY;
}

// Checks an error that a program has filled in: the receiver would take a wrong one for a protocol error.
static gw_status encode_error_value(bytes *head, const gw_error *x, gw_error *error) {
    if (!x || !status_is_of_error(x->status) || (unsigned)x->outcome > GW_RAN_AND_FAILED)
        return error_set(error, GW_INVALID,
                         "malformed value: an error with status %d and outcome %d",
                         x ? (int)x->status : 0, x ? (int)x->outcome : 0);
    encode_error(head, x);
    return GW_OK;
}

gw_status encode_value(encoder *e, gw_value v, gw_error *error) {
    bytes *head = &e->message->head;
    if (e->count++ >= LIMIT_VALUES)
        return error_set(error, GW_LIMIT, "a message has more than %d values", LIMIT_VALUES);
    if (v.kind == GW_TENSOR && e->track && tensor_needs_grad(v.as.tensor))
        return encode_tracked(e, v.as.tensor, error);
    bytes_put_u8(head, (uint8_t)v.kind);
    switch (v.kind) {
    case GW_NONE: return GW_OK;
    case GW_BOOL: bytes_put_u8(head, v.as.boolean); return GW_OK;
    case GW_INT: bytes_put_u64(head, (uint64_t)v.as.integer); return GW_OK;
    case GW_FLOAT: bytes_put_f64(head, v.as.real); return GW_OK;
    case GW_STRING: return encode_string(head, v, error);
    case GW_BYTES: return encode_bytes(head, v, error);
    case GW_TENSOR: return encode_tensor(e, v.as.tensor, error);
    case GW_LIST:
    case GW_MAP: return encode_container(e, v, error);
    case GW_WORKER: return encode_worker(head, v, error);
    case GW_ERROR: return encode_error_value(head, v.as.error, error);
    case GW_RREF:
    case GW_FUTURE: {
        if (!e->attachment)
            return error_set(error, GW_UNSUPPORTED, "%s: cannot be sent here",
                             gw_kind_name(v.kind));
        gw_error own = { 0 };
        if (e->attachment(e->user, e, v, &own)) return GW_OK;
        if (error) *error = own;
        return own.status ? own.status : GW_INVALID;
    }
    case GW_KIND_COUNT: break;
    }
    return error_set(error, GW_INVALID, "value: kind %d does not exist", (int)v.kind);
}

// ---- Tensors ------------------------------------------------------------------------------------

static gw_status encode_segment(encoder *e, const gw_tensor *x, size_t size_bytes,
                                gw_error *error) {
    packed numbers;
    if (!tensor_pack(x, &numbers))
        return error_set(error, GW_NO_MEMORY, "tensor: no memory to make it contiguous");
    bool added = message_add_segment(e->message, numbers.holder, numbers.offset, size_bytes);
    packed_release(&numbers);
    if (!added) return error_set(error, GW_NO_MEMORY, "no memory for a message");
    return GW_OK;
}

static gw_status put_header(encoder *e, const gw_tensor *x, bool in_segment, gw_error *error) {
    uint8_t *at = bytes_extend(&e->message->head, 5 + 8 * (size_t)x->dims);
    if (!at) return error_set(error, GW_NO_MEMORY, "no memory for a message");
    at[0] = x->dtype;
    at[1] = GW_CPU;  // the receiver's device, whatever the sender's
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
    if (tensor_is_poison(x))
        return error_set(error, GW_INVALID, "the tensor was made in a scope that has failed: %s",
                         tensor_poison_reason(x));
    if (!x->storage)
        return error_set(error, GW_INVALID, "tensor: the tensor has no values to send");
    size_t size_bytes = tensor_size(x);
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
    tensor_pack_into(numbers, x);
    return GW_OK;
}
