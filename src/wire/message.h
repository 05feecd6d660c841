// Messages: what one agent tells another, as bytes.
//
// A message is a head (its header, its values, and every small tensor's numbers) and a list of
// segments (the numbers of large tensors), which are sent from the pinned blocks they lie in and
// received straight into blocks of the pool. It is counted: the session holds it until the peer has
// acknowledged it, so that it can be sent again.
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

typedef struct message {
    _Atomic uint32_t count;
    uint8_t kind;  // of the rooms above: rpc/protocol.h lists them; not 0
    bool received;
    bytes head;
    segment *segments;
    uint32_t segment_count, segment_capacity;
    uint64_t fetched_bytes;  // received: of numbers that do not travel with it but take memory here

    // the session's, while the message is with it: in one session at a time
    list_node link;
    uint64_t number;  // of its first frame
    uint64_t frame_count;
    size_t head_size;  // of |head| without the sizes of the segments, which sealing puts behind it
} message;

message *message_open(uint8_t kind);  // NULL without memory
message *message_retain(message *m);
void message_release(
    message *m);  // unpins and releases the segments with the last count; NULL is fine

// Adds |size| bytes of |b| (pins it). False without memory.
bool message_add_segment(message *m, block *b, size_t offset, size_t size);

// Takes a segment out, before the message is sealed: it does not travel, and is not pinned any more.
void message_remove_segment(message *m, uint32_t index);

// Bytes of head and segments together.
uint64_t message_size(const message *m);

// Ends the filling: checks the limits, computes |frame_count| and puts the sizes of the segments
// behind the head. LIMIT, or NO_MEMORY (also if the head ran out of memory while it was written).
gw_status message_seal(message *m, gw_error *error);

// A copy as its receiver would see it, with segments of its own. NULL without memory.
message *message_copy(const message *m);

#endif
