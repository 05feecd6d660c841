#include "observe/rings.h"

#include <stdlib.h>
#include <string.h>

#include "trace/kinds.h"

static bool read_rows(const memory_reader *m, trace_thread_row out[TRACE_THREADS]) {
    return memory_copy(m, out, TRACE_THREADS * sizeof *out, trace_threads_at());
}

static uint64_t head_of(const trace_thread_row *row) {
    return atomic_load_explicit(&row->head, memory_order_relaxed);
}

static bool read_head(const memory_reader *m, int row, uint64_t *out) {
    return memory_copy(m, out, sizeof *out,
                       trace_threads_at() + (uint64_t)row * sizeof(trace_thread_row) +
                           offsetof(trace_thread_row, head));
}

// Records |first| to |head| - 1 of the ring, in order.
static bool read_ring(const memory_reader *m, uint32_t size, int row, uint64_t first, uint64_t head,
                      trace_event *out) {
    uint64_t at = trace_rings_at() + (uint64_t)row * trace_ring_bytes(size);
    uint64_t count = head - first, start = first % size;
    uint64_t straight = count < size - start ? count : size - start;
    return memory_copy(m, out, straight * sizeof *out, at + start * sizeof *out) &&
           memory_copy(m, out + straight, (count - straight) * sizeof *out, at);
}

// The writer may write record |after| meanwhile, where record |after| - |size| was.
static uint64_t first_whole(uint64_t after, uint64_t size) {
    return after >= size ? after - size + 1 : 0;
}

static bool reserve(rings_thread *t, uint32_t more) {
    uint64_t needed = (uint64_t)t->count + more, capacity = t->capacity + t->capacity / 2;
    if (needed <= t->capacity) return true;
    if (capacity < needed) capacity = needed;
    if (capacity > UINT32_MAX) return false;
    trace_event *larger = realloc(t->events, capacity * sizeof *larger);
    if (!larger) return false;
    t->events = larger;
    t->capacity = (uint32_t)capacity;
    return true;
}

// Of the |count| records behind those that are kept, keeps those that are records |first|, |first| + 1, ... of the ring, but
// for the first |overwritten|.
static void keep_whole(rings_thread *t, uint64_t first, uint32_t count, uint32_t overwritten) {
    const trace_event *events = t->events + t->count;
    for (uint32_t i = overwritten; i < count; i++) {
        const trace_event *e = &events[i];
        if (e->number != (uint16_t)(first + i) || !e->kind || e->kind >= TRACE_KIND_COUNT) continue;
        t->events[t->count++] = *e;
    }
}

// Before record |at| of those that are kept.
static void insert_gap(rings_thread *t, uint32_t at, uint64_t lost) {
    const trace_event *next = &t->events[at < t->count ? at : at - 1];
    trace_event gap = {
        .ticks = next->ticks, .value = lost, .agent = UINT8_MAX, .kind = TRACE_OVERTAKEN
    };
    memmove(t->events + at + 1, t->events + at, (t->count - at) * sizeof *t->events);
    t->events[at] = gap;
    t->count++;
}

// Takes as much room as there is for |count| records.
static uint32_t take_room(rings *r, uint32_t count) {
    if (!r->room) return count;
    uint32_t taken = *r->room < count ? (uint32_t)*r->room : count;
    *r->room -= taken;
    return taken;
}

static bool read_thread(const memory_reader *m, rings *r, int row, uint64_t head) {
    rings_thread *t = &r->threads[row];
    uint64_t first = first_whole(head, r->ring_records), after = 0;
    if (first < t->next) first = t->next;
    uint64_t passed = head - t->next;
    uint32_t had = t->count, count = (uint32_t)(head - first), kept = take_room(r, count);
    t->next = head;
    t->left_out += count - kept;
    if (!reserve(t, kept + 1)) return memory_refuse(m, "no memory");
    if (!read_ring(m, r->ring_records, row, first, first + kept, t->events + t->count) ||
        !read_head(m, row, &after))
        return false;
    if (after >= head) {
        uint64_t whole = first_whole(after, r->ring_records);
        uint32_t overwritten = whole <= first         ? 0
                               : whole - first < kept ? (uint32_t)(whole - first)
                                                      : kept;
        keep_whole(t, first, kept, overwritten);
    }
    uint64_t lost = passed - (count - kept) - (t->count - had);
    t->lost += lost;
    if (had && lost) {
        t->overtaken += lost;
        insert_gap(t, had, lost);
    }
    if (passed > r->newest) r->newest = passed;
    return true;
}

bool rings_skip(const memory_reader *m, rings *r) {
    trace_thread_row rows[TRACE_THREADS];
    if (!read_rows(m, rows)) return false;
    for (int row = 0; row < TRACE_THREADS; row++) r->threads[row].next = head_of(&rows[row]);
    return true;
}

bool rings_read(const memory_reader *m, rings *r) {
    trace_thread_row rows[TRACE_THREADS];
    r->newest = 0;
    if (!read_rows(m, rows)) return false;
    for (int row = 0; row < TRACE_THREADS; row++) {
        // A count that goes back is damaged.
        uint64_t head = head_of(&rows[row]);
        if (head > r->threads[row].next && !read_thread(m, r, row, head)) return false;
    }
    return true;
}

void rings_fini(rings *r) {
    for (int row = 0; row < TRACE_THREADS; row++) free(r->threads[row].events);
    *r = (rings){ 0 };
}
