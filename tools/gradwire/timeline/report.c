#include <stdlib.h>
#include <string.h>

#include "timeline/report_state.h"

// ---- What is counted ----------------------------------------------------------------------------

// Room for one more at powers of two.
static void *grow(report *r, void *array, uint32_t count, size_t size) {
    if (count & (count - 1)) return array;
    void *larger = realloc(array, (count ? 2 * (size_t)count : 1) * size);
    if (!larger) r->failed = true;
    return larger ? larger : array;
}

static row *find_row(report *r, int image, uint8_t kind, uint32_t name) {
    uint64_t a = (uint64_t)(uint32_t)image << 8 | kind;
    uint32_t *index = table_find(&r->rows_by_key, a, name);
    if (index) return r->rows[*index];
    if (r->row_count >= REPORT_ROWS_MAX && name) return find_row(r, -1, kind, 0);
    r->rows = grow(r, r->rows, (uint32_t)r->row_count, sizeof *r->rows);
    row *x = r->failed ? NULL : calloc(1, sizeof *x);
    if (!x || !table_put(&r->rows_by_key, a, name, (uint32_t)r->row_count)) {
        free(x);
        r->failed = true;
        return NULL;
    }
    x->image = image;
    x->kind = kind;
    x->name = name;
    r->rows[r->row_count++] = x;
    return x;
}

static void count_time(report *r, const visit_event *e, int64_t ns, bool is_whole) {
    bool is_of_all = e->kind == TRACE_CALL_MADE || e->kind == TRACE_BODY_BEGUN;
    row *x = find_row(r, is_of_all ? -1 : e->image, e->kind, e->name);
    if (!x) return;
    if (is_whole) histogram_add(&x->times, ns);
    x->unfinished += !is_whole;
    x->failed += e->has_failed;
}

// Without its begin, which one thread has recorded and overwritten, the end of another thread says nothing about the time.
static void count_cover(report *r, const visit_event *e) {
    cover *c = &r->covers[e->image][e->kind];
    int64_t from_ns = e->begin_ns > c->until_ns ? e->begin_ns : c->until_ns;
    if (!e->has_begin || e->end_ns <= from_ns) return;
    c->sum_ns += e->end_ns - from_ns;
    c->until_ns = e->end_ns;
}

static void count_collective(report *r, const visit_event *e) {
    uint32_t *index = table_put(&r->instances_by_id, e->id, 0, r->instance_count);
    r->instances =
        index ? grow(r, r->instances, r->instance_count, sizeof *r->instances) : r->instances;
    if (!index || r->failed) {
        r->failed = true;
        return;
    }
    instance *x = &r->instances[*index];
    if (*index == r->instance_count) {
        *x = (instance){ .group = e->group, .name = e->name };
        r->instance_count++;
    }
    if (e->has_begin) {
        // Slices are visited in the order in which they begin.
        if (!x->entered++) x->first_ns = e->begin_ns;
        x->last_ns = e->begin_ns;
        x->last = e->image;
        x->name = e->name;
    }
    if (e->has_begin && e->has_end) {
        x->ended++;
        x->sum_ns += e->end_ns - e->begin_ns;
    }
}

static void slice(void *state, const visit_event *e) {
    report *r = state;
    if (r->failed) return;
    count_cover(r, e);
    if (e->kind == TRACE_COLLECTIVE_ENTERED) {
        count_collective(r, e);
        if (!stops_add(&r->stops, e)) r->failed = true;
    } else {
        count_time(r, e, e->end_ns - e->begin_ns, e->has_begin && e->has_end);
    }
}

static void instant(void *state, const visit_event *e) {
    report *r = state;
    if (r->failed || (e->kind != TRACE_SLOW_WAIT && e->kind != TRACE_SLOW_BODY)) return;
    for (int i = 0; i < e->argument_count; i++)
        if (e->arguments[i].name == VISIT_DURATION)
            count_time(r, e,
                       e->arguments[i].number > INT64_MAX ? INT64_MAX
                                                          : (int64_t)e->arguments[i].number,
                       true);
}

static void add_name(void *state, uint32_t number, const char *text) {
    report *r = state;
    (void)number;
    r->names = grow(r, r->names, r->name_count, sizeof *r->names);
    if (r->failed) return;
    r->names[r->name_count] = strdup(text);
    if (!r->names[r->name_count++]) r->failed = true;
}

static void start(void *state, int64_t at_ns, int64_t wall_ns) {
    (void)state, (void)at_ns, (void)wall_ns;
}

static void track(void *state, const visit_track *t) {
    (void)state, (void)t;
}

static void counter(void *state, uint32_t t, int64_t at_ns, double value, const char *note) {
    (void)state, (void)t, (void)at_ns, (void)value, (void)note;
}

// ---- All ----------------------------------------------------------------------------------------

report *report_open(const image *images, int count) {
    report *r = calloc(1, sizeof *r);
    if (!r) return NULL;
    r->images = images;
    r->count = count;
    r->covers = calloc((size_t)count + 1, sizeof *r->covers);
    if (r->covers) return r;
    free(r);
    return NULL;
}

visitor report_visitor(report *r) {
    return (visitor){ .state = r,
                      .start = start,
                      .name = add_name,
                      .track = track,
                      .slice = slice,
                      .instant = instant,
                      .counter = counter };
}

void report_close(report *r) {
    for (uint32_t i = 0; i < r->name_count; i++) free(r->names[i]);
    for (int i = 0; i < r->row_count; i++) free(r->rows[i]);
    free(r->names);
    free(r->rows);
    free(r->covers);
    free(r->instances);
    table_fini(&r->rows_by_key);
    table_fini(&r->instances_by_id);
    stops_fini(&r->stops);
    free(r);
}
