#include "monitor/metrics.h"

#include <inttypes.h>
#include <string.h>

// ---- Parts --------------------------------------------------------------------------------------

static void begin(const char *name, const char *type, const char *help, FILE *out) {
    fprintf(out, "# HELP gradwire_%s %s\n# TYPE gradwire_%s %s\n", name, help, name, type);
}

static void write_label(const char *value, FILE *out) {
    for (; *value; value++) {
        if (*value == '\n')
            fputs("\\n", out);
        else if (*value == '\\' || *value == '"')
            fprintf(out, "\\%c", *value);
        else
            fputc(*value, out);
    }
}

// |key| NULL: the label of the worker alone.
static void write_series(const char *name, const model_worker *w, const char *key,
                         const char *value, FILE *out) {
    fprintf(out, "gradwire_%s{worker=\"", name);
    write_label(w->row.worker, out);
    fputc('"', out);
    if (key) {
        fprintf(out, ",%s=\"", key);
        write_label(value, out);
        fputc('"', out);
    }
    fputs("} ", out);
}

static bool counts(const model *m, int index) {
    return m->workers[index]->row.worker[0] && m->workers[index]->is_latest;
}

// ---- Of the job ---------------------------------------------------------------------------------

static void write_members(const model *m, FILE *out) {
    static const char *const states[] = { "runs", "joining", "serving", "leaving",
                                          "left", "fenced",  "stopped", "ended" };
    begin("members", "gauge", "Workers of this host, and its processes without a worker, by state.",
          out);
    for (size_t s = 0; s < sizeof states / sizeof states[0]; s++) {
        int count = 0;
        for (int i = 0; i < m->count; i++)
            count += m->workers[i]->is_latest &&
                     strcmp(model_worker_state(m->workers[i]), states[s]) == 0;
        fprintf(out, "gradwire_members{state=\"%s\"} %d\n", states[s], count);
    }
}

static void write_job(const model *m, FILE *out) {
    model_state state = model_state_of(m);
    int64_t unmoved_ms = model_unmoved_ms(m);
    bool is_hung = state == MODEL_IS_STUCK && unmoved_ms >= MODEL_HUNG_MS;
    begin("up", "gauge", "1 while a process of the job runs on this host.", out);
    fprintf(out, "gradwire_up %d\n", state == MODEL_RUNS || state == MODEL_IS_STUCK);
    begin("hung", "gauge",
          "1 if no call and no collective has ended for 60 s while a thread waits as long.", out);
    fprintf(out, "gradwire_hung %d\n", is_hung);
    begin("progress_age_seconds", "gauge",
          "The time since a call or collective has ended, to a second.", out);
    fprintf(out, "gradwire_progress_age_seconds %.3f\n", (double)unmoved_ms / 1000);
    write_members(m, out);
}

// ---- Of workers ---------------------------------------------------------------------------------

typedef struct counter_row {
    trace_counter counter;
    const char *name, *key, *value;
    const char *help;  // of the first row of a name; NULL in others
} counter_row;

static const counter_row counter_rows[] = {
    { TRACE_CALLS_MADE, "calls_total", "side", "made", "Calls that have ended." },
    { TRACE_CALLS_SERVED, "calls_total", "side", "served", NULL },
    { TRACE_COLLECTIVES, "collectives_total", NULL, NULL, "Collectives that have ended." },
    { TRACE_MESSAGES_SENT, "messages_total", "direction", "sent", "Messages." },
    { TRACE_MESSAGES_RECEIVED, "messages_total", "direction", "received", NULL },
    { TRACE_BYTES_SENT, "bytes_total", "direction", "sent", "Bytes of messages." },
    { TRACE_BYTES_RECEIVED, "bytes_total", "direction", "received", NULL },
};

// All series of one name are together.
static void write_counters(const model *m, FILE *out) {
    for (size_t c = 0; c < sizeof counter_rows / sizeof counter_rows[0]; c++) {
        const counter_row *row = &counter_rows[c];
        if (row->help) begin(row->name, "counter", row->help, out);
        for (int i = 0; i < m->count; i++) {
            const model_worker *w = m->workers[i];
            if (!counts(m, i)) continue;
            write_series(row->name, w, row->key, row->value, out);
            fprintf(out, "%" PRIu64 "\n", w->row.counters[row->counter]);
        }
    }
}

static void write_restarts(const model *m, FILE *out) {
    begin("restarts_total", "counter", "How often the rank has started again.", out);
    for (int i = 0; i < m->count; i++) {
        if (!counts(m, i)) continue;
        write_series("restarts_total", m->workers[i], NULL, NULL, out);
        fprintf(out, "%u\n", m->workers[i]->row.attempt);
    }
}

// Of a process that has ended nothing is known, so that its series end, too.
static bool has_usage(const model *m, int index) {
    return counts(m, index) && !m->workers[index]->ended_ms;
}

static void write_usage(const model *m, FILE *out) {
    begin("memory_bytes", "gauge", "Memory of the process of the worker.", out);
    for (int i = 0; i < m->count; i++) {
        if (!has_usage(m, i)) continue;
        write_series("memory_bytes", m->workers[i], "kind", "resident", out);
        fprintf(out, "%" PRIu64 "\n", m->workers[i]->row.usage.resident_bytes);
    }
    begin("processor_seconds_total", "counter", "Processor time of the process of the worker.",
          out);
    for (int i = 0; i < m->count; i++) {
        if (!has_usage(m, i)) continue;
        write_series("processor_seconds_total", m->workers[i], NULL, NULL, out);
        fprintf(out, "%.2f\n", (double)m->workers[i]->row.usage.processor_ns * 1e-9);
    }
    begin("activity_seconds", "gauge",
          "How long the worker has waited, or has run a function, by kind of the wait.", out);
    for (int i = 0; i < m->count; i++) {
        const live_row *r = &m->workers[i]->row;
        if (!has_usage(m, i) || !r->waits_kind) continue;
        write_series("activity_seconds", m->workers[i], "kind", r->waits_kind, out);
        fprintf(out, "%.3f\n", (double)r->waits_ns * 1e-9);
    }
}

void metrics_write(const model *m, FILE *out) {
    write_job(m, out);
    write_restarts(m, out);
    write_counters(m, out);
    write_usage(m, out);
}
