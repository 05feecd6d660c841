#include "observe/workers.h"

#include <stdlib.h>
#include <string.h>

#include "observe/find.h"
#include "observe/json.h"
#include "observe/memory_json.h"
#include "observe/exchange.h"
#include "observe/show.h"
#include "observe/sums.h"

// ---- What a worker does -------------------------------------------------------------------------

// Waits of the program first, then those of bodies, then bodies; of each the oldest.
static int weight_of(const trace_activity *a) {
    if (a->kind == TRACE_WAITS_SHUTDOWN) return 1;
    if (image_is_wait(a->kind)) return a->caller < 0 ? 4 : 3;
    return a->kind == TRACE_RUNS ? 2 : 0;
}

const trace_activity *workers_main_activity(const trace_table *t) {
    const trace_activity *best = NULL;
    for (int i = 0; t && i < t->activity_count; i++) {
        const trace_activity *a = &t->activities[i];
        bool is_better = !best || weight_of(a) > weight_of(best) ||
                         (weight_of(a) == weight_of(best) && a->since_ns < best->since_ns);
        if (is_better) best = a;
    }
    return best;
}

static void describe(const image *x, const image_agent *a, char *out, size_t size) {
    char what[2 * TRACE_TEXT_MAX + 64];
    const trace_activity *one = workers_main_activity(a->table);
    snprintf(out, size, "-");
    if (!one) return;
    trace_activity_text(one, what, sizeof what);
    int n = snprintf(out, size, "%s%s, %s", one->kind == TRACE_RUNS ? "runs " : "", what,
                     show_duration(image_activity_age_ns(x, one)).text);
    int more = a->table->activity_count - 1 + a->table->left_out;
    if (more > 0 && n > 0 && (size_t)n < size)
        snprintf(out + n, size - (size_t)n, " (and %d more)", more);
}

// ---- The table ----------------------------------------------------------------------------------

enum { COLUMNS = 13, CELL_SIZE = 288 };
typedef char cell[CELL_SIZE];

static const char *const headings[COLUMNS] = { "JOB",       "RANK",  "WORKER", "PID",
                                               "PROGRAM",   "STATE", "PHASE",  "SINCE",
                                               "CALLS M/S", "COLL",  "SENT",   "RECEIVED",
                                               "WAITS FOR" };

static void fill_process(const image *x, cell *row) {
    char key[FIND_KEY_SIZE];
    find_key(x, key);
    snprintf(row[0], CELL_SIZE, "%s", key);
    snprintf(row[3], CELL_SIZE, "%d", (int)x->pid);
    snprintf(row[4], CELL_SIZE, "%s", x->program);
    snprintf(row[5], CELL_SIZE, "%s", show_life(x->life));
    snprintf(row[7], CELL_SIZE, "%s",
             show_duration(x->taken.monotonic_ns - x->opened.monotonic_ns).text);
}

static void fill_worker(const image *x, const image_agent *a, cell *row) {
    fill_process(x, row);
    if (!a || !a->name[0]) {
        for (int i = 0; i < COLUMNS; i++)
            if (!row[i][0]) snprintf(row[i], CELL_SIZE, "-");
        return;
    }
    const trace_table *t = a->table;
    snprintf(row[1], CELL_SIZE, "%d", a->rank);
    snprintf(row[2], CELL_SIZE, "%s", a->name);
    snprintf(row[6], CELL_SIZE, "%s", !a->is_open ? "left" : t ? show_phase(t->phase) : "-");
    snprintf(row[8], CELL_SIZE, "%llu/%llu",
             t ? (unsigned long long)t->counters[TRACE_CALLS_MADE] : 0,
             t ? (unsigned long long)t->counters[TRACE_CALLS_SERVED] : 0);
    snprintf(row[9], CELL_SIZE, "%llu", t ? (unsigned long long)t->counters[TRACE_COLLECTIVES] : 0);
    snprintf(row[10], CELL_SIZE, "%s", show_size(t ? t->counters[TRACE_BYTES_SENT] : 0).text);
    snprintf(row[11], CELL_SIZE, "%s", show_size(t ? t->counters[TRACE_BYTES_RECEIVED] : 0).text);
    describe(x, a, row[12], CELL_SIZE);
}

