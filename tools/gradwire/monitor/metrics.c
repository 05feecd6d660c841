#include "monitor/metrics.h"

#include <inttypes.h>
#include <string.h>

#include "observe/memory_json.h"
#include "observe/sums.h"

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
    begin("members", "gauge", "Workers, and processes without a worker, by state.", out);
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
    begin("up", "gauge", "1 while a process of the job runs.", out);
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
    { TRACE_CALLS_MADE, "worker_calls_total", "side", "made", "Calls that have ended." },
    { TRACE_CALLS_SERVED, "worker_calls_total", "side", "served", NULL },
    { TRACE_COLLECTIVES, "worker_collectives_total", NULL, NULL, "Collectives that have ended." },
    { TRACE_MESSAGES_SENT, "messages_total", "direction", "sent", "Messages." },
    { TRACE_MESSAGES_RECEIVED, "messages_total", "direction", "received", NULL },
    { TRACE_BYTES_SENT, "worker_bytes_total", "direction", "sent", "Bytes of messages." },
    { TRACE_BYTES_RECEIVED, "worker_bytes_total", "direction", "received", NULL },
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

// ---- By peer, function and group ----------------------------------------------------------------

// A further label of a series.
static void write_further(const char *key, const char *value, FILE *out) {
    fprintf(out, ",%s=\"", key);
    write_label(value, out);
    fputc('"', out);
}

// "gradwire_name{worker="w",key="value"": the caller adds labels and closes it.
static void open_series(const char *name, const model_worker *w, const char *key, const char *value,
                        FILE *out) {
    fprintf(out, "gradwire_%s{worker=\"", name);
    write_label(w->row.worker, out);
    fputc('"', out);
    write_further(key, value, out);
}

typedef struct peer_row {
    trace_peer_counter counter;
    const char *name, *type, *direction, *transport;  // |transport| NULL: that of the connection
    const char *help;
} peer_row;

static const peer_row peer_rows[] = {
    { TRACE_PEER_BYTES_SENT, "bytes_total", "counter", "sent", NULL,
      "Bytes that workers have exchanged, by the other worker and the way." },
    { TRACE_PEER_BYTES_RECEIVED, "bytes_total", "counter", "received", NULL, NULL },
    { TRACE_PEER_SHARED_SENT, "bytes_total", "counter", "sent", "shared", NULL },
    { TRACE_PEER_SHARED_RECEIVED, "bytes_total", "counter", "received", "shared", NULL },
    { TRACE_PEER_QUEUED, "queue_bytes", "gauge", NULL, NULL,
      "Bytes that are queued for a worker, or not acknowledged by it." },
    { TRACE_PEER_RECONNECTS, "reconnects_total", "counter", NULL, NULL,
      "How often the connection to a worker was lost." },
};

static const char *name_of_rank(const model *m, int rank) {
    for (int i = 0; i < m->count; i++)
        if (m->workers[i]->is_latest && m->workers[i]->row.rank == rank &&
            m->workers[i]->row.worker[0])
            return m->workers[i]->row.worker;
    return NULL;
}

static void write_peer(const model *m, const model_worker *w, const trace_peer *x,
                       const peer_row *row, FILE *out) {
    char rank[32];
    const char *name = x->rank < 0 ? "other" : name_of_rank(m, x->rank);
    snprintf(rank, sizeof rank, "rank %d", x->rank);  // a worker of another host
    open_series(row->name, w, "peer", name ? name : rank, out);
    if (row->direction) {
        write_further("transport", row->transport ? row->transport : x->transport, out);
        write_further("direction", row->direction, out);
    }
    fprintf(out, "} %" PRIu64 "\n", x->counters[row->counter]);
}

