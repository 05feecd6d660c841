#include <stdlib.h>
#include <string.h>

#include "observe/last.h"
#include "observe/show.h"
#include "timeline/prepare.h"
#include "timeline/report_state.h"

static const char *text_of(const report *r, uint32_t name) {
    return name && name <= r->name_count && r->names[name - 1] ? r->names[name - 1] : "(others)";
}

// ---- Texts --------------------------------------------------------------------------------------

typedef struct short_time {
    char text[24];
} short_time;

static short_time show_time_of(double ns) {
    static const char *const units[] = { "ns", "us", "ms", "s" };
    short_time out;
    int unit = 0;
    for (; ns >= 999.5 && unit < 3; unit++) ns /= 1000;
    snprintf(out.text, sizeof out.text,
             ns < 9.95 && unit   ? "%.2f %s"
             : ns < 99.5 && unit ? "%.1f %s"
                                 : "%.0f %s",
             ns, units[unit]);
    return out;
}

// "worker3", else the program and its number.
static void name_worker(const report *r, int image_index, char *out, size_t size) {
    const image *x = &r->images[image_index];
    if (x->agent_count && x->agents[0].name[0])
        snprintf(out, size, x->attempt ? "%s, attempt %u" : "%s", x->agents[0].name, x->attempt);
    else
        snprintf(out, size, "%s (pid %d)", x->program, (int)x->pid);
}

// ---- Workers ------------------------------------------------------------------------------------

static void write_part(const cover *c, const char *name, int64_t whole_ns, FILE *out) {
    if (!c->sum_ns) return;
    fprintf(out, "; %s %s (%.0f %%)", name, show_time_of((double)c->sum_ns).text,
            whole_ns ? 100.0 * (double)c->sum_ns / (double)whole_ns : 0.0);
}

static void write_worker(const report *r, int i, FILE *out) {
    static const struct {
        trace_kind kind;
        const char *name;
    } parts[] = { { TRACE_COLLECTIVE_ENTERED, "collectives" },
                  { TRACE_PASS_BEGUN, "passes" },
                  { TRACE_PART_BEGUN, "parts of passes" },
                  { TRACE_STEP_BEGUN, "steps" },
                  { TRACE_SPAN_OPENED, "spans" },
                  { TRACE_CALL_MADE, "calls" },
                  { TRACE_BODY_BEGUN, "bodies" },
                  { TRACE_CHECKPOINT_BEGUN, "checkpoints" } };
    char name[256];
    int64_t first_ns = 0, last_ns = 0;
    uint64_t lost = 0, overtaken = 0, left_out = 0;
    for (int k = 0; k < r->images[i].thread_count; k++) {
        const image_thread *t = &r->images[i].threads[k];
        lost += t->lost - t->overtaken;
        overtaken += t->overtaken;
        left_out += t->left_out;
    }
    prepare_find_times(&r->images[i], &first_ns, &last_ns);
    name_worker(r, i, name, sizeof name);
    fprintf(out, "%s: records of %s", name, show_time_of((double)(last_ns - first_ns)).text);
    if (lost) fprintf(out, ", %llu older ones lost", (unsigned long long)lost);
    if (overtaken)
        fprintf(out, ", %llu overwritten before they were read", (unsigned long long)overtaken);
    if (left_out) fprintf(out, ", %llu later ones left out", (unsigned long long)left_out);
    for (size_t k = 0; k < sizeof parts / sizeof parts[0]; k++)
        write_part(&r->covers[i][parts[k].kind], parts[k].name, last_ns - first_ns, out);
    fprintf(out, "\n");
}

static void write_row(const report *r, const row *x, FILE *out) {
    const histogram *h = &x->times;
    fprintf(out, "  %-20s %8llu %10s %10s %10s %10s  %s", trace_kinds[x->kind].text,
            (unsigned long long)h->count, show_time_of(h->sum_ns).text,
            show_time_of((double)histogram_find(h, 0.5)).text,
            show_time_of((double)histogram_find(h, 0.99)).text,
            show_time_of((double)h->max_ns).text, text_of(r, x->name));
    if (x->failed) fprintf(out, ", %llu failed", (unsigned long long)x->failed);
    if (x->unfinished) fprintf(out, ", %llu not whole", (unsigned long long)x->unfinished);
    fprintf(out, "\n");
}

static int by_image_and_time(const void *a, const void *b) {
    const row *x = *(row *const *)a, *y = *(row *const *)b;
    if (x->image != y->image) return x->image < y->image ? -1 : 1;
    if (x->kind != y->kind) return x->kind < y->kind ? -1 : 1;
    if (x->times.sum_ns != y->times.sum_ns) return x->times.sum_ns > y->times.sum_ns ? -1 : 1;
    return (x->name > y->name) - (x->name < y->name);
}

