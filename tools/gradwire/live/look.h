// The workers of a host at one moment, as bytes for the monitor of another host: their tables, and what their processes use.
//
//     count u32 | count times: resident u64, processor time u64 | a dump of images without records (observe/dump.h)
#ifndef GRADWIRE_LOOK_H
#define GRADWIRE_LOOK_H

#include "base/bytes.h"
#include "live/live.h"

// Without memory |out| fails.
void look_encode(const live *l, bytes *out);

typedef struct look {
    found now;
    process_usage *usages;  // by image
} look;

// Returns false, with the reason in |why|, if the bytes are none. No byte is trusted.
bool look_decode(const void *data, size_t size, look *out, char *why, size_t why_size);
void look_free(look *x);

// Adds |by_ns| to the times of the monotonic clock: that of another host began at another time.
void look_shift(look *x, int64_t by_ns);

#endif
