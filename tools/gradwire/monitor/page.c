#include "monitor/page.h"

#include <math.h>
#include <string.h>
#include <time.h>

#include "monitor/chart.h"
#include "monitor/html.h"
#include "observe/show.h"

enum {
    TILE_POINTS = 120,
    ROW_POINTS = 60,
    SECONDS_MIN = 60,
    MINUTES_MIN = 15,
    OLD_WAIT_S = 10,
    HUNG_WAIT_S = 60
};

typedef struct page {
    const model *model;
    history_span span;
    int window;  // steps that are shown
    FILE *out;
} page;

static void put(const page *p, const char *text) {
    fputs(text, p->out);
}

static void put_text(const page *p, const char *text) {
    html_text(text, p->out);
}

static const char *plural(int count) {
    return count == 1 ? "" : "s";
}

// "last 40 seconds", "last 10 minutes", "last 24 hours".
typedef struct span_name {
    char text[32];
} span_name;

static span_name span_text(const page *p) {
    span_name out;
    int seconds = p->span == HISTORY_BY_SECOND ? p->window : 60 * p->window;
    if (seconds < 120)
        snprintf(out.text, sizeof out.text, "last %d seconds", seconds);
    else if (seconds < 7200)
        snprintf(out.text, sizeof out.text, "last %d minutes", seconds / 60);
    else
        snprintf(out.text, sizeof out.text, "last %d hours", seconds / 3600);
    return out;
}

// ---- The state of the job -----------------------------------------------------------------------

static const char *style_of_job(const model *m) {
    switch (model_state_of(m)) {
    case MODEL_RUNS: return "good";
    case MODEL_IS_STUCK: return model_unmoved_ms(m) >= MODEL_HUNG_MS ? "bad" : "warn";
    default: return "off";
    }
}

// The worker that says most about the job: of the lowest rank.
static const live_row *first_row(const model *m) {
    return m->count ? &m->workers[0]->row : NULL;
}

// The program, which says more to people than the id.
static const char *name_of_job(const model *m) {
    const live_row *first = first_row(m);
    return first ? first->program : m->job[0] ? m->job : "job";
}

static void write_facts(const page *p) {
    const live_row *first = first_row(p->model);
    model_counts c = model_count(p->model);
    int64_t opened_ns = 0;
    for (int i = 0; i < p->model->count; i++)
        if (p->model->workers[i]->row.opened_ns > opened_ns)
            opened_ns = p->model->workers[i]->row.opened_ns;
    if (!first) return;
    put(p, "<p class=\"facts\"><span>job ");
    put_text(p, p->model->job[0] ? p->model->job : "?");
    put(p, "</span><span>host ");
    put_text(p, first->host);
    fprintf(p->out, "</span><span>%d worker%s", c.workers, plural(c.workers));
    if (first->world_size > c.workers) fprintf(p->out, " of %d", first->world_size);
    fprintf(p->out, "</span><span>%d process%s", c.running, c.running == 1 ? " runs" : "es run");
    put(p, "</span>");
    if (c.stopped) fprintf(p->out, "<span class=\"bad\">%d stopped</span>", c.stopped);
    if (c.ended) fprintf(p->out, "<span class=\"bad\">%d ended</span>", c.ended);
    if (c.left) fprintf(p->out, "<span>%d left</span>", c.left);
    fprintf(p->out, "<span>for %s</span></p>", html_age(opened_ns).text);
}

static void write_tab(const page *p, history_span span, const char *address, const char *text) {
    fprintf(p->out, "<a href=\"%s\"%s>%s</a>", address,
            span == p->span ? " aria-current=\"page\"" : "", text);
}

static void write_header(const page *p) {
    char state[MODEL_TEXT_SIZE];
    model_describe(p->model, state, sizeof state);
    put(p, "<header><div class=\"bar\"><h1><span class=\"brand\">gradwire</span> <b>");
    put_text(p, name_of_job(p->model));
    fprintf(p->out, "</b></h1><p id=\"state\"><span class=\"pill %s\">", style_of_job(p->model));
    put_text(p, state);
    put(p, "</span></p><nav aria-label=\"Time shown\">");
    write_tab(p, HISTORY_BY_SECOND, "/", "10 minutes");
    write_tab(p, HISTORY_BY_MINUTE, "/?span=day", "24 hours");
    put(p, "</nav></div><div id=\"facts\">");
    write_facts(p);
    put(p, "</div><p id=\"lost\" hidden>The monitor does not answer; this is what it showed last."
           "</p></header>");
}