static void write_rows(const report *r, int image_index, FILE *out) {
    bool any = false;
    for (int i = 0; i < r->row_count; i++) {
        if (r->rows[i]->image != image_index) continue;
        if (!any)
            fprintf(out, "  %-20s %8s %10s %10s %10s %10s\n", "", "count", "total", "p50", "p99",
                    "longest");
        any = true;
        write_row(r, r->rows[i], out);
    }
}

// ---- Collectives --------------------------------------------------------------------------------

// Those of one group and operation.
typedef struct kind_sum {
    uint32_t group, name;
    uint64_t count, ended, skew_count;
    double sum_ns, skew_ns;
    int64_t skew_max_ns;
} kind_sum;

static void add_instance(kind_sum *s, const instance *x) {
    int64_t skew = x->last_ns - x->first_ns;
    s->count++;
    s->ended += (uint64_t)x->ended;
    s->sum_ns += (double)x->sum_ns;
    if (x->entered < 2) return;
    s->skew_count++;
    s->skew_ns += (double)skew;
    if (skew > s->skew_max_ns) s->skew_max_ns = skew;
}

// "; last: worker2 41, worker0 3". |times|: by image.
static void write_last(const report *r, uint64_t *times, FILE *out) {
    for (int n = 0; n < 3; n++) {
        int most = 0;
        char name[256];
        for (int i = 1; i < r->count; i++)
            if (times[i] > times[most]) most = i;
        if (!times[most]) break;
        name_worker(r, most, name, sizeof name);
        fprintf(out, "%s%s %llu", n ? ", " : "; last: ", name, (unsigned long long)times[most]);
        times[most] = 0;
    }
}

static void write_sum(const report *r, const kind_sum *s, uint64_t *times, FILE *out) {
    fprintf(out, "  %s of %s: %llu, mean %s", text_of(r, s->name),
            s->group ? text_of(r, s->group) : "?", (unsigned long long)s->count,
            show_time_of(s->ended ? s->sum_ns / (double)s->ended : 0).text);
    if (s->skew_count) {
        fprintf(out, "; arrival apart by %s, at most %s",
                show_time_of(s->skew_ns / (double)s->skew_count).text,
                show_time_of((double)s->skew_max_ns).text);
        write_last(r, times, out);
    }
    fprintf(out, "\n");
}

static int by_group_and_name(const void *a, const void *b, void *instances) {
    const instance *x = (const instance *)instances + *(const uint32_t *)a;
    const instance *y = (const instance *)instances + *(const uint32_t *)b;
    if (x->group != y->group) return x->group < y->group ? -1 : 1;
    return (x->name > y->name) - (x->name < y->name);
}

// The indices of instances: those of one group and operation one after the other.
static void write_sums(const report *r, const uint32_t *sorted, uint64_t *times, FILE *out) {
    for (uint32_t i = 0; i < r->instance_count;) {
        kind_sum sum = { .group = r->instances[sorted[i]].group,
                         .name = r->instances[sorted[i]].name };
        memset(times, 0, (size_t)r->count * sizeof *times);
        for (; i < r->instance_count; i++) {
            const instance *x = &r->instances[sorted[i]];
            if (x->group != sum.group || x->name != sum.name) break;
            add_instance(&sum, x);
            if (x->entered > 1) times[x->last]++;
        }
        write_sum(r, &sum, times, out);
    }
}

static bool write_collectives(const report *r, FILE *out) {
    uint32_t *sorted = calloc((size_t)r->instance_count + 1, sizeof *sorted);
    uint64_t *times = calloc((size_t)r->count + 1, sizeof *times);
    bool ok = sorted && times;
    for (uint32_t i = 0; ok && i < r->instance_count; i++) sorted[i] = i;
    if (ok && r->instance_count) {
        qsort_r(sorted, r->instance_count, sizeof *sorted, by_group_and_name, r->instances);
        fprintf(out, "\ncollectives\n");
        write_sums(r, sorted, times, out);
    }
    free(sorted);
    free(times);
    return ok;
}

// ---- The critical path --------------------------------------------------------------------------

static void write_part_of_path(const report *r, const critical_part *p, int64_t whole_ns,
                               FILE *out) {
    char name[256], source[256];
    name_worker(r, p->image, name, sizeof name);
    fprintf(out, "  %10s %3.0f %%  ", show_time_of((double)p->sum_ns).text,
            100.0 * (double)p->sum_ns / (double)whole_ns);
    if (p->source >= 0) {
        name_worker(r, p->source, source, sizeof source);
        fprintf(out, "%s to ", source);
    }
    const char *kind = p->kind ? trace_kinds[p->kind].text : "its program",
               *what = text_of(r, p->name);
    bool has_name = p->kind && strcmp(kind, what) != 0;
    fprintf(out, "%s: %s%s%s\n", name, kind, has_name ? " " : "", has_name ? what : "");
}

