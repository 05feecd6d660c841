#include "monitor/model.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "monitor/findings.h"
#include "observe/show.h"

model *model_open(const char *job) {
    model *m = calloc(1, sizeof *m);
    if (m) m->workers = calloc(MODEL_WORKERS_MAX, sizeof *m->workers);
    if (m && !m->workers) {
        free(m);
        return NULL;
    }
    if (!m) return NULL;
    if (job) snprintf(m->job, sizeof m->job, "%s", job);
    history_init(&m->total);
    return m;
}

void model_close(model *m) {
    if (!m) return;
    for (int i = 0; i < m->count; i++) {
        free(m->workers[i]->detail);
        free(m->workers[i]);
    }
    free(m->workers);
    free(m);
}

// ---- Events -------------------------------------------------------------------------------------

__attribute__((format(printf, 3, 4))) static void add_event(model *m, bool is_bad,
                                                            const char *format, ...) {
    model_event *e = &m->events[m->event_count++ % MODEL_EVENTS_MAX];
    va_list arguments;
    *e = (model_event){ .at_ms = m->now_ms, .wall_s = m->wall_s, .is_bad = is_bad };
    va_start(arguments, format);
    vsnprintf(e->text, sizeof e->text, format, arguments);
    va_end(arguments);
}

const model_event *model_event_at(const model *m, int index) {
    int kept = m->event_count < MODEL_EVENTS_MAX ? m->event_count : MODEL_EVENTS_MAX;
    if (index < 0 || index >= kept) return NULL;
    return &m->events[(m->event_count - 1 - index) % MODEL_EVENTS_MAX];
}

// ---- Workers ------------------------------------------------------------------------------------

const char *model_worker_name(const model_worker *w) {
    return w->row.worker[0] ? w->row.worker : w->row.program;
}

const char *model_worker_state(const model_worker *w) {
    if (strcmp(w->row.phase, "left") == 0) return "left";
    if (w->ended_ms) return "ended";
    if (w->row.life == IMAGE_STOPPED) return "stopped";
    return w->row.worker[0] && strcmp(w->row.phase, "-") != 0 ? w->row.phase : "runs";
}

// The same process, and the same worker in it, which may have opened since.
static bool is_same(const live_row *a, const live_row *b) {
    return a->pid == b->pid && a->start_time == b->start_time && strcmp(a->host, b->host) == 0 &&
           (a->agent == b->agent || a->agent < 0 || b->agent < 0);
}

static model_worker *find_worker(const model *m, const live_row *row) {
    for (int i = 0; i < m->count; i++)
        if (!m->workers[i]->is_present && is_same(&m->workers[i]->row, row)) return m->workers[i];
    return NULL;
}

// That of which the process has ended first.
static int find_oldest(const model *m) {
    int oldest = -1;
    for (int i = 0; i < m->count; i++) {
        const model_worker *w = m->workers[i];
        if (!w->ended_ms || w->is_present) continue;
        if (oldest < 0 || w->ended_ms < m->workers[oldest]->ended_ms) oldest = i;
    }
    return oldest;
}

// Ranks first, and of one rank the latest attempt first; then processes without a worker.
static bool is_before(const live_row *a, const live_row *b) {
    if ((a->rank < 0) != (b->rank < 0)) return a->rank >= 0;
    if (a->rank != b->rank) return a->rank < b->rank;
    return a->attempt > b->attempt;
}

static void sort(model *m) {
    for (int i = 1; i < m->count; i++) {
        model_worker *w = m->workers[i];
        int at = i;
        for (; at > 0 && is_before(&w->row, &m->workers[at - 1]->row); at--)
            m->workers[at] = m->workers[at - 1];
        m->workers[at] = w;
    }
}

// The latest attempt of a rank is before the others.
static void find_latest(model *m) {
    for (int i = 0; i < m->count; i++) {
        model_worker *w = m->workers[i];
        w->is_latest = true;
        for (int k = i; w->row.worker[0] && w->is_latest && k-- > 0;)
            w->is_latest = strcmp(m->workers[k]->row.worker, w->row.worker) != 0;
    }
}

static void drop_detail(model *m, model_worker *w) {
    if (w->detail) m->detail_bytes -= w->detail->bytes;
    free(w->detail);
    w->detail = NULL;
}

