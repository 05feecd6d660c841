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

// ---- Clocks -------------------------------------------------------------------------------------

// The times of a file may be anything.
static int64_t sum(int64_t a, int64_t b) {
    int64_t out;
    if (__builtin_add_overflow(a, b, &out)) return b > 0 ? INT64_MAX / 2 : 0;
    return out < 0 ? 0 : out > INT64_MAX / 2 ? INT64_MAX / 2 : out;
}

static int64_t wall_minus_monotonic(const image *x) {
    int64_t out;
    return __builtin_sub_overflow(x->opened.wall_ns, x->opened.monotonic_ns, &out) ? 0 : out;
}

static void move(image *x, int64_t by_ns) {
    x->opened.monotonic_ns = sum(x->opened.monotonic_ns, by_ns);
    x->taken.monotonic_ns = sum(x->taken.monotonic_ns, by_ns);
    for (int i = 0; i < x->thread_count; i++)
        for (uint32_t k = 0; k < x->threads[i].record_count; k++)
            x->threads[i].records[k].at_ns = sum(x->threads[i].records[k].at_ns, by_ns);
}

static int first_of_host(const image *images, int index) {
    int i = 0;
    while (strcmp(images[i].host, images[index].host) != 0) i++;
    return i;
}

// All images of a host are moved by the same time, as they have one clock. Also without a move, times get their limits.
static int align(image *images, int count) {
    int hosts = 0;
    int64_t offset = count ? wall_minus_monotonic(&images[0]) : 0;
    // From the last on: the first of a host must have its own times until the others of the host have been moved.
    for (int i = count - 1; i >= 0; i--) {
        int64_t by_ns;
        int first = first_of_host(images, i);
        if (__builtin_sub_overflow(wall_minus_monotonic(&images[first]), offset, &by_ns)) by_ns = 0;
        move(&images[i], by_ns);
        hosts += first == i;
    }
    return hosts;
}

// ---- The last seconds ---------------------------------------------------------------------------

static void trim(image_thread *t, int64_t from_ns) {
    uint32_t old = 0;
    while (old < t->record_count && t->records[old].at_ns < from_ns) old++;
    t->record_count -= old;
    t->lost += old;
    memmove(t->records, t->records + old, t->record_count * sizeof *t->records);
}

int prepare_images(image *images, int count, int64_t last_ns) {
    int hosts = align(images, count);
    int64_t first_ns, image_last_ns, end_ns = 0;
    for (int i = 0; i < count; i++)
        if (prepare_find_times(&images[i], &first_ns, &image_last_ns) && image_last_ns > end_ns)
            end_ns = image_last_ns;
    for (int i = 0; last_ns && i < count; i++)
        for (int k = 0; k < images[i].thread_count; k++)
            trim(&images[i].threads[k], end_ns - last_ns);
    return hosts;
}
