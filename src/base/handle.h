// Handles: counted objects with a class. A scope, a graph edge or a table entry holds one count
// each.
//
// A handle type begins with a gw_handle. The class of a handle states how to destroy the handle when the last count is
// released, on the thread that releases this count. A poison handle is immortal: counting it does nothing.
#ifndef BASE_HANDLE_H
#define BASE_HANDLE_H

#include <gradwire/scope.h>
#include <stdatomic.h>

typedef struct handle_class {
    const char *name;
    void (*destroy)(gw_handle *h);
    // A scope has received a count, |by| is 1, or releases one, -1: of classes that count the handles
    // of the program. NULL: not called.
    void (*held_by_scope)(gw_handle *h, int by);
} handle_class;

struct gw_handle {
    const handle_class *class;
    _Atomic uint32_t count;
};

enum { HANDLE_IMMORTAL = 0x40000000 };

static inline void handle_init(gw_handle *h, const handle_class *class) {
    h->class = class;
    atomic_init(&h->count, 1);
}

static inline void *handle_retain(void *handle) {
    gw_handle *h = handle;
    if (h && atomic_load_explicit(&h->count, memory_order_relaxed) < HANDLE_IMMORTAL)
        atomic_fetch_add_explicit(&h->count, 1, memory_order_relaxed);
    return h;
}

// Releases a count. True if it was the last: then the caller destroys |h|.
static inline bool handle_uncount(gw_handle *h) {
    uint32_t count = atomic_load_explicit(&h->count, memory_order_acquire);
    if (count >= HANDLE_IMMORTAL) return false;
    // A sole holder needs no atomic operation to detect that it is the last.
    return count == 1 || atomic_fetch_sub_explicit(&h->count, 1, memory_order_acq_rel) == 1;
}

// Note [Handles inside handles]
//
// Destroying a handle releases those that it holds, which may destroy them, and so on: a
// program may build chains of any length, and destroying them must not need a stack of that length.
// So handles that are released deep inside the destruction of others are queued in a list of their thread,
// until the outermost one is destroyed.
void handle_destroy(gw_handle *h);

static inline void handle_release(void *handle) {
    gw_handle *h = handle;
    if (h && handle_uncount(h)) handle_destroy(h);
}

// Whether the caller's count is the only one.
static inline bool handle_is_sole(const gw_handle *h) {
    return atomic_load_explicit(&h->count, memory_order_acquire) == 1;
}

#endif
