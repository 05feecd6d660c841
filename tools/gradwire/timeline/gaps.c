#include "timeline/gaps.h"

#include <stdlib.h>

#include "trace/kinds.h"

static int by_image_and_time(const void *a, const void *b) {
    const gap *x = a, *y = b;
    if (x->image != y->image) return x->image < y->image ? -1 : 1;
    if (x->at_ns != y->at_ns) return x->at_ns < y->at_ns ? -1 : 1;
    return x->thread - y->thread;
}

static bool add(gaps *g, gap x) {
    if ((g->count & (g->count - 1)) == 0) {
        gap *larger = realloc(g->all, (size_t)(g->count ? 2 * g->count : 1) * sizeof *larger);
        if (!larger) return false;
        g->all = larger;
    }
    g->all[g->count++] = x;
    return true;
}

bool gaps_find(const image *images, int count, gaps *out) {
    bool ok = true;
    *out = (gaps){ 0 };
    for (int i = 0; i < count; i++)
        for (int k = 0; k < images[i].thread_count; k++) {
            const image_thread *t = &images[i].threads[k];
            for (uint32_t n = 0; ok && n < t->record_count; n++)
                if (t->records[n].kind == TRACE_OVERTAKEN)
                    ok = add(out, (gap){ i, k, t->records[n].at_ns, false });
        }
    if (out->count) qsort(out->all, (size_t)out->count, sizeof *out->all, by_image_and_time);
    return ok;
}

void gaps_fini(gaps *g) {
    free(g->all);
    *g = (gaps){ 0 };
}

// How many are before the time of the image, or at it.
static int count_until(const gaps *g, int image, int64_t at_ns) {
    int low = 0, high = g->count;
    while (low < high) {
        int middle = low + (high - low) / 2;
        const gap *x = &g->all[middle];
        if (x->image < image || (x->image == image && x->at_ns <= at_ns))
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

// Begin and end of a call or collective are recorded by any threads.
static bool is_of_thread(uint8_t begin_kind) {
    return begin_kind != TRACE_CALL_MADE && begin_kind != TRACE_COLLECTIVE_ENTERED &&
           begin_kind != TRACE_CHECKPOINT_BEGUN;
}

int gaps_behind(const gaps *g, int image, int thread, uint8_t begin_kind, int64_t at_ns) {
    for (int i = count_until(g, image, at_ns); i < g->count && g->all[i].image == image; i++)
        if (g->all[i].thread == thread || !is_of_thread(begin_kind)) return i;
    return -1;
}

int gaps_before(const gaps *g, int image, int thread, uint8_t begin_kind, int64_t at_ns) {
    for (int i = count_until(g, image, at_ns) - 1; i >= 0 && g->all[i].image == image; i--)
        if (g->all[i].thread == thread || !is_of_thread(begin_kind)) return i;
    return -1;
}

int gaps_take(gaps *g, int image, int thread, int64_t at_ns) {
    for (int i = count_until(g, image, at_ns) - 1;
         i >= 0 && g->all[i].image == image && g->all[i].at_ns == at_ns; i--) {
        if (g->all[i].thread != thread || g->all[i].is_taken) continue;
        g->all[i].is_taken = true;
        return i;
    }
    return -1;
}
