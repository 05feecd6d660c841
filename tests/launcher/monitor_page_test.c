// The page of a job, its metrics and its JSON, of workers that do not exist.
#include "testing/testing.h"

#include <ctype.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../support/launched.h"
#include "../support/rows.h"
#include "monitor/chart.h"
#include "monitor/html.h"
#include "monitor/job_json.h"
#include "monitor/metrics.h"
#include "monitor/page.h"

static void write_page(const model *m, FILE *out) {
    page_write(m, HISTORY_BY_SECOND, out);
}

static void write_page_of_day(const model *m, FILE *out) {
    page_write(m, HISTORY_BY_MINUTE, out);
}

// ---- HTML ---------------------------------------------------------------------------------------

// The name of the tag at |at|, which is behind "<" or "</".
static const char *take_name(const char *at, char out[32]) {
    size_t size = 0;
    for (; isalnum((unsigned char)*at) && size < 31; at++) out[size++] = *at;
    out[size] = '\0';
    assert_true(size > 0);
    return at;
}

static bool is_void(const char *name) {
    static const char *const names[] = { "meta", "link" };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcmp(name, names[i]) == 0) return true;
    return false;
}

// The end of a tag, behind attributes of which the values are quoted and hold no '<'.
static const char *skip_attributes(const char *at, bool *is_closed) {
    bool is_quoted = false;
    for (; *at && (is_quoted || *at != '>'); at++) {
        if (*at == '"') is_quoted = !is_quoted;
        assert_int_not_equal(*at, '<');
    }
    assert_int_equal(*at, '>');
    *is_closed = at[-1] == '/';
    return at + 1;
}

// Each tag is closed, in order; no text has a '<'.
static void expect_closed_tags(const char *page) {
    enum { DEPTH = 32 };
    char open[DEPTH][32], name[32];
    int depth = 0;
    const char *at = page + strlen("<!doctype html>");
    assert_memory_equal(page, "<!doctype html>", at - page);
    while ((at = strchr(at, '<'))) {
        bool is_end = at[1] == '/', is_closed;
        at = skip_attributes(take_name(at + 1 + is_end, name), &is_closed);
        if (is_end) {
            assert_true(depth > 0);
            assert_string_equal(open[--depth], name);
        } else if (!is_closed && !is_void(name)) {
            assert_true(depth < DEPTH);
            snprintf(open[depth++], sizeof open[0], "%s", name);
        }
        if (!is_end && (strcmp(name, "script") == 0 || strcmp(name, "style") == 0)) {
            char end[40];
            snprintf(end, sizeof end, "</%.30s>", name);
            at = strstr(at, end);
            assert_non_null(at);
        }
    }
    assert_int_equal(depth, 0);
}

static void text_is_escaped(void **state) {
    (void)state;
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    html_text("<a href='x' & \"y\">\xc3\xa4", out);
    fclose(out);
    assert_string_equal(text, "&lt;a href=&#39;x&#39; &amp; &quot;y&quot;&gt;\xc3\xa4");
    free(text);
}

static void numbers_are_short(void **state) {
    (void)state;
    static const struct {
        double x;
        const char *text;
    } rows[] = { { 0, "0" },      { 0.01, "0" },      { 0.25, "0.2" },  { 3, "3" },
                 { 9.94, "9.9" }, { 9.96, "10" },     { 999.4, "999" }, { 999.6, "1.0k" },
                 { 2e4, "20k" },  { 3.14e6, "3.1M" }, { -1, "-" },      { NAN, "-" } };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        assert_string_equal(html_count(rows[i].x).text, rows[i].text);
    static const struct {
        int64_t seconds;
        const char *text;
    } ages[] = { { -5, "0 s" },        { 0, "0 s" },         { 119, "119 s" },  { 120, "2 min" },
                 { 7199, "119 min" },  { 7200, "2 h" },      { 93600, "26 h" }, { 172799, "47 h" },
                 { 172800, "2 days" }, { 864000, "10 days" } };
    for (size_t i = 0; i < sizeof ages / sizeof ages[0]; i++)
        assert_string_equal(html_age(ages[i].seconds * 1000000000).text, ages[i].text);
}

