// Values to bytes and back. docs/PROTOCOL.md, "Values", is the specification.
#ifndef WIRE_CODEC_H
#define WIRE_CODEC_H

#include "wire/message.h"
#include <gradwire/value.h>

// Writes values into a message's head. A reference or future becomes a special: |special| writes what it likes behind
// the tag (through bytes_put...) and returns false with |error| set if the value cannot travel.
typedef struct encoder {
    message *message;
    bool (*special)(void *user, struct encoder *e, gw_value v, gw_error *error);
    void *user;
    int depth;
} encoder;

gw_status encode_value(encoder *e, gw_value v, gw_error *error);

// Reads values from a received message. Tensors are made in |scope| over the message's own segments, without a copy of
// large ones. |special| reads what the encoder's wrote.
typedef struct decoder {
    message *message;
    reader in;
    uint32_t next_segment;
    gw_scope *scope; // NULL: check and skip, making nothing; specials are still reported
    gw_status (*special)(void *user, struct decoder *d, gw_kind kind, gw_value *out, gw_error *error);
    void *user;
    int depth;
} decoder;

// PROTOCOL with one sentence for bytes that are no value; LIMIT beyond a limit of base/limits.h.
gw_status decode_value(decoder *d, gw_value *out, gw_error *error);

void encode_error(bytes *b, const gw_error *e);
gw_status decode_error(reader *r, gw_error *out, gw_error *error);

#endif
