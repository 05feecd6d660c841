// A message that is being received, put together from the bodies of its frames.
//
// Memory is taken as bytes arrive: the head grows by doubling, and a segment's block is taken when
// its first byte comes (the pool's large blocks are mappings whose pages come when touched), so
// that a size which is only claimed costs nothing.
//
// Ownership: lives in its session. Threads: the session's.
#ifndef WIRE_ASSEMBLY_H
#define WIRE_ASSEMBLY_H

#include "wire/message.h"

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