static const char hostile[] = "<script>alert(\"1\")</script>&'";

// Each text that another process can choose.
static model *hostile_model(void) {
    model *m = model_open(NULL);
    live_row row = rows_make(0);
    snprintf(row.job, sizeof row.job, "%s", hostile);
    snprintf(row.worker, sizeof row.worker, "%s", hostile);
    snprintf(row.program, sizeof row.program, "%s", hostile);
    snprintf(row.host, sizeof row.host, "%s", hostile);
    snprintf(row.waits_for, sizeof row.waits_for, "%s", hostile);
    row.waits_kind = "other";
    rows_update(m, &row, 1, 1);
    m->finding_count = 1;
    snprintf(m->findings[0].text, sizeof m->findings[0].text, "%s", hostile);
    return m;
}

static void names_with_tags_stay_text(void **state) {
    (void)state;
    model *m = hostile_model();
    char *page = rows_text(m, write_page);
    expect_closed_tags(page);
    assert_int_equal(count_in(page, "<script>"), 1);
    assert_int_equal(count_in(page, "alert("), count_in(page, "&lt;script&gt;alert("));
    // Title, heading, job, host, worker, wait, report, its command, event.
    assert_int_equal(count_in(page, "&lt;script&gt;alert("), 9);
    free(page);
    model_close(m);
}

// The policy of the page allows one style and one script, and no attribute of either.
static void the_page_has_no_inline_code(void **state) {
    (void)state;
    model *m = hostile_model();
    char *page = rows_text(m, write_page);
    assert_int_equal(count_in(page, "<style>"), 1);
    assert_int_equal(count_in(page, " style="), 0);
    for (const char *on = page; (on = strstr(on, " on")); on++)
        assert_int_not_equal(on[1 + strspn(on + 1, "abcdefghijklmnopqrstuvwxyz")], '=');
    assert_int_equal(count_in(page, "http"), count_in(page, "http-equiv"));  // no other host
    free(page);
    model_close(m);
}

static void pages_of_all_states_close_their_tags(void **state) {
    (void)state;
    model *m = model_open(NULL);
    char *page = rows_text(m, write_page);
    expect_closed_tags(page);
    assert_non_null(strstr(page, "no worker has started"));
    free(page);
    live_row rows[] = { rows_make(0), rows_make(1), rows_make(2) };
    for (int64_t t = 1; t < 700; t++) {
        rows[1].life = t > 300 ? IMAGE_HAS_ENDED : IMAGE_RUNS;
        rows_update(m, rows, 3, t);
    }
    page = rows_text(m, write_page);
    expect_closed_tags(page);
    assert_int_equal(count_in(page, "class=\"ended\""), 1);
    assert_non_null(strstr(page, "last 10 minutes"));
    free(page);
    page = rows_text(m, write_page_of_day);
    expect_closed_tags(page);
    assert_non_null(strstr(page, "last 15 minutes"));
    free(page);
    model_close(m);
}

static void many_workers_are_counted(void **state) {
    (void)state;
    enum { COUNT = PAGE_WORKERS_MAX + 44 };
    live_row *rows = calloc(COUNT, sizeof *rows);
    model *m = model_open(NULL);
    assert_non_null(rows);
    for (int i = 0; i < COUNT; i++) rows[i] = rows_make(i);
    rows_update(m, rows, COUNT, 1);
    char *page = rows_text(m, write_page);
    expect_closed_tags(page);
    assert_int_equal(count_in(page, "<th scope=\"row\">"), PAGE_WORKERS_MAX);
    assert_non_null(strstr(page, "and 44 more"));
    free(page);
    free(rows);
    model_close(m);
}

static void a_chart_has_gaps_where_values_are_missing(void **state) {
    (void)state;
    const double values[] = { 0, 10, NAN, NAN, 5, NAN };
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    chart_write(values, 6, &(chart_options){ .height = 20, .style = "x", .text = "t" }, out);
    fclose(out);
    assert_non_null(strstr(text, "class=\"line\" d=\"M0 18.5L1 1.5M4 10.0h.5\""));
    assert_non_null(strstr(text, "class=\"area\" d=\"M0 18.5L1 1.5V20H0ZM4 10.0h.5V20H4Z\""));
    assert_true(chart_peak(values, 6) == 10);
    assert_true(isnan(chart_peak(values + 2, 2)));
    free(text);
}

