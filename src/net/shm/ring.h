// A ring: bytes from one process to another through memory that both have mapped.
// docs/protocol/rings.md is the specification (RING-6 to RING-11, RING-13).
//
// A ring is only memory: its functions make no system calls except to allocate pages, and do not wait. The caller
// notifies the other end to check the ring; ring_out_wakes and ring_in_wakes return whether this is necessary.
//
// The other end may write anything at any time. The other end can corrupt a ring's bytes or break the ring, but never
// make this end access memory outside the ring.
//
// Ownership: plain values over the caller's memory. Threads: one thread at a time uses each end.
#ifndef NET_SHM_RING_H
#define NET_SHM_RING_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

enum {
    RING_BYTES = 512 * 1024,
    RING_SMALL_BYTES = 16 * 1024,  // used as long as they suffice
    RING_REWIND_BYTES = 8 * 1024,  // an empty ring beyond this offset continues at its beginning
};

#ifdef GW_MUTATIONS
// Tests: actions of the other end between two accesses to the words.
extern void (*ring_between_steps)(void *context);
extern void *ring_steps_context;
#endif

// The values of |armed|, the state of the consumer.
enum { RING_CHECKING, RING_SLEEPS, RING_AWAY };

// In the segment, initially zero. While both ends are busy only the cache line of |tail| moves between them with each
// message: |head| and |armed| have cache lines of their own.
typedef struct ring_words {
    _Alignas(64) _Atomic uint64_t tail;
    _Atomic uint64_t skip;
    _Atomic uint32_t wants_room;
    _Alignas(64) _Atomic uint64_t head;
    _Alignas(64) _Atomic uint32_t armed;
} ring_words;

_Static_assert(sizeof(ring_words) == 192, "as docs/protocol/rings.md has it");

// The producer's end.
typedef struct ring_out {
    ring_words *words;
    uint8_t *bytes;
    uint64_t tail, head;  // |head| as it was read last, after a skip
    uint64_t skip;        // where the last skip was: the consumer's head until it has read the skip
    bool is_large;        // the pages beyond RING_SMALL_BYTES are allocated
    bool needs_large;     // and have been used since the last ring_shrink
    bool is_broken;       // the other end has written impossible values
    // Allocates or frees the pages beyond RING_SMALL_BYTES; false: it cannot.
    bool (*resize)(void *user, bool large);
    void *user;
} ring_out;

// The consumer's end.
typedef struct ring_in {
    ring_words *words;
    const uint8_t *bytes;
    uint64_t head;
    bool is_broken;
} ring_in;

// Puts in as many bytes as there is room for and returns how many, from the front.
size_t ring_put(ring_out *r, const struct iovec *parts, int count, bool *out_all);
bool ring_has_room(ring_out *r);   // more than none, enough to continue with
bool ring_out_wakes(ring_out *r);  // after ring_put: the consumer sleeps, and has to be woken
// Whether the consumer sleeps with bytes unread. It may check by itself: then ring_out_wakes is false.
bool ring_out_waits(const ring_out *r);
bool ring_out_is_away(const ring_out *r);  // the consumer is away (RING-13)
bool ring_out_sleeps(ring_out *r);  // about to sleep until there is room; false: there is room
// Frees the large pages, if the ring is empty and has not used them since the last call. Returns whether they are
// freed.
bool ring_shrink(ring_out *r);

// Whether there are bytes, or the ring is broken.
static inline bool ring_has_bytes(const ring_in *r) {
    return atomic_load_explicit(&r->words->tail, memory_order_acquire) != r->head;
}

// Takes out at most |size| bytes; 0: there are none, or the ring is broken.
size_t ring_take(ring_in *r, void *into, size_t size);
bool ring_in_wakes(ring_in *r);   // after ring_take: the producer sleeps, and has to be woken
bool ring_in_sleeps(ring_in *r);  // about to sleep until there are bytes; false: there are bytes
bool ring_in_leaves(ring_in *r);  // the same, but patient bytes need not wake it
void ring_in_awake(ring_in *r);

#endif
