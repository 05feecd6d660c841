#include "base/scope_handles.h"

#include "base/map.h"
#include "base/mem.h"

#include <string.h>

enum { RECENT = 64 };  // the last handles, which are searched linearly

// Of the first |count| handles: the last position of each, and, of one that is there several times,
// its position before that. Both are positions + 1; 0: none.
typedef struct handle_index {
    map last;
    uint32_t *before;
    uint32_t count, capacity;
} handle_index;

// ---- The index ----------------------------------------------------------------------------------
static void forget_index(scope_handles *a) {
    if (!a->index) return;
    map_fini(&a->index->last);
    mem_free(a->index->before);
    mem_free(a->index);
    a->index = NULL;
}

static uint32_t last_of(const handle_index *x, const gw_handle *h) {
    return (uint32_t)(uintptr_t)map_find(&x->last, (uintptr_t)h);
}

static bool set_last(handle_index *x, const gw_handle *h, uint32_t number) {
    return map_put(&x->last, (uintptr_t)h, (void *)(uintptr_t)number);
}

// It needs no memory: the key exists.
static void forget_last(handle_index *x, const gw_handle *h) {
    uint32_t before = x->before[last_of(x, h) - 1];
    if (before)
        set_last(x, h, before);
    else
        map_take(&x->last, (uintptr_t)h);
}

// Adds all handles to the index; without memory there is none.
static bool index_all(scope_handles *a) {
    if (!a->index && !(a->index = mem_calloc(sizeof *a->index))) return false;
    handle_index *x = a->index;
    bool ok = mem_grow(&x->before, &x->capacity, a->count, sizeof *x->before);
    for (; ok && x->count < a->count; x->count++) {
        const gw_handle *h = a->items[x->count];
        x->before[x->count] = h ? last_of(x, h) : 0;
        ok = !h || set_last(x, h, x->count + 1);
        if (!ok) break;
    }
    if (!ok) forget_index(a);
    return ok;
}

// For classes that count the scopes that hold a handle.
static void notify_class(gw_handle *h, int change) {
    if (h->class->held_by_scope) h->class->held_by_scope(h, change);
}

// ---- Removing -----------------------------------------------------------------------------------
// Closes the holes once they are more than half of the array.
static void leave_hole(scope_handles *a, uint32_t i) {
    a->items[i] = NULL;
    if (++a->holes <= RECENT || a->holes <= a->count / 2) return;
    uint32_t count = 0;
    for (uint32_t k = 0; k < a->count; k++)
        if (a->items[k]) a->items[count++] = a->items[k];
    a->count = count;
    a->holes = 0;
    forget_index(a);
}

// Finds the last |h| from |first| on; false if there is none.
static bool find(const scope_handles *a, const gw_handle *h, uint32_t first, uint32_t *out) {
    for (uint32_t i = a->count; i-- > first;) {
        *out = i;
        if (a->items[i] == h) return true;
    }
    return false;
}

static bool take(scope_handles *a, const gw_handle *h) {
    uint32_t indexed = a->index ? a->index->count : 0, i;
    uint32_t recent = a->count > RECENT ? a->count - RECENT : 0;
    if (find(a, h, recent > indexed ? recent : indexed, &i)) {
        memmove(&a->items[i], &a->items[i + 1], (a->count - i - 1) * sizeof(gw_handle *));
        a->count--;
        return true;
    }
    if (!recent && !indexed) return false;
    if (index_all(a)) {
        uint32_t number = last_of(a->index, h);
        if (!number) return false;
        forget_last(a->index, h);
        leave_hole(a, number - 1);
        return true;
    }
    if (!find(a, h, 0, &i)) return false;
    leave_hole(a, i);
    return true;
}

bool handles_take(scope_handles *a, gw_handle *h) {
    if (!take(a, h)) return false;
    notify_class(h, -1);
    return true;
}

bool handles_add(scope_handles *a, gw_handle *h) {
    if (!mem_grow(&a->items, &a->capacity, a->count + 1, sizeof *a->items)) return false;
    a->items[a->count++] = h;
    notify_class(h, 1);
    return true;
}

void handles_release_from(scope_handles *a, uint32_t count) {
    while (a->count > count) {
        gw_handle *h = a->items[--a->count];
        a->holes -= !h;
        if (a->index && a->index->count > a->count) {
            if (h) forget_last(a->index, h);
            a->index->count = a->count;
        }
        if (!h) continue;
        notify_class(h, -1);
        handle_release(h);
    }
}

void handles_fini(scope_handles *a) {
    forget_index(a);
    handles_release_from(a, 0);
    mem_free(a->items);
}
