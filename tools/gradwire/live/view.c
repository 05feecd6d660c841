#include "live/view.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "live/peers_view.h"
#include "live/row.h"
#include "observe/json.h"
#include "observe/memory_json.h"
#include "observe/show.h"
#include "observe/sums.h"

// ---- The order ----------------------------------------------------------------------------------

static double value_of(const live_worker *w, view_order order) {
    switch (order) {
    case VIEW_BY_CALLS: return w->rates[TRACE_CALLS_MADE] + w->rates[TRACE_CALLS_SERVED];
    case VIEW_BY_BYTES: return w->rates[TRACE_BYTES_SENT] + w->rates[TRACE_BYTES_RECEIVED];
    case VIEW_BY_PROCESSOR: return w->processor;
    case VIEW_BY_MEMORY: return (double)w->usage.resident_bytes;
    default: return 0;
    }
}

typedef struct sorted {
    const live_worker *worker;
    double value;
} sorted;

// The largest first, and of equal ones in the order of ranks.
static int by_value(const void *a, const void *b) {
    const sorted *x = a, *y = b;
    if (x->value != y->value) return x->value > y->value ? -1 : 1;
    return (x->worker > y->worker) - (x->worker < y->worker);
}

static sorted *sort(const live *l, view_order order) {
    sorted *out = calloc((size_t)l->count + 1, sizeof *out);
    for (int i = 0; out && i < l->count; i++)
        out[i] = (sorted){ &l->workers[i], value_of(&l->workers[i], order) };
    if (out && l->count) qsort(out, (size_t)l->count, sizeof *out, by_value);
    return out;
}

// ---- The table ----------------------------------------------------------------------------------

static void format_worker(const live_row *r, char *line) {
    char age[32] = "", rank[16] = "-";
    bool shows_wait = r->waits_kind && r->life != IMAGE_HAS_ENDED;
    if (r->worker[0]) snprintf(rank, sizeof rank, "%d", r->rank);
    if (shows_wait) snprintf(age, sizeof age, ", %s", show_duration(r->waits_ns).text);
    snprintf(line, PAGE_LINE_SIZE,
             "%4s  %-16.40s %8d  %-8s %-8s %9.1f %9.1f %8.1f %9s %9s %8s %5.0f  %s%s", rank,
             r->worker[0] ? r->worker : r->program, (int)r->pid, show_life(r->life), r->phase,
             r->rates[TRACE_CALLS_MADE], r->rates[TRACE_CALLS_SERVED], r->rates[TRACE_COLLECTIVES],
             show_size((uint64_t)r->rates[TRACE_BYTES_RECEIVED]).text,
             show_size((uint64_t)r->rates[TRACE_BYTES_SENT]).text,
             show_size(r->usage.resident_bytes).text, 100 * r->processors,
             shows_wait ? r->waits_for : "-", age);
}

static void write_heading(const live *l, const view_options *o, FILE *out) {
    static const char *const orders[VIEW_ORDERS] = { "rank", "calls", "bytes", "processor",
                                                     "memory" };
    char line[PAGE_LINE_SIZE], key[FIND_KEY_SIZE] = "-", last[FIND_KEY_SIZE] = "";
    int jobs = 0, running = 0;
    for (int i = 0; i < l->now.count; i++) {
        find_key(&l->now.images[i], key);
        jobs += strcmp(key, last) != 0;
        snprintf(last, sizeof last, "%s", key);
        running += l->now.images[i].life == IMAGE_RUNS;
    }
    if (jobs == 1)
        snprintf(line, sizeof line, "job %s, %d workers, %d processes run; by %s", key, l->count,
                 running, orders[o->order]);
    else
        snprintf(line, sizeof line, "%d jobs, %d workers, %d processes run; by %s", jobs, l->count,
                 running, orders[o->order]);
    page_write_line(line, o, out);
}

static void write_columns(const view_options *o, FILE *out) {
    char line[PAGE_LINE_SIZE];
    snprintf(line, sizeof line, "%4s  %-16s %8s  %-8s %-8s %9s %9s %8s %9s %9s %8s %5s  %s", "RANK",
             "WORKER", "PID", "STATE", "PHASE", "CALLS/S", "SERVED/S", "COLL/S", "IN/S", "OUT/S",
             "MEMORY", "CPU %", "WAITS FOR");
    page_write_line(line, o, out);
}

static void write_workers(const live *l, const view_options *o, FILE *out) {
    char line[PAGE_LINE_SIZE];
    live_row row;
    sorted *workers = sort(l, o->order);
    int room = o->height ? o->height - 2 : l->count;  // a line above, one below
    if (room < 1) room = 1;
    write_columns(o, out);
    for (int i = 0; workers && i < l->count && i < room; i++) {
        live_row_fill(l, workers[i].worker, &row);
        format_worker(&row, line);
        page_write_line(line, o, out);
    }
    if (l->count > room) {
        snprintf(line, sizeof line, "and %d more", l->count - room);
        page_cut(line, o->width);
        fputs(line, out);
    }
    free(workers);
}

void view_write(const live *l, const view_options *o, FILE *out) {
    view_options below = *o;
    if (o->height) below.height--;
    write_heading(l, o, out);
    if (o->peers)
        peers_view_write(l, &below, out);
    else
        write_workers(l, &below, out);
}

// ---- JSON ---------------------------------------------------------------------------------------

static json_t *worker_json(const live *l, const live_worker *w, bool peers) {
    const image_agent *a = live_agent(l, w);
    live_row row;
    live_row_fill(l, w, &row);
    json_t *out = live_row_json(&row);
    if (a && a->table) {
        json_object_set_new(out, "memory", memory_json(a->table->memory));
        json_object_set_new(out, "sums", sums_json(a->table));
    }
    if (peers) json_object_set_new(out, "peers", peers_view_json(l, w));
    return out;
}

void view_write_json(const live *l, bool peers, FILE *out) {
    json_t *workers = json_array();
    for (int i = 0; i < l->count; i++)
        json_array_append_new(workers, worker_json(l, &l->workers[i], peers));
    json_write(json_pack("{so}", "workers", workers), out);
}