// ---- The report ---------------------------------------------------------------------------------

static void write_finding(const page *p, const model_finding *f, bool is_first_of_cycle) {
    const char *kind = f->is_cycle ? "cycle" : "root";
    fprintf(p->out, "<li class=\"%s d%d\">", f->depth ? "waiter" : kind,
            f->depth < 6 ? f->depth : 6);
    if (!f->depth)
        fprintf(p->out, "<span class=\"tag\">%s</span>",
                !f->is_cycle || is_first_of_cycle ? kind : "");
    put_text(p, f->text);
    put(p, "</li>");
}

static void write_hang(const page *p) {
    const model *m = p->model;
    put(p, "<div id=\"hang\">");
    if (m->finding_count) {
        fprintf(p->out,
                "<section class=\"card alert %s\"><h2>What the job waits for</h2><p class=\"note\">"
                "No call and no collective has ended for %s. A <b>root</b> waits for nothing that "
                "can be seen from here: look there first. Below it is what waits for it.</p><ul>",
                style_of_job(m), show_duration(model_unmoved_ms(m) * 1000000).text);
        for (int i = 0; i < m->finding_count; i++)
            write_finding(p, &m->findings[i], !i || m->findings[i - 1].depth);
        put(p, "</ul><p class=\"note\"><code>gradwire hang ");
        put_text(p, m->job);
        put(p, "</code> has more: last records and stacks.</p></section>");
    }
    put(p, "</div>");
}

// ---- Sums over all workers ----------------------------------------------------------------------

typedef struct tile {
    history_series series;
    const char *name, *unit;
    bool is_size;
    double least;
} tile;

static const tile tiles[] = {
    { HISTORY_CALLS_MADE, "Calls", "/s", false, 1 },
    { HISTORY_COLLECTIVES, "Collectives", "/s", false, 1 },
    { HISTORY_BYTES_SENT, "Sent", "/s", true, 1000 },
    { HISTORY_MEMORY, "Memory", "", true, 1 },
    { HISTORY_PROCESSORS, "Processors", "", false, 1 },
};

static void format(const tile *t, double x, char *out, size_t size) {
    if (isnan(x))
        snprintf(out, size, "-");
    else if (t->is_size)
        snprintf(out, size, "%s", show_size((uint64_t)x).text);
    else
        snprintf(out, size, "%s", html_count(x).text);
}

static void write_tile(const page *p, const tile *t) {
    double values[TILE_POINTS];
    int count = p->window < TILE_POINTS ? p->window : TILE_POINTS;
    char now[32], peak[32], text[160];
    const model *m = p->model;
    history_means(&m->total, p->span, t->series, m->now_ms / 1000, p->window, count, values);
    format(t, history_value(&m->total, HISTORY_BY_SECOND, t->series, m->now_ms / 1000, 0), now,
           sizeof now);
    format(t, chart_peak(values, count), peak, sizeof peak);
    snprintf(text, sizeof text, "%s, %s: now %s%s, at most %s%s", t->name, span_text(p).text, now,
             t->unit, peak, t->unit);
    fprintf(p->out,
            "<article class=\"card tile\"><h3>%s</h3><p class=\"value\">%s<small>%s</small></p>"
            "<p class=\"peak\">peak %s%s</p>",
            t->name, now, t->unit, peak, t->unit);
    chart_write(values, count,
                &(chart_options){ .height = 40, .least = t->least, .style = "chart", .text = text },
                p->out);
    put(p, "</article>");
}

static void write_tiles(const page *p) {
    fprintf(p->out,
            "<section aria-labelledby=\"all\"><h2 id=\"all\">All workers <small>%s</small></h2>"
            "<div id=\"tiles\" class=\"tiles\">",
            span_text(p).text);
    for (size_t i = 0; i < sizeof tiles / sizeof tiles[0]; i++) write_tile(p, &tiles[i]);
    put(p, "</div></section>");
}

// ---- Workers ------------------------------------------------------------------------------------

static const char *style_of_worker(const model_worker *w) {
    const char *state = model_worker_state(w);
    if (strcmp(state, "left") == 0) return "off";
    if (w->ended_ms || strcmp(state, "stopped") == 0 || strcmp(state, "fenced") == 0) return "bad";
    return strcmp(state, "serving") == 0 || strcmp(state, "runs") == 0 ? "good" : "warn";
}