// Without a table the last one stays: what has ended keeps its sums.
static void take_detail(model *m, model_worker *w, const trace_table *t) {
    if (!t) return;
    drop_detail(m, w);
    w->detail = detail_copy(t, MODEL_DETAIL_BYTES - m->detail_bytes);
    if (w->detail) m->detail_bytes += w->detail->bytes;
}

// NULL if there is no room.
static model_worker *add_worker(model *m) {
    int at = m->count < MODEL_WORKERS_MAX ? m->count : find_oldest(m);
    if (at < 0) return NULL;
    if (at == m->count) {
        m->workers[at] = malloc(sizeof *m->workers[at]);
        if (!m->workers[at]) return NULL;
        m->workers[at]->detail = NULL;
        m->count++;
    }
    model_worker *w = m->workers[at];
    drop_detail(m, w);
    memset(w, 0, sizeof *w);
    history_init(&w->history);
    return w;
}

static void note_first(model *m, const live_row *r) {
    if (!r->worker[0]) return;
    if (r->attempt)
        add_event(m, false, "%s runs, pid %d, attempt %u", r->worker, (int)r->pid, r->attempt);
    else
        add_event(m, false, "%s runs, pid %d", r->worker, (int)r->pid);
}

static void note_end(model *m, model_worker *w) {
    bool has_left = strcmp(w->row.phase, "left") == 0;
    w->ended_ms = m->now_ms;
    w->row.life = IMAGE_HAS_ENDED;
    if (w->row.worker[0])
        add_event(m, !has_left, "the process of %s, pid %d, has ended%s", w->row.worker,
                  (int)w->row.pid, has_left ? "" : " before its worker had left the job");
}

static void note_change(model *m, const model_worker *w, const live_row *now) {
    const live_row *before = &w->row;
    if (!before->worker[0]) {
        note_first(m, now);
        return;
    }
    if (now->life == IMAGE_STOPPED && before->life == IMAGE_RUNS)
        add_event(m, true, "%s is stopped (SIGSTOP)", now->worker);
    if (now->life == IMAGE_RUNS && before->life == IMAGE_STOPPED)
        add_event(m, false, "%s continues", now->worker);
    if (strcmp(now->phase, before->phase) == 0) return;
    if (strcmp(now->phase, "left") == 0)
        add_event(m, false, "%s has left the job", now->worker);
    else if (strcmp(now->phase, "fenced") == 0)
        add_event(m, true, "%s is fenced: the others have declared it dead", now->worker);
    else if (strcmp(now->phase, "leaving") == 0)
        add_event(m, false, "%s leaves the job", now->worker);
}

static void values_of(const live_row *r, double out[HISTORY_SERIES]) {
    out[HISTORY_CALLS_MADE] = r->rates[TRACE_CALLS_MADE];
    out[HISTORY_CALLS_SERVED] = r->rates[TRACE_CALLS_SERVED];
    out[HISTORY_COLLECTIVES] = r->rates[TRACE_COLLECTIVES];
    out[HISTORY_BYTES_RECEIVED] = r->rates[TRACE_BYTES_RECEIVED];
    out[HISTORY_BYTES_SENT] = r->rates[TRACE_BYTES_SENT];
    out[HISTORY_MEMORY] = (double)r->usage.resident_bytes;
    out[HISTORY_PROCESSORS] = r->processors;
}

// Processes are counted once, however many workers they have.
static void add_to_total(const live_row *r, const double values[HISTORY_SERIES],
                         double total[HISTORY_SERIES]) {
    for (int s = 0; s < HISTORY_SERIES; s++)
        if (r->agent <= 0 || (s != HISTORY_MEMORY && s != HISTORY_PROCESSORS))
            total[s] += values[s];
}

