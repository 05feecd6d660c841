// Messages: what one agent tells another, as bytes.
//
// A message is a head (its header, its values, and every small tensor's numbers) and a list of
// segments (the numbers of large tensors), which are sent from the pinned blocks they lie in and
// received straight into blocks of the pool. It is counted: the session holds it until the peer has
// acknowledged it, so that it can be sent again.
//
// Of a large message the segments are its *bulk*, which travels beside the stream of the others: it
// is received before they have come, and is *incomplete* until then.
//
// Values in the head are written by the encoder and read by the decoder of wire/codec.h. References
// and promises are *attachments*: the rooms above write and read what stands behind their tag.
//
// Ownership: who opens a message has one count. Threads: counted on any thread; filled by one,
// before it is sent.
#ifndef WIRE_MESSAGE_H
#define WIRE_MESSAGE_H

#include "base/bytes.h"
#include "base/list.h"
#include "base/status.h"
#include "tensor/tensor.h"

enum { MESSAGE_INLINE_BYTES = 4096 };  // tensors up to this size travel in the head

typedef struct segment {
    block *block;  // pinned while sending; counted after receiving
    size_t offset, size;
    bool shared;  // received: others here hold the block as well, so that its tensors pin it
} segment;

typedef struct message message;

// How far a message has gone, or has been acknowledged.
typedef struct message_progress {
    bool begun;             // its first frame
    uint64_t stream, bulk;  // bytes
} message_progress;

// A place in a message: in its head (piece 0) or in one of its segments (1 and on).
typedef struct message_cursor {
    uint32_t piece;
    size_t done;
} message_cursor;

struct message {
    _Atomic uint32_t count;
    uint8_t kind;     // of the rooms above: rpc/protocol.h lists them; not 0
    bool is_patient;  // see net/transport/transport.h
    bool received;
    bool incomplete;  // received: its segments have sizes and no blocks yet. With the loop lock
    // Once it is complete: whoever waits for that, if anybody does. With the loop lock.
    void (*completed)(message *m);
    void *completed_user;
    bytes head;
    segment *segments;
    uint32_t segment_count, segment_capacity;
    uint64_t fetched_bytes;  // received: of numbers that do not travel with it but take memory here
    // Incomplete, and with one segment: where that is to lie, once whoever has the message has said so
    // (message_name_place). One count on its block. With the loop lock.
    segment place;

    // the session's, while the message is with it: in one session at a time
    list_node link, bulk_link;
    uint64_t id;       // its place among those queued
    uint64_t number;   // of its first frame
    size_t head_size;  // of |head| without the sizes of the segments, which sealing puts behind it
    bool has_bulk;
    bool has_gone;  // all of it has been sent once
    uint64_t size;  // of all, when it is sealed
    message_progress put, acked;
    message_cursor bulk_at;  // the next byte of bulk that is to be put
};

message *message_open(uint8_t kind);  // NULL without memory
message *message_retain(message *m);
void message_release(
    message *m);  // unpins and releases the segments with the last count; NULL is fine

// Whether one count of it is all there is.
static inline bool message_is_unshared(const message *m) {
    return atomic_load_explicit(&m->count, memory_order_acquire) == 1;
}

// Adds |size| bytes of |b| (pins it). False without memory.
bool message_add_segment(message *m, block *b, size_t offset, size_t size);

// Takes a segment out, before the message is sealed: it does not travel, and is not pinned any more.
void message_remove_segment(message *m, uint32_t index);

// Where the one segment of the incomplete |m| is to lie, so that it need not be copied there: |size|
// bytes of |b| from |offset| on. Nobody else reads or writes these before it is complete. Does nothing
// if it has another size or count of segments; comes too late for one that has begun to come.
void message_name_place(message *m, block *b, size_t offset, size_t size);

// Bytes of head and segments together.
uint64_t message_size(const message *m);

// Ends the filling: checks the limits, decides about |has_bulk| and puts the sizes of the segments
// behind the head. LIMIT, or NO_MEMORY (also if the head ran out of memory while it was written).
gw_status message_seal(message *m, gw_error *error);

// Takes all segments out of a sealed message.
void message_drop_segments(message *m);

// A copy as its receiver would see it, with segments of its own. NULL without memory.
message *message_copy(const message *m);

#endif
