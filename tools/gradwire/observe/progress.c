#include "observe/progress.h"

bool progress_update(progress *p, const image *images, int count, int64_t now_ms) {
    uint64_t ended = 0;
    p->oldest_wait_ms = 0;
    for (int i = 0; i < count; i++) {
        const image *x = &images[i];
        ended += image_progress(x);
        if (x->life == IMAGE_HAS_ENDED) continue;  // its threads wait no longer
        int64_t ms = image_oldest_wait_ns(x, now_ms * 1000000) / 1000000;
        if (ms > p->oldest_wait_ms) p->oldest_wait_ms = ms;
    }
    if (ended == p->count && p->moved_ms) return false;
    p->count = ended;
    p->moved_ms = now_ms;
    return true;
}

bool progress_has_stopped(const progress *p, int64_t now_ms, int64_t after_ms) {
    return p->moved_ms && now_ms - p->moved_ms >= after_ms && p->oldest_wait_ms >= after_ms;
}