static void write_name(const page *p, const model_worker *w) {
    const live_row *r = &w->row;
    put(p, "<th scope=\"row\"><b>");
    put_text(p, model_worker_name(w));
    put(p, "</b><small>");
    if (r->worker[0]) fprintf(p->out, "rank %d · ", r->rank);
    fprintf(p->out, "pid %d", (int)r->pid);
    if (r->attempt) fprintf(p->out, " · attempt %u", r->attempt);
    put(p, "</small></th>");
}

static void write_state(const page *p, const model_worker *w) {
    fprintf(p->out, "<td class=\"state\"><span class=\"dot %s\"></span>%s", style_of_worker(w),
            model_worker_state(w));
    if (w->ended_ms)
        fprintf(p->out, "<small>%s ago</small>",
                html_age((p->model->now_ms - w->ended_ms) * 1000000).text);
    put(p, "</td>");
}

static void write_wait(const page *p, const model_worker *w) {
    const live_row *r = &w->row;
    int64_t seconds = r->waits_ns / 1000000000;
    bool is_body = r->waits_kind && strcmp(r->waits_kind, "runs") == 0;
    if (!r->waits_kind || w->ended_ms) {
        put(p, "<td class=\"wait none\" data-name=\"waits for\">-</td>");
        return;
    }
    fprintf(p->out, "<td class=\"wait\" data-name=\"%s\">", is_body ? "runs" : "waits for");
    const char *style = is_body || seconds < OLD_WAIT_S ? ""
                        : seconds < HUNG_WAIT_S         ? "warn"
                                                        : "bad";
    put(p, "<span class=\"what\">");
    put_text(p, r->waits_for);
    fprintf(p->out, "</span> <small class=\"age %s\">%s</small></td>", style,
            show_duration(r->waits_ns).text);
}

static void write_spark(const page *p, const model_worker *w, history_series series, double least,
                        const char *what) {
    double values[ROW_POINTS];
    int count = p->window < ROW_POINTS ? p->window : ROW_POINTS;
    char text[96];
    history_means(&w->history, p->span, series, p->model->now_ms / 1000, p->window, count, values);
    snprintf(text, sizeof text, "%s, %s", what, span_text(p).text);
    chart_write(values, count,
                &(chart_options){ .height = 20, .least = least, .style = "spark", .text = text },
                p->out);
}

static void write_pair(const page *p, const char *first, const char *second) {
    fprintf(p->out, "<span class=\"pair\"><b>%s</b><i>%s</i></span></td>", first, second);
}

static void write_numbers(const page *p, const model_worker *w) {
    const live_row *r = &w->row;
    const double *x = r->rates;
    bool ended = w->ended_ms != 0;
    put(p, "<td class=\"number graph\" data-name=\"calls/s made, served\">");
    write_spark(p, w, HISTORY_CALLS_MADE, 1, "calls made");
    write_pair(p, html_count(ended ? NAN : x[TRACE_CALLS_MADE]).text,
               html_count(ended ? NAN : x[TRACE_CALLS_SERVED]).text);
    put(p, "<td class=\"number\" data-name=\"collectives/s\">");
    fprintf(p->out, "<b>%s</b></td>", html_count(ended ? NAN : x[TRACE_COLLECTIVES]).text);
    put(p, "<td class=\"number\" data-name=\"in, out/s\">");
    write_pair(p, ended ? "-" : show_size((uint64_t)x[TRACE_BYTES_RECEIVED]).text,
               ended ? "-" : show_size((uint64_t)x[TRACE_BYTES_SENT]).text);
    put(p, "<td class=\"number\" data-name=\"memory\">");
    fprintf(p->out, "<b>%s</b></td>", ended ? "-" : show_size(r->usage.resident_bytes).text);
    put(p, "<td class=\"number graph\" data-name=\"processor\">");
    write_spark(p, w, HISTORY_PROCESSORS, 1, "processor");
    if (ended)
        put(p, "<b>-</b></td>");
    else
        fprintf(p->out, "<b>%.0f %%</b></td>", 100 * r->processors);
}

static void write_worker(const page *p, const model_worker *w) {
    fprintf(p->out, "<tr%s>", w->ended_ms ? " class=\"ended\"" : "");
    write_name(p, w);
    write_state(p, w);
    write_wait(p, w);
    write_numbers(p, w);
    put(p, "</tr>");
}

