// Whether a job moves: calls and collectives end, or all that waits is young.
//
// Threads: one.
#ifndef GRADWIRE_PROGRESS_H
#define GRADWIRE_PROGRESS_H

#include "observe/image.h"

typedef struct progress {
    uint64_t count;          // of calls and collectives that have ended
    int64_t moved_ms;        // when that has changed; 0: not looked at yet
    int64_t oldest_wait_ms;  // how long the oldest of all waits has lasted
} progress;

// The images are of all workers of the job. Returns whether it has moved since the last time.
bool progress_update(progress *p, const image *images, int count, int64_t now_ms);

// Whether nothing has ended for |after_ms|, while a thread waits as long.
bool progress_has_stopped(const progress *p, int64_t now_ms, int64_t after_ms);

#endif