static void take_row(model *m, const live_row *row, double total[HISTORY_SERIES]) {
    double values[HISTORY_SERIES];
    values_of(row, values);
    add_to_total(row, values, total);
    model_worker *w = find_worker(m, row);
    bool is_new = !w;
    if (is_new) w = add_worker(m);
    if (!w) {
        m->left_out++;
        return;
    }
    if (!is_new) note_change(m, w, row);
    bool was_ended = w->ended_ms != 0;
    m->is_unsorted |= is_new || is_before(row, &w->row) || is_before(&w->row, row) ||
                      strcmp(row->worker, w->row.worker) != 0;
    take_detail(m, w, row->table);
    w->row = *row;
    w->row.table = NULL;
    w->is_present = true;
    if (is_new) note_first(m, row);
    if (row->life == IMAGE_HAS_ENDED && !was_ended) note_end(m, w);
    if (!w->ended_ms) history_add(&w->history, m->now_ms / 1000, values);
}

static void take_rows(model *m, const live_row *rows, int count) {
    double total[HISTORY_SERIES] = { 0 };
    for (int i = 0; i < m->count; i++) m->workers[i]->is_present = false;
    m->left_out = 0;
    for (int i = 0; i < count; i++) take_row(m, &rows[i], total);
    for (int i = 0; i < m->count; i++)
        if (!m->workers[i]->is_present && !m->workers[i]->ended_ms) note_end(m, m->workers[i]);
    if (m->count) history_add(&m->total, m->now_ms / 1000, total);
    if (count && !m->job[0]) snprintf(m->job, sizeof m->job, "%s", rows[0].job);
    if (!m->is_unsorted) return;
    sort(m);
    find_latest(m);
    m->is_unsorted = false;
}

// ---- All ----------------------------------------------------------------------------------------

static void take_progress(model *m, const image *images, int count) {
    progress_update(&m->progress, images, count, m->now_ms);
    bool is_stuck = model_state_of(m) == MODEL_IS_STUCK;
    m->finding_count = 0;
    if (is_stuck)
        m->finding_count =
            findings_take(images, count, MODEL_STUCK_MS, m->findings, MODEL_FINDINGS_MAX);
    bool is_hung = is_stuck && model_unmoved_ms(m) >= MODEL_HUNG_MS;
    if (is_hung && !m->was_stuck)
        add_event(m, true, "no call and no collective has ended for %d s", MODEL_HUNG_MS / 1000);
    if (!is_stuck && m->was_stuck && model_state_of(m) == MODEL_RUNS)
        add_event(m, false, "calls and collectives end again");
    m->was_stuck = is_hung || (m->was_stuck && is_stuck);
}

void model_update(model *m, const live_row *rows, int count, const image *images, int image_count,
                  int64_t now_ms, int64_t wall_s) {
    m->now_ms = now_ms;
    m->wall_s = wall_s;
    take_rows(m, rows, count);
    take_progress(m, images, image_count);
}

model_counts model_count(const model *m) {
    model_counts c = { 0 };
    for (int i = 0; i < m->count; i++) {
        const model_worker *w = m->workers[i];
        bool has_left = strcmp(w->row.phase, "left") == 0;
        if (!w->is_latest) continue;
        c.workers += w->row.worker[0] != 0;
        if (has_left)
            c.left++;
        else if (w->ended_ms)
            c.ended++;
        else if (w->row.life == IMAGE_STOPPED)
            c.stopped++;
        else
            c.running++;
    }
    return c;
}

static bool any_runs(const model *m) {
    for (int i = 0; i < m->count; i++)
        if (!m->workers[i]->ended_ms) return true;
    return false;
}

model_state model_state_of(const model *m) {
    if (!m->count) return MODEL_AWAITS_WORKERS;
    if (!any_runs(m)) return MODEL_HAS_ENDED;
    return progress_has_stopped(&m->progress, m->now_ms, MODEL_STUCK_MS) ? MODEL_IS_STUCK
                                                                         : MODEL_RUNS;
}

int64_t model_unmoved_ms(const model *m) {
    return m->progress.moved_ms ? m->now_ms - m->progress.moved_ms : 0;
}

void model_describe(const model *m, char *out, size_t size) {
    switch (model_state_of(m)) {
    case MODEL_AWAITS_WORKERS: snprintf(out, size, "no worker has started"); break;
    case MODEL_RUNS: snprintf(out, size, "runs"); break;
    case MODEL_IS_STUCK:
        snprintf(out, size, "nothing has ended for %s",
                 show_duration(model_unmoved_ms(m) * 1000000).text);
        break;
    case MODEL_HAS_ENDED: snprintf(out, size, "has ended"); break;
    }
}
