#include "timeline/timeline.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "timeline/arguments.h"
#include "timeline/prepare.h"
#include "timeline/slices.h"
#include "trace/kinds.h"

// ---- Threads and groups -------------------------------------------------------------------------

static bool index_threads(timeline *t) {
    size_t threads = 0;
    uint32_t number = 0;
    for (int i = 0; i < t->count; i++) threads += (size_t)t->images[i].thread_count;
    t->records = calloc(threads + 1, sizeof *t->records);
    t->numbers = calloc(threads + 1, sizeof *t->numbers);
    for (int i = 0; t->records && t->numbers && i < t->count; i++)
        for (int k = 0; k < t->images[i].thread_count; k++) {
            const image_thread *x = &t->images[i].threads[k];
            if (!x->record_count) continue;
            t->records[t->thread_count] = x->records;
            t->numbers[t->thread_count++] = number;
            number += x->record_count;
        }
    return t->records && t->numbers;
}

// Only the end of a collective has the name of the group. Those of one group have ids with the same upper half.
static void keep_group(timeline *t, int image_index, const image_record *r) {
    uint32_t *index = table_put(&t->groups_by_id, r->id >> 32, 0, t->group_count);
    if (!index || *index < t->group_count) return;
    if ((t->group_count & (t->group_count - 1)) == 0) {
        group *larger =
            realloc(t->groups, (t->group_count ? 2 * t->group_count : 1) * sizeof *larger);
        if (!larger) {
            t->failed = true;
            return;
        }
        t->groups = larger;
    }
    t->groups[t->group_count++] = (group){ image_name(&t->images[image_index], r),
                                           names_of_record(&t->names, image_index, r) };
}

static void find_groups(timeline *t) {
    for (int i = 0; i < t->count; i++)
        for (int k = 0; k < t->images[i].thread_count; k++) {
            const image_thread *x = &t->images[i].threads[k];
            for (uint32_t n = 0; !t->failed && n < x->record_count; n++)
                if (x->records[n].kind == TRACE_COLLECTIVE_ENDED &&
                    *image_name(&t->images[i], &x->records[n]))
                    keep_group(t, i, &x->records[n]);
        }
    t->failed |= t->groups_by_id.failed;
}

// ---- Instants and counters ----------------------------------------------------------------------

static uint32_t name_instant(timeline *t, const merge_item *x) {
    const char *name = image_name(&t->images[x->image], x->record);
    char text[TIMELINE_TEXT_SIZE];
    if (x->record->kind == TRACE_MARK || !*name)
        return names_of_record(&t->names, x->image, x->record);
    snprintf(text, sizeof text, "%s: %.500s", trace_kinds[x->record->kind].text, name);
    return names_of_text(&t->names, text);
}

static void visit_instant(timeline *t, const merge_item *x) {
    visit_event e = { .kind = x->record->kind,
                      .image = x->image,
                      .id = x->record->id,
                      .has_begin = true,
                      .has_end = true,
                      .begin_ns = x->record->at_ns,
                      .end_ns = x->record->at_ns,
                      .track = t->tracks.threads[x->image][x->thread].track,
                      .name = name_instant(t, x) };
    arguments_add_instant(&e, x->record);
    t->to->instant(t->to->state, &e);
}

static void visit_counter(timeline *t, const merge_item *x) {
    double value;
    const image_record *r = x->record;
    memcpy(&value, &r->value, sizeof value);
    const char *note = isnan(value)   ? "nan"
                       : isinf(value) ? value > 0 ? "infinity" : "-infinity"
                                      : NULL;
    const char *text = image_name(&t->images[x->image], r);
    uint32_t name = names_of_record(&t->names, x->image, r);
    uint32_t track = tracks_of_counter(&t->tracks, x->image, name, *text ? text : "counter");
    if (track) t->to->counter(t->to->state, track, r->at_ns, value, note);
}

// ---- About the records --------------------------------------------------------------------------

static void visit_notice(timeline *t, uint32_t track, int image, const char *text, uint64_t count) {
    visit_event e = { .track = track,
                      .image = image,
                      .has_begin = true,
                      .has_end = true,
                      .begin_ns = t->spans[image].first_ns,
                      .end_ns = t->spans[image].first_ns,
                      .name = names_of_text(&t->names, text) };
    if (count) arguments_add_number(&e, VISIT_COUNT, count);
    t->to->instant(t->to->state, &e);
}

