#include "timeline/slices.h"

#include <stdio.h>
#include <stdlib.h>

#include "timeline/arguments.h"
#include "timeline/flows.h"
#include "trace/kinds.h"

static const image_record *record_of(const timeline *t, uint32_t number) {
    int low = 0, high = t->thread_count - 1;
    while (low < high) {
        int middle = low + (high - low + 1) / 2;
        if (t->numbers[middle] <= number)
            low = middle;
        else
            high = middle - 1;
    }
    return t->records[low] + (number - t->numbers[low]);
}

// The name of the worker of that rank, or "rank 2".
static void name_rank(const timeline *t, int rank, char *out, size_t size) {
    for (int i = t->count - 1; i >= 0; i--)
        for (int k = 0; k < t->images[i].agent_count; k++)
            if (t->images[i].agents[k].rank == rank && t->images[i].agents[k].name[0]) {
                snprintf(out, size, "%s", t->images[i].agents[k].name);
                return;
            }
    snprintf(out, size, "rank %d", rank);
}

static uint32_t row_of_call(timeline *t, const visit_event *e, const image_record *begin) {
    char worker[TIMELINE_TEXT_SIZE / 2], text[TIMELINE_TEXT_SIZE];
    uint32_t to = begin ? (uint32_t)begin->value : UINT32_MAX;
    if (begin) name_rank(t, (int)to, worker, sizeof worker);
    snprintf(text, sizeof text, "calls to %s", begin ? worker : "?");
    return tracks_of_rows(&t->tracks, (tracks_key){ e->image, e->kind, to }, text, e->begin_ns,
                          e->end_ns);
}

static uint32_t row_of_collective(timeline *t, const visit_event *e, const char *group) {
    char text[TIMELINE_TEXT_SIZE];
    snprintf(text, sizeof text, "collectives of %s", group);
    return tracks_of_rows(&t->tracks, (tracks_key){ e->image, e->kind, e->group }, text,
                          e->begin_ns, e->end_ns);
}

// The slice of two records, of which one may be missing; |thread|: of the one that is there.
typedef struct two {
    int image, thread;
    const image_record *begin, *end;
    uint32_t begin_number, end_number;
    int gap;  // in which the missing one may be; -1
} two;

static void place_collective(timeline *t, visit_event *e, const two *x) {
    const uint32_t *known = table_find(&t->groups_by_id, e->id >> 32, 0);
    const char *text = known ? t->groups[*known].text : NULL;
    e->group = known ? t->groups[*known].name : 0;
    arguments_add_number(e, VISIT_NUMBER, (uint32_t)e->id);
    if (x->begin) arguments_add_number(e, VISIT_BYTES, x->begin->value);
    if (text) arguments_add_text(e, VISIT_GROUP, text);
    e->track = row_of_collective(t, e, text ? text : "?");
}

static void place(timeline *t, visit_event *e, const two *x) {
    switch (e->kind) {
    case TRACE_CALL_MADE: e->track = row_of_call(t, e, x->begin); break;
    case TRACE_COLLECTIVE_ENTERED: place_collective(t, e, x); break;
    case TRACE_PASS_BEGUN:
    case TRACE_PART_BEGUN:
        e->track = tracks_of_rows(&t->tracks, (tracks_key){ e->image, TRACE_PASS_BEGUN, 0 },
                                  "backward passes", e->begin_ns, e->end_ns);
        break;
    case TRACE_CHECKPOINT_BEGUN:
        e->track = tracks_of_rows(&t->tracks, (tracks_key){ e->image, e->kind, 0 }, "checkpoints",
                                  e->begin_ns, e->end_ns);
        break;
    default: e->track = tracks_of_thread(&t->tracks, x->image, x->thread, e->begin_ns, e->end_ns);
    }
}

static uint32_t name_part(timeline *t, int image, const image_record *r) {
    char text[TIMELINE_TEXT_SIZE];
    snprintf(text, sizeof text, "part of a backward of %.500s", image_name(&t->images[image], r));
    return names_of_text(&t->names, text);
}

