#include "net/shm/ring.h"

#include <string.h>

#include "base/failpoint.h"
#include "base/mutation.h"

#ifdef GW_MUTATIONS
void (*ring_between_steps)(void *context);
void *ring_steps_context;

static void step(void) {
    if (ring_between_steps) ring_between_steps(ring_steps_context);
}
#else
#define step() ((void)0)
#endif

static size_t offset_of(uint64_t position) {
    return position & (RING_BYTES - 1);
}

static uint64_t next_beginning(uint64_t position) {
    return (position | (RING_BYTES - 1)) + 1;
}

// ---- The producer -------------------------------------------------------------------------------

// RING-9. A head beyond the tail would announce room that does not exist.
static void read_head(ring_out *r) {
    uint64_t head = atomic_load_explicit(&r->words->head, memory_order_seq_cst);
    if (head == r->skip) return;  // no bytes have been taken out since
    if (head < r->head || head > r->tail) {
        r->is_broken = true;
    } else {
        r->head = head;
    }
}

static bool is_empty(const ring_out *r) {
    return r->head == r->tail;
}

// "When all has been taken out the producer may skip."
static void rewind_empty(ring_out *r) {
    r->skip = r->tail;
    atomic_store_explicit(&r->words->skip, r->skip, memory_order_relaxed);
    r->head = r->tail = next_beginning(r->tail);
}

static size_t room(const ring_out *r) {
    if (r->is_large) return RING_BYTES - (size_t)(r->tail - r->head);
    size_t place = offset_of(r->tail);
    return place < RING_SMALL_BYTES ? RING_SMALL_BYTES - place : 0;
}

// Returns the room for |size| bytes, or less.
static size_t make_room(ring_out *r, size_t size) {
    if (offset_of(r->tail) >= RING_REWIND_BYTES || room(r) < size) read_head(r);
    if (r->is_broken) return 0;
    if (is_empty(r) && offset_of(r->tail) >= RING_REWIND_BYTES) rewind_empty(r);
    if (room(r) < size && !r->is_large) r->is_large = r->resize(r->user, true);
    size_t there = room(r);
    return there < size ? there : size;
}

static void put_bytes(ring_out *r, const uint8_t *from, size_t size) {
    size_t place = offset_of(r->tail), to_end = RING_BYTES - place;
    size_t first = size < to_end ? size : to_end;
    memcpy(r->bytes + place, from, first);
    memcpy(r->bytes, from + first, size - first);
    r->tail += size;
    if (place + size > RING_SMALL_BYTES) r->needs_large = true;
}

size_t ring_put(ring_out *r, const struct iovec *parts, int count, bool *out_all) {
    size_t size = 0;
    for (int i = 0; i < count; i++) size += parts[i].iov_len;
    size_t left = make_room(r, size), taken = left;
    *out_all = taken == size;
    if (has_mutation(MUTATION_RING_TAIL_FIRST) && taken > 0)
        atomic_store_explicit(&r->words->tail, r->tail + taken, memory_order_seq_cst);
    step();
    for (int i = 0; left > 0; i++) {
        size_t piece = parts[i].iov_len < left ? parts[i].iov_len : left;
        put_bytes(r, parts[i].iov_base, piece);
        step();
        left -= piece;
    }
    failpoint("ring_written");
    // Before |armed| is read, in one order for both ends.
    if (taken > 0) atomic_store_explicit(&r->words->tail, r->tail, memory_order_seq_cst);
    return taken;
}

bool ring_has_room(ring_out *r) {
    read_head(r);
    return r->is_broken || is_empty(r) || room(r) >= RING_REWIND_BYTES;
}

bool ring_out_wakes(ring_out *r) {
    step();
    if (!atomic_load_explicit(&r->words->armed, memory_order_seq_cst)) return false;
    step();
    return atomic_exchange_explicit(&r->words->armed, 0, memory_order_acq_rel) != 0;
}

bool ring_out_waits(const ring_out *r) {
    if (!atomic_load_explicit(&r->words->armed, memory_order_seq_cst)) return false;
    return atomic_load_explicit(&r->words->head, memory_order_seq_cst) != r->tail;
}

bool ring_out_is_away(const ring_out *r) {
    return atomic_load_explicit(&r->words->armed, memory_order_relaxed) == RING_AWAY;
}

bool ring_out_sleeps(ring_out *r) {
    step();
    atomic_store_explicit(&r->words->wants_room, 1, memory_order_seq_cst);
    failpoint("ring_full");
    step();
    return !ring_has_room(r);
}

bool ring_shrink(ring_out *r) {
    bool needs_large = r->needs_large;
    r->needs_large = false;
    if (!r->is_large) return true;
    read_head(r);
    if (needs_large || r->is_broken || !is_empty(r)) return false;
    // The tail may be in the pages that are freed; the next bytes are put at the beginning.
    if (offset_of(r->tail) != 0) rewind_empty(r);
    r->resize(r->user, false);
    r->is_large = false;
    return true;
}

// ---- The consumer -------------------------------------------------------------------------------

// RING-9. The number of bytes from |head| on, after a skip at |head|.
static size_t count_bytes(ring_in *r) {
    uint64_t tail = atomic_load_explicit(&r->words->tail, memory_order_acquire);
    if (tail == r->head || r->is_broken) return 0;
    uint64_t head = r->head;
    if (offset_of(head) != 0 && atomic_load_explicit(&r->words->skip, memory_order_relaxed) == head)
        head = next_beginning(head);
    if (tail <= head || tail - head > RING_BYTES) {
        r->is_broken = !has_mutation(MUTATION_RING_INDEX_BELIEVED);
        if (r->is_broken) return 0;
    }
    r->head = head;
    return (size_t)(tail - head);
}

size_t ring_take(ring_in *r, void *into, size_t size) {
    size_t there = count_bytes(r);
    step();
    if (size > there) size = there;
    if (size == 0) return 0;
    size_t place = offset_of(r->head), to_end = RING_BYTES - place;
    size_t first = size < to_end ? size : to_end;
    memcpy(into, r->bytes + place, first);
    memcpy((uint8_t *)into + first, r->bytes, size - first);
    r->head += size;
    failpoint("ring_taken");
    // Before |wants_room| is read, in one order for both ends.
    atomic_store_explicit(&r->words->head, r->head, memory_order_seq_cst);
    return size;
}

bool ring_in_wakes(ring_in *r) {
    step();
    if (!atomic_load_explicit(&r->words->wants_room, memory_order_seq_cst)) return false;
    step();
    return atomic_exchange_explicit(&r->words->wants_room, 0, memory_order_acq_rel) != 0;
}

static bool arm(ring_in *r, uint32_t armed) {
    bool had_bytes = has_mutation(MUTATION_RING_WAKE_LOST) && ring_has_bytes(r);
    step();
    atomic_store_explicit(&r->words->armed, armed, memory_order_seq_cst);
    failpoint("ring_armed");
    step();
    if (has_mutation(MUTATION_RING_WAKE_LOST)) return !had_bytes;
    if (has_mutation(MUTATION_RING_NOT_CHECKED)) return true;
    return atomic_load_explicit(&r->words->tail, memory_order_seq_cst) == r->head;
}

bool ring_in_sleeps(ring_in *r) {
    return arm(r, RING_SLEEPS);
}

bool ring_in_leaves(ring_in *r) {
    return arm(r, RING_AWAY);
}

void ring_in_awake(ring_in *r) {
    atomic_store_explicit(&r->words->armed, RING_CHECKING, memory_order_relaxed);
}
