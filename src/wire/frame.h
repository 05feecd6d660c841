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
    uint32_t distance;    // bulk: from the frame that its message began with
    uint32_t body_check;  // over connections that do not protect bodies
} frame;

// Whether it counts in the numbers of a session.
static inline bool frame_is_numbered(const frame *f) {
    return f->type == FRAME_DATA || f->type == FRAME_BULK;
}

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
// One with bulk is announced once its head and sizes have come: assembly_announce gives the message
// away, and assembly_finish puts the segments into it. Until then they lie here, since whoever has
// the message may put others between its own. Where one goes is asked when its first byte comes:
// whoever has the message may have named a place until then.
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
    bool has_bulk, is_announced;
    segment *segments;    // once their sizes have come
    uint64_t bulk_bytes;  // in all of them
    assembly_mark at;
} assembly;

// Begins a message. NO_MEMORY.
gw_status assembly_open(assembly *a, uint8_t kind, uint32_t head_size, uint32_t segment_count,
                        bool has_bulk, gw_error *error);

// Where the next bytes of the message go: at most |*size| of them, which is 0 when the message, or
// its stream, is complete. NO_MEMORY, PROTOCOL or LIMIT (for the sizes of the segments).
gw_status assembly_place(assembly *a, uint8_t **into, size_t *size, gw_error *error);
void assembly_advance(assembly *a, size_t count);  // |count| bytes were put there

static inline bool assembly_is_complete(const assembly *a) {
    bool awaits_none = a->at.segment == a->segment_count || (a->has_bulk && !a->is_announced);
    return a->at.head_done == a->head_total && awaits_none;
}

// Goes back to |mark|.
void assembly_rewind(assembly *a, assembly_mark mark);

message *assembly_take(assembly *a);  // the complete message
void assembly_drop(assembly *a);      // frees what there is

// Its stream is complete: one count of the message, which is incomplete, for whoever is to have it.
// NO_MEMORY, or PROTOCOL or LIMIT for the sizes.
gw_status assembly_announce(assembly *a, message **out, gw_error *error);
void assembly_forget_segments(assembly *a);  // those that have come; nobody will ask for them
// It is complete: puts the segments into the message, in front of none that somebody else has put
// there. The count that the assembly had is the caller's.
message *assembly_finish(assembly *a);

#endif
