#include "live/row.h"

#include <stdio.h>
#include <string.h>

#include "observe/show.h"
#include "observe/workers.h"

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

static void fill_process(const image *x, live_row *out) {
    find_key(x, out->job);
    snprintf(out->program, sizeof out->program, "%s", x->program);
    snprintf(out->host, sizeof out->host, "%s", x->host);
    out->pid = x->pid;
    out->start_time = x->start_time;
    out->attempt = x->attempt;
    out->life = x->life;
    int64_t age_ns = x->taken.monotonic_ns - x->opened.monotonic_ns;
    out->opened_ns = age_ns > 0 ? age_ns : 0;
}

static void fill_wait(const image *x, const image_agent *of, live_row *out) {
    const trace_activity *a = workers_main_activity(of ? of->table : NULL);
    if (!a) return;
    describe(a, out->waits_for, sizeof out->waits_for);
    out->waits_kind = show_kind(a->kind);
    out->waits_ns = image_activity_age_ns(x, a);
}

void live_row_fill(const live *l, const live_worker *w, live_row *out) {
    const image *x = live_image(l, w);
    const image_agent *a = live_agent(l, w);
    *out = (live_row){ .agent = w->agent,
                       .rank = -1,
                       .phase = phase_of(a),
                       .processors = w->processor,
                       .usage = w->usage };
    memcpy(out->rates, w->rates, sizeof out->rates);
    memcpy(out->counters, w->counters, sizeof out->counters);
    fill_process(x, out);
    if (a && a->name[0]) {
        snprintf(out->worker, sizeof out->worker, "%s", a->name);
        out->rank = a->rank;
        out->world_size = a->world_size;
        out->table = a->table;
    }
    fill_wait(x, a, out);
}

json_t *live_row_json(const live_row *r) {
    json_t *out = json_pack(
        "{ss si ss ss ss si ss sf sf sf sf sf sI sf}", "job", r->job, "pid", (int)r->pid, "program",
        r->program, "host", r->host, "state", show_life(r->life), "attempt", (int)r->attempt,
        "phase", r->phase, "calls_per_s", r->rates[TRACE_CALLS_MADE], "served_per_s",
        r->rates[TRACE_CALLS_SERVED], "collectives_per_s", r->rates[TRACE_COLLECTIVES],
        "received_bytes_per_s", r->rates[TRACE_BYTES_RECEIVED], "sent_bytes_per_s",
        r->rates[TRACE_BYTES_SENT], "resident_bytes", (json_int_t)r->usage.resident_bytes,
        "processors", r->processors);
    if (!out) return NULL;
    if (r->worker[0]) {
        json_object_set_new(out, "worker", json_string(r->worker));
        json_object_set_new(out, "rank", json_integer(r->rank));
    }
    json_object_set_new(out, "waits_for", r->waits_kind ? json_string(r->waits_for) : json_null());
    if (!r->waits_kind) return out;
    json_object_set_new(out, "waits_kind", json_string(r->waits_kind));
    json_object_set_new(out, "waits_ms", json_integer(r->waits_ns / 1000000));
    return out;
}