static bool write_critical(const report *r, FILE *out) {
    enum { PARTS_SHOWN = 20 };
    int count = 0;
    const critical_part *parts;
    if (!r->critical) return true;
    if (!critical_find(r->critical, &parts, &count)) return false;
    if (!count) return true;
    int64_t whole_ns = critical_length_ns(r->critical);
    fprintf(out, "\ncritical path of the last step, %s\n", show_time_of((double)whole_ns).text);
    for (int i = 0; i < count && i < PARTS_SHOWN; i++)
        write_part_of_path(r, &parts[i], whole_ns, out);
    if (count > PARTS_SHOWN) fprintf(out, "  and %d shorter parts\n", count - PARTS_SHOWN);
    return true;
}

// ---- Where collectives stop ---------------------------------------------------------------------

static const char *progress_of(const stops_member *m, int64_t next) {
    if (m->last_failed >= next) return "has ended it with an error";
    return m->last_entered >= next ? "has entered it" : "has not entered it";
}

static void write_member(const report *r, const stops_member *m, int64_t next, FILE *out) {
    const image *x = &r->images[m->image];
    const image_record *last;
    char name[256], text[SHOW_SIZE];
    name_worker(r, m->image, name, sizeof name);
    fprintf(out, "    %s %s%s", name, progress_of(m, next),
            x->life == IMAGE_HAS_ENDED ? "; its process has ended" : "");
    if (last_records(x, IMAGE_NO_AGENT - 1, &last, 1) || last_records(x, 0, &last, 1)) {
        show_record(x, last, text, sizeof text);
        fprintf(out, "; its last record: %s", text);
    }
    fprintf(out, "\n");
}

static void write_stop(const report *r, const stops_sequence *s, FILE *out) {
    const char *group = s->group ? text_of(r, s->group) : "?";
    long long all = s->all_ended, next = all + 1;
    if (s->last_begun <= s->all_ended) {
        fprintf(out, "  %s: all %d members have ended all, the last is %lld\n", group,
                s->member_count, all);
        return;
    }
    const uint32_t *index =
        table_find(&r->instances_by_id, (uint64_t)s->id << 32 | (uint32_t)next, 0);
    const char *operation = index ? text_of(r, r->instances[*index].name) : "collective";
    if (s->has_ended)
        fprintf(out, "  %s: all have ended %lld; not %s %lld:\n", group, all, operation, next);
    else
        fprintf(out, "  %s: there is none that all have ended; not %s %lld:\n", group, operation,
                next);
    for (int i = 0; i < s->member_count; i++)
        if (s->members[i].last_ended <= s->all_ended) write_member(r, &s->members[i], next, out);
}

static bool is_ended_like(const stops_sequence *s, const stops_sequence *before) {
    return s->last_begun <= s->all_ended && before->last_begun <= before->all_ended &&
           s->group == before->group && s->all_ended == before->all_ended &&
           s->member_count == before->member_count;
}

static void write_stops(report *r, FILE *out) {
    if (r->stops.count) fprintf(out, "\nwhere the collectives of each group are\n");
    const stops_sequence *before = NULL;
    for (int i = 0; i < r->stops.count; i++) {
        stops_sequence *s = &r->stops.sequences[i];
        stops_finish(s);
        // A group may have many sequences of a few collectives, such as one for each backward pass.
        if (!before || !is_ended_like(s, before)) write_stop(r, s, out);
        before = s;
    }
}

// ---- Clocks -------------------------------------------------------------------------------------

static void write_clocks(const clocks *c, FILE *out) {
    if (c->host_count < 2) return;
    fprintf(out, "\nclocks of the hosts\n");
    for (int i = 0; i < c->host_count; i++) {
        const clocks_host *h = &c->hosts[i];
        fprintf(out, "  %s: %s", h->name, clocks_words(h));
        if (i) fprintf(out, "; offset %+.6f s", (double)h->offset_ns * 1e-9);
        if (i && !h->reason)
            fprintf(out, ", exact to %s", show_time_of((double)h->uncertainty_ns).text);
        fprintf(out, "\n");
    }
    if (c->back_count)
        fprintf(out, "  %llu arrows would lead back in time\n", (unsigned long long)c->back_count);
}

// ---- All ----------------------------------------------------------------------------------------

bool report_write(report *r, FILE *out) {
    if (r->failed) return false;
    if (r->row_count) qsort(r->rows, (size_t)r->row_count, sizeof *r->rows, by_image_and_time);
    for (int i = 0; i < r->count; i++) {
        write_worker(r, i, out);
        write_rows(r, i, out);
    }
    bool has_calls = r->row_count && r->rows[0]->image < 0;
    if (has_calls) fprintf(out, "\ncalls and their bodies, of all workers\n");
    if (has_calls) write_rows(r, -1, out);
    if (!write_collectives(r, out) || !write_critical(r, out)) return false;
    write_stops(r, out);
    write_clocks(r->clocks, out);
    return true;
}
