// Messages between agents, as bytes.
//
// A message is a head (its header, its values, and the data of every small tensor) and a list of
// segments (the data of large tensors), which are sent from their pinned blocks and
// received directly into blocks of the pool. A message is counted: the session holds it until the peer has acknowledged
// it, so that the message can be sent again.
//
// The segments of a large message are its *bulk*, which is sent interleaved with the streams of other messages: the
// message is received before its bulk has arrived, and is *incomplete* until then.
//
// Values in the head are written by the encoder and read by the decoder of wire/codec.h. References
// and promises are *attachments*: the folders above write and read the bytes after their tag.
//
// Ownership: message_open returns one count. Threads: the count may change on any thread; one thread fills the message,
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
    bool shared;  // received: this process holds the block elsewhere too, so its tensors pin it
} segment;

typedef struct message message;

// How much of a message has been sent or acknowledged.
typedef struct message_progress {
    bool begun;             // its first frame
    uint64_t stream, bulk;  // bytes
} message_progress;

// A position in a message: in its head (piece 0) or in one of its segments (1 and on).
typedef struct message_cursor {
    uint32_t piece;
    size_t done;
} message_cursor;

struct message {
    _Atomic uint32_t count;
    uint8_t kind;     // of a folder above: rpc/protocol.h lists them; not 0
    bool is_patient;  // see net/transport/transport.h
    bool received;
    bool incomplete;  // received: its segments have sizes and no blocks yet. With the loop lock
    // Called once it is complete; NULL: not awaited. With the loop lock.
    void (*completed)(message *m);
    void *completed_user;
    bytes head;
    segment *segments;
    uint32_t segment_count, segment_capacity;
    uint64_t fetched_bytes;  // received: of data that are read remotely but take memory here
    // Incomplete, and with one segment: the target of that segment, if the receiver has set one
    // (message_set_target). One count on its block. With the loop lock.
    segment target;

    // the session's, while the message is in it: in one session at a time
    list_node link, bulk_link;
    uint64_t id;       // its number in the queue
    uint64_t number;   // of its first frame
    size_t head_size;  // of |head| without the sizes of the segments, which sealing appends
    bool has_bulk;
    bool was_sent;  // all of it has been sent once
    uint64_t size;  // of all, when it is sealed
    message_progress put, acked;
    message_cursor bulk_at;  // the next byte of bulk to be put
};

message *message_open(uint8_t kind);  // NULL without memory
message *message_retain(message *m);
void message_release(
    message *m);  // unpins and releases the segments with the last count; NULL is fine

// Whether the caller's count is the only one.
static inline bool message_is_unshared(const message *m) {
    return atomic_load_explicit(&m->count, memory_order_acquire) == 1;
}

// Adds |size| bytes of |b| (pins it). False without memory.
bool message_add_segment(message *m, block *b, size_t offset, size_t size);

// Removes a segment before the message is sealed: it is not sent, and not pinned any more.
void message_remove_segment(message *m, uint32_t index);

// Sets the target of the only segment of the incomplete |m|, which saves a copy: |size|
// bytes of |b| from |offset| on. No thread may read or write these before |m| is complete. Does nothing
// if the segment has another size, if there are several, or if its first byte has arrived.
void message_set_target(message *m, block *b, size_t offset, size_t size);

// Bytes of head and segments together.
uint64_t message_size(const message *m);

// Ends the filling: checks the limits, decides |has_bulk| and appends the sizes of the segments
// to the head. LIMIT, or NO_MEMORY (also if the head ran out of memory while it was written).
gw_status message_seal(message *m, gw_error *error);

// Takes all segments out of a sealed message.
void message_drop_segments(message *m);

// A copy as its receiver has it, with segments of its own. NULL without memory.
message *message_copy(const message *m);

#endif
