#include "observe/steps.h"

#include <string.h>

#include "trace/kinds.h"

static void step_ended(steps *s, int64_t number, uint64_t ticks) {
    // Of a process that joins later, the first step that is seen may be of the range.
    if (!s->has_begun && number >= s->first - 1) {
        s->has_begun = true;
        s->from = number == s->first - 1 ? ticks + 1 : 0;
    }
    if (!s->is_over && number >= s->last) {
        s->is_over = true;
        s->until = ticks;
    }
    s->ended = number;
}

static void follow(steps *s, const trace_event *e) {
    if (e->kind == TRACE_ELASTIC_STEP) {
        s->has_numbers = true;
        step_ended(s, e->id <= INT32_MAX ? (int64_t)e->id : INT32_MAX, e->ticks);
    }
    if (e->kind == TRACE_STEP_ENDED && !s->has_numbers) step_ended(s, s->ended + 1, e->ticks);
}

// Keeps those of a thread from |from| to |until|.
static void keep(rings *r, rings_thread *t, uint64_t from, uint64_t until) {
    uint32_t first = 0, end = t->count;
    while (first < end && t->events[first].ticks < from) first++;
    while (end > first && t->events[end - 1].ticks > until) end--;
    if (first) memmove(t->events, t->events + first, (size_t)(end - first) * sizeof *t->events);
    if (r->room) *r->room += t->count - (end - first);
    t->count = end - first;
}

void steps_follow(steps *s, rings *r, uint32_t seen[TRACE_THREADS]) {
    bool had_begun = s->has_begun || s->first <= 1;
    if (s->first <= 1) s->has_begun = true;
    for (int i = 0; i < TRACE_THREADS; i++) {
        const rings_thread *t = &r->threads[i];
        for (uint32_t k = seen[i]; k < t->count && !s->is_over; k++) follow(s, &t->events[k]);
    }
    for (int i = 0; i < TRACE_THREADS; i++) {
        rings_thread *t = &r->threads[i];
        if (!had_begun) {
            keep(r, t, s->has_begun ? s->from : UINT64_MAX, UINT64_MAX);
            t->lost = t->overtaken = 0;
        }
        seen[i] = t->count;
    }
}

void steps_trim(const steps *s, rings *r) {
    for (int i = 0; i < TRACE_THREADS; i++)
        keep(r, &r->threads[i], s->has_begun ? s->from : UINT64_MAX,
             s->is_over ? s->until : UINT64_MAX);
}
