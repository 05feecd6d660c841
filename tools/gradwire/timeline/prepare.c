#include "timeline/prepare.h"

#include <string.h>

bool prepare_find_times(const image *x, int64_t *out_first_ns, int64_t *out_last_ns) {
    bool any = false;
    for (int i = 0; i < x->thread_count; i++) {
        const image_thread *t = &x->threads[i];
        if (!t->record_count) continue;
        int64_t first = t->records[0].at_ns, last = t->records[t->record_count - 1].at_ns;
        if (!any || first < *out_first_ns) *out_first_ns = first;
        if (!any || last > *out_last_ns) *out_last_ns = last;
        any = true;
    }
    return any;
}

// ---- The last seconds ---------------------------------------------------------------------------

static void trim(image_thread *t, int64_t from_ns) {
    uint32_t old = 0;
    while (old < t->record_count && t->records[old].at_ns < from_ns) old++;
    t->record_count -= old;
    t->lost += old;
    memmove(t->records, t->records + old, t->record_count * sizeof *t->records);
}

bool prepare_images(image *images, int count, int64_t last_ns, clocks *out) {
    if (!clocks_align(images, count, out)) return false;
    int64_t first_ns, image_last_ns, end_ns = 0;
    for (int i = 0; i < count; i++)
        if (prepare_find_times(&images[i], &first_ns, &image_last_ns) && image_last_ns > end_ns)
            end_ns = image_last_ns;
    for (int i = 0; last_ns && i < count; i++)
        for (int k = 0; k < images[i].thread_count; k++)
            trim(&images[i].threads[k], end_ns - last_ns);
    return true;
}