// ---- Metrics ------------------------------------------------------------------------------------

typedef struct lines {
    char *text;
    const char *of[512];
    int count;
} lines;

static lines split(char *text) {
    lines x = { .text = text };
    for (char *at = text, *end; (end = strchr(at, '\n')); at = end + 1) {
        *end = '\0';
        assert_true(x.count < 512);
        x.of[x.count++] = at;
    }
    return x;
}

// The value of a series, such as "gradwire_up"; fails if there is not one.
static double metric(const lines *x, const char *series) {
    size_t size = strlen(series);
    const char *found = NULL;
    for (int i = 0; i < x->count; i++) {
        if (strncmp(x->of[i], series, size) != 0 || x->of[i][size] != ' ') continue;
        assert_null(found);
        found = x->of[i] + size;
    }
    if (!found) fail_msg("no series %s", series);
    return strtod(found, NULL);
}

static size_t name_size(const char *line) {
    return strspn(line, "abcdefghijklmnopqrstuvwxyz_");
}

// Each series once, below the HELP and TYPE of its name.
static void expect_exposition(const lines *x) {
    const char *family = NULL;
    for (int i = 0; i < x->count; i++) {
        if (strncmp(x->of[i], "# HELP ", 7) == 0) {
            family = x->of[i] + 7;
            assert_memory_equal(x->of[i + 1], "# TYPE ", 7);
            assert_memory_equal(x->of[i + 1] + 7, family, name_size(family) + 1);
            for (int k = 0; k < i; k++)
                assert_int_not_equal(strncmp(x->of[k], x->of[i], 7 + name_size(family) + 1), 0);
            i++;
            continue;
        }
        assert_non_null(family);
        assert_int_equal(name_size(x->of[i]), name_size(family));
        assert_memory_equal(x->of[i], family, name_size(family));
        size_t size = (size_t)(strrchr(x->of[i], ' ') - x->of[i]);
        for (int k = 0; k < i; k++) assert_int_not_equal(strncmp(x->of[k], x->of[i], size + 1), 0);
    }
}

static void metrics_are_those_of_the_workers(void **state) {
    (void)state;
    model *m = model_open("job");
    live_row rows[] = { rows_make(0), rows_make(1), rows_make(2) };
    rows[2].life = IMAGE_STOPPED;
    rows[1].waits_kind = "collective";
    rows[1].waits_ns = 1500000000;
    rows[1].attempt = 3;
    rows_update(m, rows, 3, 1);
    lines x = split(rows_text(m, metrics_write));
    expect_exposition(&x);
    assert_true(metric(&x, "gradwire_up") == 1);
    assert_true(metric(&x, "gradwire_hung") == 0);
    assert_true(metric(&x, "gradwire_members{state=\"serving\"}") == 2);
    assert_true(metric(&x, "gradwire_members{state=\"stopped\"}") == 1);
    assert_true(metric(&x, "gradwire_restarts_total{worker=\"worker1\"}") == 3);
    assert_true(metric(&x, "gradwire_worker_calls_total{worker=\"worker2\",side=\"made\"}") == 200);
    assert_true(metric(&x, "gradwire_worker_calls_total{worker=\"worker2\",side=\"served\"}") ==
                201);
    assert_true(
        metric(&x, "gradwire_worker_bytes_total{worker=\"worker1\",direction=\"received\"}") ==
        100 + TRACE_BYTES_RECEIVED);
    assert_true(metric(&x, "gradwire_memory_bytes{worker=\"worker0\",kind=\"resident\"}") == 1e6);
    assert_true(metric(&x, "gradwire_processor_seconds_total{worker=\"worker0\"}") == 2.5);
    assert_true(metric(&x, "gradwire_activity_seconds{worker=\"worker1\",kind=\"collective\"}") ==
                1.5);
    free(x.text);
    model_close(m);
}

