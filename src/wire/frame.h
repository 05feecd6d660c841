// Frame headers. docs/protocol/session.md is the specification.
//
// Ownership, threads: plain values.
#ifndef WIRE_FRAME_H
#define WIRE_FRAME_H

#include <gradwire/status.h>
#include <stdint.h>

enum { FRAME_HEADER_BYTES = 40 };

typedef enum frame_type {
    FRAME_DATA = 1,
    FRAME_ACK,
    FRAME_PING,
    FRAME_GOODBYE,
} frame_type;

typedef struct frame {
    uint8_t type;  // a frame_type, or one of a later version: to be skipped
    bool first;    // a message begins here; the last three fields are valid
    uint32_t body_size;
    uint64_t number, ack;
    uint8_t kind;
    uint32_t segment_count, head_size;
} frame;

void frame_encode(uint8_t out[FRAME_HEADER_BYTES], const frame *f);

// DISCONNECTED if the header was damaged on its way, PROTOCOL if the peer cannot have meant it,
// LIMIT beyond a limit.
gw_status frame_decode(const uint8_t in[FRAME_HEADER_BYTES], frame *out, gw_error *error);

// The same check of a single word.
uint32_t frame_check(uint64_t word);

// Tests: makes the check of any 40 bytes right.
void frame_seal(uint8_t header[FRAME_HEADER_BYTES]);

#endif
