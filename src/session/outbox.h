// The bytes that a session has ready for its connection: copies of headers and small bodies in one buffer, and
// references to large bodies. Once the buffer is filled, it does not change until the connection has taken all of it.
// So if the connection has taken a part of a frame, the frame continues with the same bytes.
#ifndef SESSION_OUTBOX_H
#define SESSION_OUTBOX_H

#include "base/mem.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/uio.h>

enum {
    OUTBOX_PARTS = 64,
    OUTBOX_COPIED_BYTES = 16 * 1024,     // for a busy session
    OUTBOX_SMALL_BYTES = 512,            // else: a worker has many idle sessions
    OUTBOX_COPY_MAX = 1024,              // larger pieces are referred to
    OUTBOX_BYTES_MAX = 4 * 1024 * 1024,  // of one filling, so that acks are not delayed
};

typedef struct outbox {
    struct iovec parts[OUTBOX_PARTS];
    int begin, end;  // of the parts not taken yet
    size_t bytes;    // in all parts, when filled
    size_t copied;   // to |large| if there is one, else to |small|
    uint64_t last;   // number of the last whole frame in it, or of the one before
    uint8_t *large;  // OUTBOX_COPIED_BYTES; NULL until first needed
    uint8_t small[OUTBOX_SMALL_BYTES];
} outbox;

static inline bool outbox_is_empty(const outbox *o) {
    return o->begin == o->end;
}

static inline void outbox_clear(outbox *o) {
    o->begin = o->end = 0;
    o->bytes = o->copied = 0;
}

static inline bool outbox_is_full(const outbox *o) {
    return o->end == OUTBOX_PARTS || o->bytes >= OUTBOX_BYTES_MAX;
}

// Whether |size| bytes can be copied in. Without memory only the small buffer exists.
static inline bool outbox_has_room(outbox *o, size_t size) {
    if (o->end == OUTBOX_PARTS) return false;
    if (!o->large) {
        if (OUTBOX_SMALL_BYTES - o->copied >= size) return true;
        o->large = mem_alloc(OUTBOX_COPIED_BYTES);
        if (!o->large) return false;
        o->copied = 0;
    }
    return OUTBOX_COPIED_BYTES - o->copied >= size;
}

// Frees the large buffer, which is empty.
static inline void outbox_shrink(outbox *o) {
    mem_free(o->large);
    o->large = NULL;
    outbox_clear(o);
}

static inline void outbox_close(outbox *o) {
    if (o) mem_free(o->large);
    mem_free(o);
}

static inline void outbox_refer(outbox *o, const void *data, size_t size) {
    o->parts[o->end++] = (struct iovec){ .iov_base = (void *)data, .iov_len = size };
    o->bytes += size;
}

// Returns the address for |size| bytes, for which there must be room.
static inline uint8_t *outbox_copy(outbox *o, size_t size) {
    uint8_t *at = (o->large ? o->large : o->small) + o->copied;
    o->copied += size;
    struct iovec *before = o->end > 0 ? &o->parts[o->end - 1] : NULL;
    if (before && (uint8_t *)before->iov_base + before->iov_len == at) {
        before->iov_len += size;
        o->bytes += size;
    } else {
        outbox_refer(o, at, size);
    }
    return at;
}

// The first |count| bytes were taken.
static inline void outbox_take(outbox *o, size_t count) {
    while (count > 0) {
        struct iovec *part = &o->parts[o->begin];
        if (count < part->iov_len) {
            part->iov_base = (uint8_t *)part->iov_base + count;
            part->iov_len -= count;
            return;
        }
        count -= part->iov_len;
        o->begin++;
    }
}

#endif