static void fill_table(trace_table *t) {
    *t = (trace_table){ .memory = { [MEMORY_GRADIENTS] = 4096 } };
    t->peers = (trace_peers){ .count = 3,
                              .of = { { .rank = 1, .workers = 1, .transport = "shm" },
                                      { .rank = 7, .workers = 1, .transport = "tcp" },
                                      { .rank = -1, .workers = 9 } } };
    for (int i = 0; i < 3; i++) {
        t->peers.of[i].counters[TRACE_PEER_BYTES_SENT] = 100 * (uint64_t)(i + 1);
        t->peers.of[i].counters[TRACE_PEER_SHARED_RECEIVED] = 5;
        t->peers.of[i].counters[TRACE_PEER_QUEUED] = 11;
    }
    trace_sums_add(&t->sums[TRACE_SUMS_MADE], "f\"\n<b>", "", true, 0);
    trace_sums_add(&t->sums[TRACE_SUMS_SERVED], "g", "", false, 1500000000);
    trace_sums_add(&t->sums[TRACE_SUMS_COLLECTIVES], "all_reduce", "world", false, 250000000);
    for (int i = 0; i < 100; i++) {
        char name[16];
        snprintf(name, sizeof name, "f%d", i);
        trace_sums_add(&t->sums[TRACE_SUMS_MADE], name, "", false, 0);
    }
}

static void peers_functions_and_groups_have_metrics(void **state) {
    (void)state;
    model *m = model_open("job");
    static trace_table t;
    fill_table(&t);
    live_row rows[] = { rows_make(0), rows_make(1) };
    rows[0].table = &t;
    rows_update(m, rows, 2, 1);
    lines x = split(rows_text(m, metrics_write));
    expect_exposition(&x);
#define OF "{worker=\"worker0\",peer="
    assert_true(metric(&x, "gradwire_bytes_total" OF
                           "\"worker1\",transport=\"shm\",direction=\"sent\"}") == 100);
    assert_true(metric(&x, "gradwire_bytes_total" OF
                           "\"rank 7\",transport=\"tcp\",direction=\"sent\"}") == 200);
    assert_true(metric(&x, "gradwire_bytes_total" OF
                           "\"other\",transport=\"shared\",direction=\"received\"}") == 5);
    assert_true(metric(&x, "gradwire_queue_bytes" OF "\"worker1\"}") == 11);
#undef OF
#define OF "{worker=\"worker0\",function="
    assert_true(metric(&x, "gradwire_calls_total" OF "\"g\",side=\"served\"}") == 1);
    assert_true(metric(&x, "gradwire_calls_total" OF "\"f\\\"\\n<b>\",side=\"made\"}") == 1);
    assert_true(metric(&x, "gradwire_call_errors_total" OF "\"f\\\"\\n<b>\",side=\"made\"}") == 1);
    assert_true(metric(&x, "gradwire_calls_total" OF "\"other\",side=\"made\"}") ==
                101 - TRACE_SUMS_MAX);
    assert_true(metric(&x, "gradwire_call_seconds_total" OF "\"g\",side=\"served\"}") == 1.5);
#undef OF
    assert_true(metric(&x, "gradwire_collective_seconds_total{worker=\"worker0\",op=\"all_reduce\","
                           "group=\"world\"}") == 0.25);
    assert_true(metric(&x, "gradwire_memory_bytes{worker=\"worker0\",kind=\"gradients\"}") == 4096);
    free(x.text);
    // A worker that has published nothing more keeps its sums, and the memory is given back.
    rows[0].table = NULL;
    rows_update(m, rows, 2, 2);
    char *text = rows_text(m, metrics_write);
    assert_non_null(strstr(text, "function=\"g\",side=\"served\"} 1\n"));
    free(text);
    assert_true(m->detail_bytes > 0 && m->detail_bytes < 20000);
    model_close(m);
}

static void details_have_a_bounded_memory(void **state) {
    (void)state;
    enum { WORKERS = 1024 };
    model *m = model_open("job");
    static trace_table t;
    static live_row rows[WORKERS];
    fill_table(&t);
    for (int i = 0; i < WORKERS; i++) {
        rows[i] = rows_make(i);
        rows[i].table = &t;
    }
    for (int second = 1; second < 4; second++) rows_update(m, rows, WORKERS, second);
    assert_true(m->detail_bytes <= MODEL_DETAIL_BYTES);
    int count = 0;
    for (int i = 0; i < m->count; i++) count += m->workers[i]->detail != NULL;
    assert_in_range(count, 1, WORKERS - 1);
    model_close(m);
}

