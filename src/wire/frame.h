// Frame headers. docs/protocol/session.md is the specification.
//
// Ownership, threads: plain values.
#ifndef WIRE_FRAME_H
#define WIRE_FRAME_H

#include "wire/message.h"
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

// ---- Putting messages together ------------------------------------------------------------------
//
// A message that is being received, put together from the bodies of its frames.
//
// Memory is taken as bytes arrive: the head grows by doubling, and a segment's block is taken when
// its first byte comes (the pool's large blocks are mappings whose pages come when touched), so
// that a size which is only claimed costs nothing.
//
// Ownership: lives in its session. Threads: the session's.

// How far a message has come. A session keeps one to go back to when a connection breaks inside a
// frame.
typedef struct assembly_mark {
    uint64_t head_done;  // bytes of the head and of the sizes behind it
    uint32_t segment;    // which one is being filled
    uint64_t segment_done;
} assembly_mark;

typedef struct assembly {
    message *message;     // NULL: none is being received
    uint64_t head_total;  // with the sizes of the segments
    uint32_t head_size, segment_count;
    assembly_mark at;
} assembly;

// Begins a message. NO_MEMORY.
gw_status assembly_open(assembly *a, uint8_t kind, uint32_t head_size, uint32_t segment_count,
                        gw_error *error);

// Where the next bytes of the message go: at most |*size| of them, which is 0 when the message is
// complete. NO_MEMORY, PROTOCOL or LIMIT (for the sizes of the segments).
gw_status assembly_place(assembly *a, uint8_t **into, size_t *size, gw_error *error);
void assembly_advance(assembly *a, size_t count);  // |count| bytes were put there

static inline bool assembly_is_complete(const assembly *a) {
    return a->at.head_done == a->head_total && a->at.segment == a->segment_count;
}

// Goes back to |mark|.
void assembly_rewind(assembly *a, assembly_mark mark);

message *assembly_take(assembly *a);  // the complete message
void assembly_drop(assembly *a);      // frees what there is

#endif
