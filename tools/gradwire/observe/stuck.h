// Workers that make no progress while other workers wait for them.
//
// A worker is stuck if it has ended no call and no collective of its own for a time, another worker has waited for it for
// the same time, and it waits for nothing itself. Members of a cycle are not stuck: no end of a single one is better.
//
// Threads: one.
#ifndef GRADWIRE_STUCK_H
#define GRADWIRE_STUCK_H

#include "observe/image.h"

// Of one process. Zero: not looked at yet.
typedef struct stuck_progress {
    uint64_t count;    // of calls that it has made, and collectives, that have ended
    int64_t moved_ms;  // when that has changed
} stuck_progress;

void stuck_update(stuck_progress *p, const image *x, int64_t now_ms);
bool stuck_has_stopped(const stuck_progress *p, int64_t now_ms, int64_t after_ms);

// Sets out[i] to whether another worker has waited for the process of images[i] for |min_ns|, while this process runs and
// waits for nothing. The images are of one job. Returns false without memory.
bool stuck_find(const image *images, int count, int64_t min_ns, bool *out);

// Whether the process has records of a step: of an optimizer, or of an elastic job.
bool stuck_has_stepped(const image *x);

#endif