static void print_rows(cell (*rows)[COLUMNS], int count, FILE *out) {
    int widths[COLUMNS];
    for (int c = 0; c < COLUMNS; c++) {
        widths[c] = (int)strlen(headings[c]);
        for (int i = 0; i < count; i++)
            if ((int)strlen(rows[i][c]) > widths[c]) widths[c] = (int)strlen(rows[i][c]);
    }
    for (int i = -1; i < count; i++) {
        for (int c = 0; c < COLUMNS; c++) {
            const char *text = i < 0 ? headings[c] : rows[i][c];
            fprintf(out, c + 1 < COLUMNS ? "%-*s  " : "%.*s",
                    c + 1 < COLUMNS ? widths[c] : CELL_SIZE, text);
        }
        fprintf(out, "\n");
    }
}

void workers_write(const image *images, int count, FILE *out) {
    size_t most = 0;
    for (int i = 0; i < count; i++)
        most += images[i].agent_count ? (size_t)images[i].agent_count : 1;
    cell(*rows)[COLUMNS] = calloc(most + 1, sizeof *rows);
    int used = 0;
    for (int i = 0; rows && i < count; i++) {
        const image *x = &images[i];
        if (!x->agent_count) fill_worker(x, NULL, rows[used++]);
        for (int k = 0; k < x->agent_count; k++) fill_worker(x, &x->agents[k], rows[used++]);
    }
    if (rows) print_rows(rows, used, out);
    free(rows);
}

// ---- JSON ---------------------------------------------------------------------------------------

static json_t *activities_json(const image *x, const trace_table *t) {
    json_t *out = json_array();
    for (int i = 0; i < t->activity_count; i++)
        json_array_append_new(out, json_of_activity(x, &t->activities[i]));
    return out;
}

static void set_table(json_t *out, const image *x, const image_agent *a) {
    static const char *const names[TRACE_COUNTERS] = { "calls_made",        "calls_served",
                                                       "collectives",       "messages_sent",
                                                       "messages_received", "bytes_sent",
                                                       "bytes_received" };
    const trace_table *t = a->table;
    json_object_set_new(out, "phase", json_string(a->is_open ? show_phase(t->phase) : "left"));
    json_object_set_new(out, "table_age_ms", json_integer(image_table_age_ns(x, a) / 1000000));
    for (int i = 0; i < TRACE_COUNTERS; i++)
        json_object_set_new(out, names[i], json_integer((json_int_t)t->counters[i]));
    json_object_set_new(out, "memory", memory_json(t->memory));
    json_object_set_new(out, "peers", exchange_json(&t->peers));
    json_object_set_new(out, "sums", sums_json(t));
    json_object_set_new(out, "left_out", json_integer(t->left_out));
    json_object_set_new(out, "activities", activities_json(x, t));
}

static json_t *worker_json(const image *x, const image_agent *a) {
    char key[FIND_KEY_SIZE];
    find_key(x, key);
    json_t *out = json_pack(
        "{ss ss si ss ss ss sI sI}", "job", key, "mark", x->mark, "pid", (int)x->pid, "program",
        x->program, "host", x->host, "state", show_life(x->life), "attempt", (json_int_t)x->attempt,
        "since_ms", (json_int_t)((x->taken.monotonic_ns - x->opened.monotonic_ns) / 1000000));
    if (!a || !a->name[0]) return out;
    json_object_set_new(out, "worker", json_string(a->name));
    json_object_set_new(out, "rank", json_integer(a->rank));
    json_object_set_new(out, "world_size", json_integer(a->world_size));
    if (a->table) set_table(out, x, a);
    return out;
}

void workers_write_json(const image *images, int count, FILE *out) {
    json_t *workers = json_array();
    for (int i = 0; i < count; i++) {
        const image *x = &images[i];
        if (!x->agent_count) json_array_append_new(workers, worker_json(x, NULL));
        for (int k = 0; k < x->agent_count; k++)
            json_array_append_new(workers, worker_json(x, &x->agents[k]));
    }
    json_write(json_pack("{so}", "workers", workers), out);
}
