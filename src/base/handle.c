#include "base/handle.h"

#include <assert.h>
#include <stddef.h>
#include <string.h>

enum { DEPTH_MAX = 8 };  // of destructions inside each other

// See Note [Handles inside handles].
static _Thread_local struct {
    int depth;
    gw_handle *waiting;
} destroying;

// The next handle in the list is stored in place of the count, which is not used any more.
static_assert(sizeof(gw_handle) - offsetof(gw_handle, count) >= sizeof(gw_handle *), "no place");

static void set_next(gw_handle *h, gw_handle *next) {
    memcpy((char *)h + offsetof(gw_handle, count), &next, sizeof next);
}

static gw_handle *next_of(const gw_handle *h) {
    gw_handle *next;
    memcpy(&next, (const char *)h + offsetof(gw_handle, count), sizeof next);
    return next;
}

static void destroy(gw_handle *h) {
    destroying.depth++;
    h->class->destroy(h);
    destroying.depth--;
}

void handle_destroy(gw_handle *h) {
    if (destroying.depth >= DEPTH_MAX) {
        set_next(h, destroying.waiting);
        destroying.waiting = h;
        return;
    }
    destroy(h);
    while (!destroying.depth && destroying.waiting) {
        gw_handle *next = destroying.waiting;
        destroying.waiting = next_of(next);
        destroy(next);
    }
}
