#include "live/view.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "live/peers_view.h"
#include "observe/json.h"
#include "observe/memory_json.h"
#include "observe/show.h"
#include "observe/workers.h"

// ---- What a worker waits for --------------------------------------------------------------------

// "runs slow", "barrier 3 of group "world" for rank 1, 2"
static void describe(const trace_activity *a, char *out, size_t size) {
    char what[2 * TRACE_TEXT_MAX + 64];
    trace_activity_text(a, what, sizeof what);
    int listed = a->rank_count < 4 ? a->rank_count : 4;
    size_t used = (size_t)snprintf(out, size, "%s%s", a->kind == TRACE_RUNS ? "runs " : "", what);
    for (int i = 0; i < listed && used < size; i++)
        used +=
            (size_t)snprintf(out + used, size - used, "%s%d", i ? ", " : " for rank ", a->ranks[i]);
    if (listed < a->rank_count && used < size) snprintf(out + used, size - used, ", ...");
}

static const char *phase_of(const image_agent *a) {
    if (!a || !a->name[0]) return "-";
    if (!a->is_open) return "left";
    return a->table ? show_phase(a->table->phase) : "-";
}

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

static void format_worker(const live *l, const live_worker *w, char *line) {
    const image *x = live_image(l, w);
    const image_agent *a = live_agent(l, w);
    const trace_activity *activity = workers_main_activity(a ? a->table : NULL);
    char what[512] = "-", age[32] = "", rank[16] = "-";
    bool has_name = a && a->name[0];
    if (has_name) snprintf(rank, sizeof rank, "%d", a->rank);
    if (activity && x->life != IMAGE_HAS_ENDED) {
        describe(activity, what, sizeof what);
        snprintf(age, sizeof age, ", %s", show_duration(image_activity_age_ns(x, activity)).text);
    }
    snprintf(line, PAGE_LINE_SIZE,
             "%4s  %-16.40s %8d  %-8s %-8s %9.1f %9.1f %8.1f %9s %9s %8s %5.0f  %s%s", rank,
             has_name ? a->name : x->program, (int)x->pid, show_life(x->life), phase_of(a),
             w->rates[TRACE_CALLS_MADE], w->rates[TRACE_CALLS_SERVED], w->rates[TRACE_COLLECTIVES],
             show_size((uint64_t)w->rates[TRACE_BYTES_RECEIVED]).text,
             show_size((uint64_t)w->rates[TRACE_BYTES_SENT]).text,
             show_size(w->usage.resident_bytes).text, 100 * w->processor, what, age);
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
    sorted *workers = sort(l, o->order);
    int room = o->height ? o->height - 2 : l->count;  // a line above, one below
    if (room < 1) room = 1;
    write_columns(o, out);
    for (int i = 0; workers && i < l->count && i < room; i++) {
        format_worker(l, workers[i].worker, line);
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

static void set_activity(json_t *out, const live *l, const live_worker *w) {
    char what[512];
    const image_agent *of = live_agent(l, w);
    const trace_activity *a = workers_main_activity(of ? of->table : NULL);
    if (!a) {
        json_object_set_new(out, "waits_for", json_null());
        return;
    }
    describe(a, what, sizeof what);
    json_object_set_new(out, "waits_for", json_string(what));
    json_object_set_new(out, "waits_kind", json_string(show_kind(a->kind)));
    json_object_set_new(out, "waits_ms",
                        json_integer(image_activity_age_ns(live_image(l, w), a) / 1000000));
}

static json_t *worker_json(const live *l, const live_worker *w, bool peers) {
    char key[FIND_KEY_SIZE];
    const image *x = live_image(l, w);
    const image_agent *a = live_agent(l, w);
    find_key(x, key);
    json_t *out = json_pack(
        "{ss si ss ss ss si ss sf sf sf sf sf sI sf}", "job", key, "pid", (int)x->pid, "program",
        x->program, "host", x->host, "state", show_life(x->life), "attempt", (int)x->attempt,
        "phase", phase_of(a), "calls_per_s", w->rates[TRACE_CALLS_MADE], "served_per_s",
        w->rates[TRACE_CALLS_SERVED], "collectives_per_s", w->rates[TRACE_COLLECTIVES],
        "received_bytes_per_s", w->rates[TRACE_BYTES_RECEIVED], "sent_bytes_per_s",
        w->rates[TRACE_BYTES_SENT], "resident_bytes", (json_int_t)w->usage.resident_bytes,
        "processors", w->processor);
    if (a && a->name[0]) {
        json_object_set_new(out, "worker", json_string(a->name));
        json_object_set_new(out, "rank", json_integer(a->rank));
    }
    set_activity(out, l, w);
    if (a && a->table) json_object_set_new(out, "memory", memory_json(a->table->memory));
    if (peers) json_object_set_new(out, "peers", peers_view_json(l, w));
    return out;
}

void view_write_json(const live *l, bool peers, FILE *out) {
    json_t *workers = json_array();
    for (int i = 0; i < l->count; i++)
        json_array_append_new(workers, worker_json(l, &l->workers[i], peers));
    json_write(json_pack("{so}", "workers", workers), out);
}