static void write_workers(const page *p) {
    const model *m = p->model;
    int shown = m->count < PAGE_WORKERS_MAX ? m->count : PAGE_WORKERS_MAX;
    put(p, "<section aria-labelledby=\"each\"><h2 id=\"each\">Workers</h2>"
           "<div id=\"workers\" class=\"card\">");
    if (!shown) put(p, "<p class=\"empty\">No worker of this job has started.</p>");
    if (shown) {
        put(p, "<table><thead><tr><th scope=\"col\">Worker</th><th scope=\"col\">State</th>"
               "<th scope=\"col\">Waits for, or runs</th>"
               "<th scope=\"col\" class=\"number\">Calls/s made, served</th>"
               "<th scope=\"col\" class=\"number\">Collectives/s</th>"
               "<th scope=\"col\" class=\"number\">In, out /s</th>"
               "<th scope=\"col\" class=\"number\">Memory</th>"
               "<th scope=\"col\" class=\"number\">Processor</th></tr></thead><tbody>");
        for (int i = 0; i < shown; i++) write_worker(p, m->workers[i]);
        put(p, "</tbody></table>");
    }
    if (m->count + m->left_out > shown)
        fprintf(p->out, "<p class=\"empty\">and %d more</p>", m->count + m->left_out - shown);
    put(p, "</div></section>");
}

// ---- Events -------------------------------------------------------------------------------------

static void write_event(const page *p, const model_event *e) {
    char clock[16];
    time_t at = (time_t)e->wall_s;
    struct tm local;
    if (!localtime_r(&at, &local) || !strftime(clock, sizeof clock, "%H:%M:%S", &local))
        snprintf(clock, sizeof clock, "-");
    fprintf(p->out, "<li class=\"%s\"><time>%s</time><span>", e->is_bad ? "bad" : "", clock);
    put_text(p, e->text);
    put(p, "</span></li>");
}

static void write_events(const page *p) {
    const model_event *e = model_event_at(p->model, 0);
    put(p, "<section aria-labelledby=\"what\"><h2 id=\"what\">Events <small>seen by this monitor"
           "</small></h2><div id=\"events\" class=\"card\">");
    if (!e) put(p, "<p class=\"empty\">None yet.</p>");
    if (e) put(p, "<ol>");
    for (int i = 0; i < PAGE_EVENTS_MAX && (e = model_event_at(p->model, i)); i++)
        write_event(p, e);
    if (model_event_at(p->model, 0)) put(p, "</ol>");
    put(p, "</div></section>");
}

// ---- All ----------------------------------------------------------------------------------------

static void write_head(const page *p) {
    const char *address = p->span == HISTORY_BY_SECOND ? "/" : "/?span=day";
    put(p, "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" "
           "content=\"width=device-width, initial-scale=1\"><meta name=\"color-scheme\" "
           "content=\"light dark\"><title>");
    put_text(p, name_of_job(p->model));
    put(p, ": ");
    char state[MODEL_TEXT_SIZE];
    model_describe(p->model, state, sizeof state);
    put_text(p, state);
    fprintf(p->out,
            "</title><noscript><meta http-equiv=\"refresh\" content=\"2;url=%s\"></noscript>"
            "<link rel=\"icon\" href=\"data:,\"><style>%s</style></head><body>",
            address, page_style);
}

static void write_footer(const page *p) {
    put(p, "<footer><p>The workers, as they publish what they do: about once a "
           "second. <code>gradwire monitor</code> shows those of its host, <code>gradwire run "
           "--monitor</code> those of all hosts.</p><p>"
           "<a href=\"/api/job.json\">JSON</a> <a href=\"/metrics\">Prometheus</a></p></footer>");
}

void page_write(const model *m, history_span span, FILE *out) {
    int least = span == HISTORY_BY_SECOND ? SECONDS_MIN : MINUTES_MIN;
    const page p = { .model = m,
                     .span = span,
                     .window = history_window(&m->total, span, m->now_ms / 1000, least),
                     .out = out };
    write_head(&p);
    write_header(&p);
    put(&p, "<main>");
    write_hang(&p);
    write_tiles(&p);
    write_workers(&p);
    write_events(&p);
    put(&p, "</main>");
    write_footer(&p);
    fprintf(out, "<script>%s</script></body></html>\n", page_script);
}
