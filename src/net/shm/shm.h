// Shared memory as a transport: streams between processes of one host. docs/protocol/rings.md is the specification.
// Between its files: shm.c moves bytes, shm_connect.c makes streams, either way, shm_segment.c the memory they share, and
// shm_state.c says when which of their states follows.
//
// Threads: the loop lock's.
#ifndef NET_SHM_SHM_H
#define NET_SHM_SHM_H

#include "net/loop/loop.h"
#include "net/shm/ring.h"
#include "net/transport/transport.h"

extern const transport shm_transport;

// The memory that two ends share.
typedef struct segment_map {
    int fd;         // -1: none
    uint8_t *base;  // NULL: none
} segment_map;

enum {
    SEGMENT_PAGE_BYTES = 4096,  // before the first ring's bytes
    SEGMENT_BYTES = SEGMENT_PAGE_BYTES + 2 * RING_BYTES,
};

// What is awaited on a stream.
typedef enum shm_state {
    SHM_CONNECTING,        // the loop, to tell how our connect went
    SHM_ACCEPTED,          // somebody to adopt it
    SHM_AWAITING_SEGMENT,  // the peer's memory
    SHM_OPEN,              // bytes, either way
    SHM_CUT,               // the loop, to tell that a test has cut it
    SHM_CLOSED,            // nothing: to be freed
    SHM_STATE_COUNT
} shm_state;

typedef enum shm_event {
    SHM_CONNECTED,
    SHM_ADOPTED,
    SHM_MAPPED,
    SHM_TEST_CUTS,
    SHM_ENDED,        // the peer has closed, or what it wrote means nothing; |why| has the words
    SHM_CLOSED_HERE,  // by its owner
    SHM_ABANDONED,    // its env closes
    SHM_EVENT_COUNT
} shm_event;

typedef struct shm_stream {
    source source;  // must be first: the loop frees it
    stream stream;
    os_env *env;
    shm_state state;
    int fd;  // the socket

    segment_map map;
    ring_in in;
    ring_out out;

    bool wants_writable;  // the last send took less than all
    bool rings_at_once;   // the bell that is due is about room
    int bells_at_once;  // bells that are rung before it is worth again to see whether the peer comes
    int bells_in_vain;  // as many at once after the next one for which it did not
    bool has_ended;     // the socket has; what is in the ring comes first
    int error;          // what a failed call has said
    const char *why;    // ENDED: in words
    timer timer;        // an end that is due
    timer shrink;       // while the ring out is large
    int op_count;       // sends and receipts, where a test cuts connections
} shm_stream;

// ---- shm_state.c --------------------------------------------------------------------------------
void shm_apply(shm_stream *t, shm_event event);
void shm_end(shm_stream *t, const char *why);      // ENDED
void shm_end_soon(shm_stream *t, int errno_code);  // the same, in a turn of its own

// ---- shm.c --------------------------------------------------------------------------------------
shm_stream *shm_stream_new(os_env *o, int fd, shm_state state);  // owns |fd|; NULL without memory
void shm_use(shm_stream *t, segment_map map, bool is_ours);      // its rings lie there; takes |map|

// ---- shm_segment.c ------------------------------------------------------------------------------
gw_status segment_make(segment_map *out, gw_error *error);  // SYSTEM
// Takes |fd|, which a peer has sent. PROTOCOL if it cannot be trusted, SYSTEM.
gw_status segment_map_peers(int fd, segment_map *out, gw_error *error);
void segment_close(segment_map *m);
bool segment_allocate(const segment_map *m, size_t offset, size_t size);
void segment_give_back(const segment_map *m, size_t offset, size_t size);

// ---- shm_connect.c ------------------------------------------------------------------------------
void shm_receive_segment(shm_stream *t);

#endif
