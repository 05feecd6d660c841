#include <stdlib.h>
#include <string.h>

#include "timeline/prepare.h"
#include "timeline/report.h"
#include "timeline/report_state.h"
#include "timeline/timeline.h"

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

static void note_step(last_steps *s, int64_t end_ns) {
    if (end_ns > s->end_ns) {
        s->before_ns = s->end_ns;
        s->end_ns = end_ns;
    } else if (end_ns > s->before_ns) {
        s->before_ns = end_ns;
    }
}

static void slice(void *state, const visit_event *e) {
    report *r = state;
    if (r->failed) return;
    count_cover(r, e);
    if (e->kind == TRACE_STEP_BEGUN && e->has_end) note_step(&r->steps[e->image], e->end_ns);
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

// ---- All ----------------------------------------------------------------------------------------

static report *open_report(const image *images, int count, const clocks *c) {
    report *r = calloc(1, sizeof *r);
    if (!r) return NULL;
    *r = (report){ .images = images, .count = count, .clocks = c };
    r->covers = calloc((size_t)count + 1, sizeof *r->covers);
    r->steps = calloc((size_t)count + 1, sizeof *r->steps);
    r->failed = !r->covers || !r->steps;
    return r;
}

static visitor visitor_of(report *r) {
    visitor v = visitor_ignoring(r);
    v.name = add_name;
    v.slice = slice;
    v.instant = instant;
    return v;
}

static void close_report(report *r) {
    for (uint32_t i = 0; i < r->name_count; i++) free(r->names[i]);
    for (int i = 0; i < r->row_count; i++) free(r->rows[i]);
    free(r->names);
    free(r->rows);
    free(r->covers);
    free(r->steps);
    free(r->instances);
    table_fini(&r->rows_by_key);
    table_fini(&r->instances_by_id);
    stops_fini(&r->stops);
    if (r->critical) critical_close(r->critical);
    free(r);
}

// The last step of all workers: from the end of the one before on the same worker, or its first record.
static bool find_critical(report *r) {
    int last = 0;
    int64_t from_ns = 0, last_ns;
    for (int i = 1; i < r->count; i++)
        if (r->steps[i].end_ns > r->steps[last].end_ns) last = i;
    if (!r->count || !r->steps[last].end_ns) return true;
    prepare_find_times(&r->images[last], &from_ns, &last_ns);
    if (r->steps[last].before_ns) from_ns = r->steps[last].before_ns;
    r->critical = critical_open(last, from_ns, r->steps[last].end_ns);
    if (!r->critical) return false;
    visitor v = critical_visitor(r->critical);
    return timeline_visit(r->images, r->count, r->clocks, &v);
}

bool report_print(const image *images, int count, const clocks *c, FILE *out) {
    report *r = open_report(images, count, c);
    if (!r) return false;
    visitor v = visitor_of(r);
    bool ok = !r->failed && timeline_visit(images, count, c, &v) && !r->failed &&
              find_critical(r) && report_write(r, out);
    close_report(r);
    return ok;
}
