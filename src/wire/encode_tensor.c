#include "wire/codec.h"

#include "base/limits.h"
#include "tensor/pack.h"

#include <string.h>

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
    at[1] = GW_CPU;  // where its receiver has it, from whatever device
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
