// Values to bytes and back. docs/protocol/values.md is the specification.
//
// Ownership: see the two structs; both live on the stack of their callers. Threads: that of the message and the scope.
#ifndef WIRE_CODEC_H
#define WIRE_CODEC_H

#include "base/value.h"
#include "wire/message.h"

enum { TAG_TRACKED_TENSOR = 16 };  // all other tags are a gw_kind

// Writes values into a message's head. A reference or future becomes an attachment: |attachment|
// writes its own bytes after the tag (through bytes_put...) and returns false with |error| set if
// the value cannot travel.
typedef struct encoder {
    message *message;
    bool (*attachment)(void *user, struct encoder *e, gw_value v, gw_error *error);
    // Writes the bytes before a tensor that needs a gradient; false with |error| set. NULL: it is encoded
    // as any other tensor.
    bool (*track)(void *user, struct encoder *e, gw_tensor *x, gw_error *error);
    void *user;
    int depth;
    uint32_t count;  // of values so far
} encoder;

// INVALID for a value that cannot travel, LIMIT, NO_MEMORY; then the message cannot be sent. A lack of
// memory inside the head is reported when the message is sealed.
gw_status encode_value(encoder *e, gw_value v, gw_error *error);

// Reads values from a received message. Tensors are made in |scope| over the message's own
// segments, without a copy of large ones. |attachment| reads what the encoder's wrote.
typedef struct decoder {
    message *message;
    reader in;
    uint32_t next_segment;
    gw_scope *scope;  // NULL: check and skip, making nothing; attachments are still reported
    gw_status (*attachment)(void *user, struct decoder *d, gw_kind kind, gw_value *out,
                            gw_error *error);
    // Checks the bytes before a tracked tensor, which is |x|; |x| is NULL
    // without a scope.
    gw_status (*tracked)(void *user, uint32_t attachment, uint32_t slot, gw_tensor *x,
                         gw_error *error);
    void *user;
    int depth;
    uint32_t count;  // of values so far
} decoder;

// PROTOCOL with one error text for malformed bytes; LIMIT beyond a limit of base/limits.h;
// NO_MEMORY.
gw_status decode_value(decoder *d, gw_value *out, gw_error *error);

void encode_error(bytes *b, const gw_error *e);
gw_status decode_error(reader *r, gw_error *out, gw_error *error);

// ---- Internal to this folder --------------------------------------------------------------------
gw_status encode_tensor(encoder *e, const gw_tensor *x, gw_error *error);
gw_status decode_tensor(decoder *d, gw_value *out, gw_error *error);

#endif
