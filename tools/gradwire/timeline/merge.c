#include "timeline/merge.h"

#include <stdlib.h>

uint64_t merge_count(const image *images, int count) {
    uint64_t sum = 0;
    for (int i = 0; i < count; i++)
        for (int k = 0; k < images[i].thread_count; k++) sum += images[i].threads[k].record_count;
    return sum;
}

static bool is_before(const merge_cursor *a, const merge_cursor *b) {
    if (a->at_ns != b->at_ns) return a->at_ns < b->at_ns;
    return a->number < b->number;
}

static void sink(merge *m, int at) {
    merge_cursor moving = m->heap[at];
    for (;;) {
        int child = 2 * at + 1;
        if (child >= m->size) break;
        if (child + 1 < m->size && is_before(&m->heap[child + 1], &m->heap[child])) child++;
        if (!is_before(&m->heap[child], &moving)) break;
        m->heap[at] = m->heap[child];
        at = child;
    }
    m->heap[at] = moving;
}

bool merge_open(const image *images, int count, merge *out) {
    size_t threads = 0;
    uint32_t number = 0;
    for (int i = 0; i < count; i++) threads += (size_t)images[i].thread_count;
    *out = (merge){ .heap = malloc((threads + 1) * sizeof *out->heap) };
    if (!out->heap) return false;
    for (int i = 0; i < count; i++)
        for (int k = 0; k < images[i].thread_count; k++) {
            const image_thread *t = &images[i].threads[k];
            if (!t->record_count) continue;
            out->heap[out->size++] = (merge_cursor){ .at_ns = t->records[0].at_ns,
                                                     .at = t->records,
                                                     .end = t->records + t->record_count,
                                                     .number = number,
                                                     .image = i,
                                                     .thread = k };
            number += t->record_count;
        }
    for (int i = out->size / 2 - 1; i >= 0; i--) sink(out, i);
    return true;
}

bool merge_next(merge *m, merge_item *out) {
    if (!m->size) return false;
    merge_cursor *top = &m->heap[0];
    *out = (merge_item){
        .record = top->at, .number = top->number, .image = top->image, .thread = top->thread
    };
    top->number++;
    if (++top->at == top->end)
        *top = m->heap[--m->size];
    else
        top->at_ns = top->at->at_ns;
    sink(m, 0);
    return true;
}

void merge_close(merge *m) {
    free(m->heap);
    *m = (merge){ 0 };
}
