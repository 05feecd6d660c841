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
    FRAME_BULK,
} frame_type;

typedef struct frame {
    uint8_t type;  // a frame_type, or one of a later version: to be skipped
    bool first;    // a message begins here; the four fields from |kind| on are valid
    uint32_t body_size;
    uint64_t number, ack;
    uint8_t kind;
    bool has_bulk;
    uint16_t segment_count;
    uint32_t head_size;
    uint32_t distance;    // bulk: from the first frame of its message
    uint32_t body_check;  // over connections that do not protect bodies
} frame;

// Whether it has a number in the session.
static inline bool frame_is_numbered(const frame *f) {
    return f->type == FRAME_DATA || f->type == FRAME_BULK;
}

void frame_encode(uint8_t out[FRAME_HEADER_BYTES], const frame *f);

// DISCONNECTED if the header was damaged in transit, PROTOCOL if it is undamaged and wrong,
// LIMIT beyond a limit.
gw_status frame_decode(const uint8_t in[FRAME_HEADER_BYTES], frame *out, gw_error *error);

// The same check of a single word.
uint32_t frame_check(uint64_t word);

// Tests: computes the check of any 40 bytes.
void frame_seal(uint8_t header[FRAME_HEADER_BYTES]);

// ---- Assembling messages ------------------------------------------------------------------------
//
// A message that is being received, assembled from the bodies of its frames.
//
// Memory is allocated as bytes arrive: the head grows by doubling, and a segment's block is allocated when
// its first byte arrives (the pool's large blocks are mappings whose pages are allocated when touched), so
// that a claimed size costs nothing.
//
// A message with bulk is announced once its head and sizes have arrived: assembly_announce returns the
// message, and assembly_finish puts the segments into it. Until then the assembly holds them, since the receiver
// of the message may insert others. The target of a segment is read when its first byte arrives:
// the receiver may set one until then.
//
// Ownership: lives in its session. Threads: the session's.

// How much of a message has arrived. A session keeps one to rewind to when a connection breaks inside a
// frame.
typedef struct assembly_mark {
    uint64_t head_done;  // bytes of the head and of the sizes after it
    uint32_t segment;    // the one that is being filled
    uint64_t segment_done;
} assembly_mark;

typedef struct assembly {
    message *message;     // NULL: none is being received
    uint64_t head_total;  // with the sizes of the segments
    uint32_t head_size, segment_count;
    bool has_bulk, is_announced;
    segment *segments;    // once their sizes have arrived
    uint64_t bulk_bytes;  // in all of them
    assembly_mark at;
} assembly;

// Begins a message. NO_MEMORY.
gw_status assembly_open(assembly *a, uint8_t kind, uint32_t head_size, uint32_t segment_count,
                        bool has_bulk, gw_error *error);

// The address of the next bytes of the message: at most |*size| of them, which is 0 when the message, or
// its stream, is complete. NO_MEMORY, PROTOCOL or LIMIT (for the sizes of the segments).
gw_status assembly_next(assembly *a, uint8_t **into, size_t *size, gw_error *error);
void assembly_advance(assembly *a, size_t count);  // |count| bytes were put there

static inline bool assembly_is_complete(const assembly *a) {
    bool awaits_none = a->at.segment == a->segment_count || (a->has_bulk && !a->is_announced);
    return a->at.head_done == a->head_total && awaits_none;
}

// Rewinds to |mark|.
void assembly_rewind(assembly *a, assembly_mark mark);

message *assembly_take(assembly *a);  // the complete message
void assembly_drop(assembly *a);      // frees the message and its segments

// Its stream is complete: returns one count of the message, which is incomplete.
// NO_MEMORY, or PROTOCOL or LIMIT for the sizes.
gw_status assembly_announce(assembly *a, message **out, gw_error *error);
void assembly_forget_segments(assembly *a);  // frees those received so far; they are unwanted
// It is complete: puts the segments into the message, before any that its receiver has
// inserted. The count that the assembly had is the caller's.
message *assembly_finish(assembly *a);

#endif