static uint32_t name_of(timeline *t, const two *x) {
    // The end of a collective has the name of the group, that of a checkpoint its path.
    const image_record *r = x->begin ? x->begin : x->end;
    bool is_other =
        !x->begin && (r->kind == TRACE_COLLECTIVE_ENDED || r->kind == TRACE_CHECKPOINT_ENDED);
    if (is_other) return names_of_text(&t->names, trace_kinds[r->kind].text);
    if (r->kind == TRACE_PART_BEGUN || r->kind == TRACE_PART_ENDED)
        return name_part(t, x->image, r);
    return names_of_record(&t->names, x->image, r);
}

static void visit_slice(timeline *t, const two *x) {
    const image_record *any = x->begin ? x->begin : x->end;
    const gap *g = x->gap >= 0 ? &t->gaps.all[x->gap] : NULL;
    const span *s = &t->spans[x->image];
    visit_event e = { .kind = x->begin ? x->begin->kind : (uint8_t)(x->end->kind - 1),
                      .image = x->image,
                      .id = any->id,
                      .has_begin = x->begin,
                      .has_end = x->end,
                      .begin_ns = x->begin ? x->begin->at_ns
                                  : g      ? g->at_ns
                                           : s->first_ns,
                      .end_ns = x->end ? x->end->at_ns
                                : g    ? g->at_ns
                                       : s->last_ns };
    e.name = name_of(t, x);
    place(t, &e, x);
    if (x->begin) arguments_add_begin(&e, x->begin);
    if (x->end) arguments_add_end(&e, x->end);
    if (!x->begin)
        arguments_add_text(&e, VISIT_BEGIN,
                           g ? "missing: overwritten" : "missing: before the first record kept");
    if (!x->end)
        arguments_add_text(&e, VISIT_END,
                           g ? "missing: overwritten" : "missing: after the last record");
    flows_add(t, &e, x->begin_number, x->end_number);
    if (e.track) {
        t->to->slice(t->to->state, &e);
        return;
    }
    // All rows are in use.
    e.track = t->tracks.threads[x->image][x->thread].track;
    e.argument_count = e.flow_count = 0;
    if (!x->begin) e.begin_ns = e.end_ns;
    arguments_add_text(&e, VISIT_NOTE, "one of too many at one time");
    arguments_add_number(&e, VISIT_DURATION, (uint64_t)(e.end_ns - e.begin_ns));
    t->to->instant(t->to->state, &e);
}

static int by_gap(const void *a, const void *b) {
    const pairs_orphan *x = a, *y = b;
    if (x->image != y->image) return x->image < y->image ? -1 : 1;
    if (x->gap != y->gap) return x->gap < y->gap ? -1 : 1;
    if (x->end->at_ns != y->end->at_ns) return x->end->at_ns > y->end->at_ns ? -1 : 1;
    return (x->number > y->number) - (x->number < y->number);
}

void slices_sort_orphans(timeline *t) {
    pairs *p = &t->pairs;
    for (uint32_t i = 0; i < p->orphan_count; i++) {
        pairs_orphan *o = &p->orphans[i];
        o->gap = gaps_before(&t->gaps, o->image, o->thread, o->end->kind - 1, o->end->at_ns);
    }
    if (p->orphan_count) qsort(p->orphans, p->orphan_count, sizeof *p->orphans, by_gap);
}

void slices_visit_orphans(timeline *t, int image, int gap) {
    const pairs *p = &t->pairs;
    uint32_t low = 0, high = p->orphan_count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        const pairs_orphan *o = &p->orphans[middle];
        if (o->image < image || (o->image == image && o->gap < gap))
            low = middle + 1;
        else
            high = middle;
    }
    for (; low < p->orphan_count && p->orphans[low].image == image && p->orphans[low].gap == gap;
         low++) {
        const pairs_orphan *o = &p->orphans[low];
        visit_slice(t, &(two){ .image = image,
                               .thread = o->thread,
                               .end = o->end,
                               .begin_number = PAIRS_NONE,
                               .end_number = o->number,
                               .gap = gap });
    }
}

void slices_visit(timeline *t, const merge_item *x) {
    uint32_t end = t->pairs.partners[x->number];
    const image_record *r = x->record;
    visit_slice(t, &(two){ .image = x->image,
                           .thread = x->thread,
                           .begin = r,
                           .end = end == PAIRS_NONE ? NULL : record_of(t, end),
                           .begin_number = x->number,
                           .end_number = end,
                           .gap = end == PAIRS_NONE ? gaps_behind(&t->gaps, x->image, x->thread,
                                                                  r->kind, r->at_ns)
                                                    : -1 });
}
