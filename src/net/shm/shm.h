// Shared memory as a transport: streams between processes of one host. docs/protocol/rings.md is the specification.
// shm.c moves bytes, shm_connect.c makes streams by connecting and accepting, shm_segment.c makes the memory they
// share, and shm_state.c defines their states.
//
// Threads: with the loop lock held.
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
    SHM_CONNECTING,        // the loop, to report the result of our connect
    SHM_ACCEPTED,          // stream_adopt
    SHM_AWAITING_SEGMENT,  // the peer's memory
    SHM_OPEN,              // bytes, either way
    SHM_CUT,               // the loop, to report that a test has cut it
    SHM_CLOSED,            // nothing: to be freed
    SHM_STATE_COUNT
} shm_state;

typedef enum shm_event {
    SHM_CONNECTED,
    SHM_ADOPTED,
    SHM_MAPPED,
    SHM_TEST_CUTS,
    SHM_ENDED,        // the peer has closed, or has written invalid values; |why| is the text
    SHM_CLOSED_HERE,  // by its owner
    SHM_ABANDONED,    // its env closes
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
    bool rings_at_once;   // the pending bell is about room
    int bells_at_once;  // this many bells are rung without waiting for the peer to check by itself
    int bells_in_vain;  // how many after the next one for which it did not check
    bool has_ended;     // the socket has; bytes in the ring are read first
    int error;          // of a failed call
    const char *why;    // ENDED: the text
    timer timer;        // an end that is due
    timer shrink;       // while the ring out is large
    int op_count;       // sends and receives, after which a test cuts connections
} shm_stream;

// ---- shm_state.c --------------------------------------------------------------------------------
void shm_apply(shm_stream *t, shm_event event);
void shm_end(shm_stream *t, const char *why);      // ENDED
void shm_end_soon(shm_stream *t, int errno_code);  // the same, in a turn of its own

// ---- shm.c --------------------------------------------------------------------------------------
shm_stream *shm_stream_new(os_env *o, int fd, shm_state state);  // owns |fd|; NULL without memory
void shm_use(shm_stream *t, segment_map map, bool is_ours);      // for its rings; takes |map|

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
