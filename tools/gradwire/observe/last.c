#include "observe/last.h"

// The last record before |*end| that is of |agent|; NULL: none. |*end| is moved to it.
static const image_record *last_before(const image_thread *t, uint32_t *end, int agent) {
    for (; *end; --*end) {
        const image_record *r = &t->records[*end - 1];
        if (r->agent == agent || r->agent == IMAGE_NO_AGENT) return r;
    }
    return NULL;
}

int last_records(const image *x, int agent, const image_record **out, int size) {
    uint32_t ends[TRACE_THREADS];
    int count = 0;
    for (int i = 0; i < x->thread_count; i++) ends[i] = x->threads[i].record_count;
    while (count < size) {
        const image_record *newest = NULL;
        int from = 0;
        for (int i = 0; i < x->thread_count; i++) {
            const image_record *r = last_before(&x->threads[i], &ends[i], agent);
            if (!r || (newest && r->at_ns <= newest->at_ns)) continue;
            newest = r;
            from = i;
        }
        if (!newest) break;
        ends[from]--;
        out[count++] = newest;
    }
    return count;
}