// The ended attempt has the same name, and what is not known of ended processes is no series.
static void a_name_has_one_series(void **state) {
    (void)state;
    model *m = model_open("job");
    live_row row = rows_make(0);
    row.counters[TRACE_COLLECTIVES] = 50;
    rows_update(m, &row, 1, 1);
    row.pid++;
    row.attempt = 1;
    row.counters[TRACE_COLLECTIVES] = 2;
    rows_update(m, &row, 1, 2);
    lines x = split(rows_text(m, metrics_write));
    expect_exposition(&x);
    assert_true(metric(&x, "gradwire_worker_collectives_total{worker=\"worker0\"}") == 2);
    assert_true(metric(&x, "gradwire_members{state=\"ended\"}") == 0);
    free(x.text);
    row.life = IMAGE_HAS_ENDED;
    row.usage = (process_usage){ 0 };
    rows_update(m, &row, 1, 3);
    char *text = rows_text(m, metrics_write);
    assert_null(strstr(text, "gradwire_processor_seconds_total{"));
    assert_null(strstr(text, "gradwire_memory_bytes{"));
    assert_non_null(strstr(text, "gradwire_up 0\n"));
    assert_non_null(strstr(text, "gradwire_worker_collectives_total{worker=\"worker0\"} 2\n"));
    free(text);
    model_close(m);
}

static void labels_are_escaped(void **state) {
    (void)state;
    model *m = model_open("job");
    live_row row = rows_make(0);
    snprintf(row.worker, sizeof row.worker, "a\\b\"c\nd{}");
    rows_update(m, &row, 1, 1);
    char *text = rows_text(m, metrics_write);
    assert_non_null(
        strstr(text, "gradwire_worker_collectives_total{worker=\"a\\\\b\\\"c\\nd{}\"} 2\n"));
    lines x = split(text);
    expect_exposition(&x);
    free(text);
    model_close(m);
}

// ---- JSON ---------------------------------------------------------------------------------------

static void json_has_what_the_page_has(void **state) {
    (void)state;
    model *m = hostile_model();
    char *text = rows_text(m, job_json_write);
    json_t *all = json_loads(text, 0, NULL);
    assert_non_null(all);
    const json_t *worker = json_array_get(json_object_get(all, "workers"), 0);
    assert_string_equal(json_string_value(json_object_get(worker, "worker")), hostile);
    assert_string_equal(json_string_value(json_object_get(worker, "phase")), "serving");
    assert_string_equal(json_string_value(json_object_get(all, "state")), "runs");
    const json_t *event = json_array_get(json_object_get(all, "events"), 0);
    assert_non_null(strstr(json_string_value(json_object_get(event, "text")), hostile));
    assert_int_equal(json_array_size(json_object_get(all, "hang")), 1);
    const json_t *history = json_object_get(all, "history");
    const json_t *memory = json_object_get(json_object_get(history, "seconds"), "resident_bytes");
    assert_int_equal(json_array_size(memory), HISTORY_SECONDS);
    assert_true(json_number_value(json_array_get(memory, HISTORY_SECONDS - 1)) == 1e6);
    assert_true(json_is_null(json_array_get(memory, 0)));
    assert_int_equal(
        json_array_size(json_object_get(json_object_get(history, "minutes"), "processors")),
        HISTORY_MINUTES);
    json_decref(all);
    free(text);
    model_close(m);
}

GW_TESTS(monitor_page, text_is_escaped, numbers_are_short, names_with_tags_stay_text,
         the_page_has_no_inline_code, pages_of_all_states_close_their_tags,
         many_workers_are_counted, a_chart_has_gaps_where_values_are_missing,
         metrics_are_those_of_the_workers, peers_functions_and_groups_have_metrics,
         details_have_a_bounded_memory, a_name_has_one_series, labels_are_escaped,
         json_has_what_the_page_has);