static void visit_lost(timeline *t, uint32_t track, int image, const image_thread *x) {
    if (x->lost > x->overtaken)
        visit_notice(t, track, image, "older records are lost", x->lost - x->overtaken);
    if (x->left_out) visit_notice(t, track, image, "later records are left out", x->left_out);
}

static void visit_clock(timeline *t, int image_index) {
    const clocks_host *h = &t->clocks->hosts[t->clocks->host_of_image[image_index]];
    char offset[32];
    int64_t at_ns = t->spans[image_index].first_ns;
    visit_event e = { .track = t->tracks.processes[image_index],
                      .image = image_index,
                      .has_begin = true,
                      .has_end = true,
                      .begin_ns = at_ns,
                      .end_ns = at_ns,
                      .name = names_of_text(&t->names, "clock of the host") };
    snprintf(offset, sizeof offset, "%" PRId64, h->offset_ns);
    arguments_add_text(&e, VISIT_METHOD, clocks_words(h));
    arguments_add_text(&e, VISIT_OFFSET, offset);
    if (!h->reason) arguments_add_number(&e, VISIT_UNCERTAINTY, (uint64_t)h->uncertainty_ns);
    t->to->instant(t->to->state, &e);
}

static void visit_notices(timeline *t) {
    for (int i = 0; i < t->count; i++) {
        const image *x = &t->images[i];
        if (t->clocks->host_count > 1) visit_clock(t, i);
        if (x->threads_left_out)
            visit_notice(t, t->tracks.processes[i], i, "threads had no ring", x->threads_left_out);
        for (int k = 0; k < x->thread_count; k++)
            visit_lost(t, t->tracks.threads[i][k].track, i, &x->threads[k]);
    }
}

// ---- All ----------------------------------------------------------------------------------------

static void visit_gap(timeline *t, const merge_item *x) {
    int i = gaps_take(&t->gaps, x->image, x->thread, x->record->at_ns);
    if (i >= 0) slices_visit_orphans(t, x->image, i);
}

static void visit_record(timeline *t, const merge_item *x) {
    const image_record *r = x->record;
    if (!t->spans[x->image].is_seen) slices_visit_orphans(t, x->image, -1);
    t->spans[x->image].is_seen = true;
    if (r->kind == TRACE_OVERTAKEN) visit_gap(t, x);
    switch (trace_kinds[r->kind].phase) {
    case TRACE_BEGIN: slices_visit(t, x); break;
    case TRACE_INSTANT: visit_instant(t, x); break;
    case TRACE_COUNT: visit_counter(t, x); break;
    case TRACE_END: break;
    }
}

static bool visit_all(timeline *t) {
    merge m;
    merge_item x;
    trace_moment opened = t->count ? t->images[0].opened : (trace_moment){ 0 };
    t->to->start(t->to->state, opened.monotonic_ns, opened.wall_ns);
    if (!tracks_open(t->images, t->count, t->clocks->host_count < 2, t->to, &t->tracks))
        return false;
    find_groups(t);
    slices_sort_orphans(t);
    visit_notices(t);
    bool ok = merge_open(t->images, t->count, &m);
    while (ok && !t->failed && merge_next(&m, &x)) visit_record(t, &x);
    merge_close(&m);
    return ok && !t->failed && !t->names.failed && !t->tracks.failed;
}

bool timeline_visit(const image *images, int count, const clocks *c, const visitor *to) {
    timeline t = { .images = images, .count = count, .clocks = c, .to = to };
    t.spans = calloc((size_t)count + 1, sizeof *t.spans);
    for (int i = 0; t.spans && i < count; i++)
        prepare_find_times(&images[i], &t.spans[i].first_ns, &t.spans[i].last_ns);
    bool ok = t.spans && index_threads(&t) && pairs_find(images, count, &t.pairs) &&
              gaps_find(images, count, &t.gaps) && names_open(images, count, to, &t.names) &&
              visit_all(&t);
    pairs_free(&t.pairs);
    gaps_fini(&t.gaps);
    names_close(&t.names);
    tracks_close(&t.tracks);
    table_fini(&t.groups_by_id);
    free(t.groups);
    free(t.spans);
    free(t.records);
    free(t.numbers);
    free(t.flows);
    return ok;
}