static void write_peers(const model *m, FILE *out) {
    for (size_t r = 0; r < sizeof peer_rows / sizeof peer_rows[0]; r++) {
        const peer_row *row = &peer_rows[r];
        if (row->help) begin(row->name, row->type, row->help, out);
        for (int i = 0; i < m->count; i++) {
            const detail *d = m->workers[i]->detail;
            if (!counts(m, i) || !d) continue;
            for (int k = 0; k < d->peers.count; k++)
                write_peer(m, m->workers[i], &d->peers.of[k], row, out);
        }
    }
}

typedef struct sum_row {
    trace_sum_kind kind;
    trace_sum_counter counter;
    const char *name, *side;
    const char *help;
} sum_row;

static const sum_row sum_rows[] = {
    { TRACE_SUMS_MADE, TRACE_SUM_COUNT, "calls_total", "made",
      "Calls that have ended, by function." },
    { TRACE_SUMS_SERVED, TRACE_SUM_COUNT, "calls_total", "served", NULL },
    { TRACE_SUMS_MADE, TRACE_SUM_FAILED, "call_errors_total", "made",
      "The same that have ended with an error." },
    { TRACE_SUMS_SERVED, TRACE_SUM_FAILED, "call_errors_total", "served", NULL },
    { TRACE_SUMS_SERVED, TRACE_SUM_NS, "call_seconds_total", "served",
      "How long bodies have run, by function." },
    { TRACE_SUMS_COLLECTIVES, TRACE_SUM_COUNT, "collectives_total", NULL,
      "Collectives that have ended, by group and operation." },
    { TRACE_SUMS_COLLECTIVES, TRACE_SUM_FAILED, "collective_errors_total", NULL,
      "The same that have ended with an error." },
    { TRACE_SUMS_COLLECTIVES, TRACE_SUM_NS, "collective_seconds_total", NULL,
      "From the begin to the end of collectives, by group and operation." },
};

static void write_sum(const model_worker *w, const trace_sum *x, const sum_row *row, FILE *out) {
    bool is_collective = row->kind == TRACE_SUMS_COLLECTIVES;
    open_series(row->name, w, is_collective ? "op" : "function", sums_name(x), out);
    if (is_collective) write_further("group", x->name[0] ? x->in : "other", out);
    if (row->side) write_further("side", row->side, out);
    if (row->counter == TRACE_SUM_NS)
        fprintf(out, "} %.6f\n", (double)x->counters[row->counter] * 1e-9);
    else
        fprintf(out, "} %" PRIu64 "\n", x->counters[row->counter]);
}

static void write_sums(const model *m, FILE *out) {
    for (size_t r = 0; r < sizeof sum_rows / sizeof sum_rows[0]; r++) {
        const sum_row *row = &sum_rows[r];
        if (row->help) begin(row->name, "counter", row->help, out);
        for (int i = 0; i < m->count; i++) {
            const detail *d = m->workers[i]->detail;
            if (!counts(m, i) || !d) continue;
            const trace_sum *sums = detail_sums(d, row->kind);
            for (int k = 0; k < d->counts[row->kind]; k++)
                write_sum(m->workers[i], &sums[k], row, out);
        }
    }
}

static void write_memory(const model *m, FILE *out) {
    begin("memory_bytes", "gauge", "Memory of the process of the worker, by kind.", out);
    for (int i = 0; i < m->count; i++) {
        const model_worker *w = m->workers[i];
        if (!has_usage(m, i)) continue;
        write_series("memory_bytes", w, "kind", "resident", out);
        fprintf(out, "%" PRIu64 "\n", w->row.usage.resident_bytes);
        for (int k = 0; w->detail && k < MEMORY_KINDS; k++) {
            write_series("memory_bytes", w, "kind", memory_json_name((memory_kind)k), out);
            fprintf(out, "%" PRIu64 "\n", w->detail->memory[k]);
        }
    }
}

static void write_usage(const model *m, FILE *out) {
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
    write_peers(m, out);
    write_sums(m, out);
    write_memory(m, out);
    write_usage(m, out);
}
