#include "observe/text.h"

#include <time.h>

#include "observe/exchange.h"
#include "observe/show.h"
#include "observe/sums.h"

static void write_header(const image *x, FILE *out) {
    char when[64] = "?";
    time_t seconds = (time_t)(x->taken.wall_ns / 1000000000);
    struct tm local;
    if (localtime_r(&seconds, &local)) strftime(when, sizeof when, "%Y-%m-%d %H:%M:%S", &local);
    fprintf(out, "process %d of %s on %s, job %s, attempt %u: %s at %s, after %s\n", (int)x->pid,
            x->program, x->host,
            x->job[0]    ? x->job
            : x->mark[0] ? x->mark
                         : "-",
            x->attempt, show_life(x->life), when,
            show_duration(x->taken.monotonic_ns - x->opened.monotonic_ns).text);
    if (x->threads_left_out) fprintf(out, "  %u threads had no ring\n", x->threads_left_out);
}

static void write_activity(const image *x, const trace_activity *a, FILE *out) {
    char what[2 * TRACE_TEXT_MAX + 64];
    int listed = a->rank_count < TRACE_RANKS_MAX ? a->rank_count : TRACE_RANKS_MAX;
    trace_activity_text(a, what, sizeof what);
    fprintf(out, "    %-10s %s", show_kind(a->kind), what);
    if (a->site[0]) fprintf(out, " (%s)", a->site);
    if (a->caller >= 0)
        fprintf(out, ", of call %llu of rank %d", (unsigned long long)a->call, a->caller);
    for (int i = 0; i < listed; i++) fprintf(out, "%s%d", i ? ", " : ", for rank ", a->ranks[i]);
    if (listed < a->rank_count) fprintf(out, " and %d more", a->rank_count - listed);
    fprintf(out, ", for %s\n", show_duration(image_activity_age_ns(x, a)).text);
}

static void write_memory(const uint64_t *bytes, FILE *out) {
    const char *before = "    memory: ";
    for (int i = 0; i < MEMORY_KINDS; i++) {
        if (!bytes[i]) continue;
        fprintf(out, "%s%s %s", before, memory_kind_names[i], show_size(bytes[i]).text);
        before = ", ";
    }
    if (before[0] == ',') fprintf(out, "\n");
}

static void write_table(const image *x, const image_agent *a, FILE *out) {
    const trace_table *t = a->table;
    const uint64_t *n = t->counters;
    fprintf(out, "    %s, table of %s ago\n", show_phase(t->phase),
            show_duration(image_table_age_ns(x, a)).text);
    fprintf(out,
            "    calls %llu made, %llu served; %llu collectives; sent %llu messages, %s; received "
            "%llu, %s\n",
            (unsigned long long)n[TRACE_CALLS_MADE], (unsigned long long)n[TRACE_CALLS_SERVED],
            (unsigned long long)n[TRACE_COLLECTIVES], (unsigned long long)n[TRACE_MESSAGES_SENT],
            show_size(n[TRACE_BYTES_SENT]).text, (unsigned long long)n[TRACE_MESSAGES_RECEIVED],
            show_size(n[TRACE_BYTES_RECEIVED]).text);
    write_memory(t->memory, out);
    exchange_write(&t->peers, out);
    sums_write(t, out);
    for (int i = 0; i < t->activity_count; i++) write_activity(x, &t->activities[i], out);
    if (t->left_out)
        fprintf(out, "    and %d activities that the table does not hold\n", t->left_out);
}

static void write_agent(const image *x, const image_agent *a, FILE *out) {
    fprintf(out, "  worker %s, rank %d of %d, incarnation %llx%s\n", a->name[0] ? a->name : "?",
            a->rank, a->world_size, (unsigned long long)a->incarnation,
            a->is_open ? "" : ", closed");
    if (a->table)
        write_table(x, a, out);
    else
        fprintf(out, "    no table\n");
}

static void write_thread(const image *x, const image_thread *t, int record_count, FILE *out) {
    char text[SHOW_SIZE];
    uint32_t most = record_count > 0 ? (uint32_t)record_count : 0;
    uint32_t first = t->record_count > most ? t->record_count - most : 0;
    fprintf(out, "  thread %s", t->name);
    if (t->tid) fprintf(out, " (tid %d)", t->tid);
    fprintf(out, ", %u records, %llu older ones lost; seconds before the end\n", t->record_count,
            (unsigned long long)t->lost);
    for (uint32_t i = first; i < t->record_count; i++) {
        const image_record *r = &t->records[i];
        show_record(x, r, text, sizeof text);
        const char *worker =
            r->agent < x->agent_count && x->agent_count > 1 ? x->agents[r->agent].name : "";
        fprintf(out, "    %12.6f  %s%s%s\n", (double)(x->taken.monotonic_ns - r->at_ns) * 1e-9,
                worker, *worker ? ": " : "", text);
    }
}

void text_write(const image *x, int record_count, FILE *out) {
    write_header(x, out);
    for (int i = 0; i < x->agent_count; i++) write_agent(x, &x->agents[i], out);
    for (int i = 0; i < x->thread_count; i++) write_thread(x, &x->threads[i], record_count, out);
}
