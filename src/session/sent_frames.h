// The contents of each frame that has been sent and is not forgotten yet, the oldest first: they map an
// acknowledgement of frame numbers to bytes of messages, in any order of sending.
//
// Threads: with the loop lock held.
#ifndef SESSION_SENT_FRAMES_H
#define SESSION_SENT_FRAMES_H

#include "base/mem.h"
#include "wire/message.h"

#include <stdint.h>
#include <string.h>

typedef struct sent_frame {
    message *message;
    uint32_t size;
    bool is_bulk;
} sent_frame;

enum {
    SENT_FRAMES_INLINE = 8,  // a session can always send that many
    SENT_FRAMES_KEPT = 64,   // capacity that is not freed
};

typedef struct sent_frames {
    sent_frame *more;       // NULL while they fit inside
    uint32_t capacity;      // of |more|, a power of 2
    uint32_t first, count;  // |first| grows without bound
    sent_frame inside[SENT_FRAMES_INLINE];
} sent_frames;

static inline sent_frame *sent_frames_at(sent_frames *f, uint32_t index) {
    uint32_t at = f->first + index;
    return f->more ? &f->more[at & (f->capacity - 1)] : &f->inside[at % SENT_FRAMES_INLINE];
}

// Whether there is room for one more. Without memory there is room again once some are acknowledged.
static inline bool sent_frames_reserve(sent_frames *f) {
    uint32_t capacity = f->more ? f->capacity : SENT_FRAMES_INLINE;
    if (f->count < capacity) return true;
    sent_frame *more = mem_alloc(2 * (size_t)capacity * sizeof *more);
    if (!more) return false;
    for (uint32_t i = 0; i < f->count; i++)
        more[(f->first + i) % (2 * capacity)] = *sent_frames_at(f, i);
    mem_free(f->more);
    f->more = more;
    f->capacity = 2 * capacity;
    return true;
}

static inline void sent_frames_add(sent_frames *f, sent_frame x) {
    f->count++;
    *sent_frames_at(f, f->count - 1) = x;
}

static inline void sent_frames_clear(sent_frames *f) {
    mem_free(f->more);
    f->more = NULL;
    f->count = f->first = 0;
}

// The oldest one. The memory of a busy session is freed once none is left.
static inline sent_frame sent_frames_take(sent_frames *f) {
    sent_frame x = *sent_frames_at(f, 0);
    f->first++;
    f->count--;
    if (f->count == 0 && f->more && f->capacity > SENT_FRAMES_KEPT) sent_frames_clear(f);
    return x;
}

#endif
