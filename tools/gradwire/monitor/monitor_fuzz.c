// Requests to the page of a job, and names in it, from anywhere: only a request that has the secret gets anything, and no name
// changes the form of the page, of its JSON, or of the metrics.
//
// The input is texts, each ended by a zero: the parts of a request, then names.
#include <jansson.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "monitor/job_json.h"
#include "monitor/metrics.h"
#include "monitor/page.h"
#include "monitor/site.h"
#include "observe/clean.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { PARTS = 12, PART_MAX = 512 };

static const char secret[] = "0123456789abcdef0123456789abcdef";

static void check(bool ok) {
    if (!ok) abort();
}

// ---- Input --------------------------------------------------------------------------------------

typedef struct parts {
    char text[PARTS][PART_MAX];
    bool is_there[PARTS];
} parts;

static void split(const uint8_t *data, size_t size, parts *out) {
    *out = (parts){ 0 };
    for (int i = 0; i < PARTS && size; i++) {
        size_t length = strnlen((const char *)data, size);
        size_t kept = length < PART_MAX ? length : PART_MAX - 1, taken = length + (length < size);
        memcpy(out->text[i], data, kept);
        out->is_there[i] = true;
        data += taken;
        size -= taken;
    }
}

// ---- Requests -----------------------------------------------------------------------------------

static const char *part(const parts *p, int i) {
    return p->is_there[i] ? p->text[i] : NULL;
}

static bool has_secret(const char *text) {
    return text && strstr(text, secret);
}

static void decide(const parts *p, const site_rules *rules) {
    const site_request r = { .method = p->text[0],
                             .path = p->text[1],
                             .key = part(p, 2),
                             .span = part(p, 3),
                             .host = part(p, 4),
                             .origin = part(p, 5),
                             .cookie = part(p, 6),
                             .authorization = part(p, 7) };
    site_answer a = site_decide(rules, &r);
    if (a.status != 200) {
        check(a.status >= 400 && a.status < 500 && a.error && a.error[0] && !a.sets_cookie);
        return;
    }
    check(a.resource < SITE_RESOURCES && site_type(a.resource)[0]);
    check(strcmp(r.method, "GET") == 0 || strcmp(r.method, "HEAD") == 0);
    if (!rules->is_open)
        check(has_secret(r.authorization) ||
              (!rules->is_metrics && (has_secret(r.key) || has_secret(r.cookie))));
    if (rules->is_metrics)
        check(a.resource == SITE_METRICS || a.resource == SITE_HEALTH);
    else
        check(r.host && strcspn(r.host, "<>\"/\\") == strlen(r.host));
    check(!a.sets_cookie || (r.key && strcmp(r.key, secret) == 0));
}

static void request(const parts *p) {
    site_rules page = { .port = 8080 }, metrics = { .is_metrics = true };
    memcpy(page.secret, secret, sizeof secret);
    memcpy(metrics.secret, secret, sizeof secret);
    const site_rules open = { .is_metrics = true, .is_open = true };
    decide(p, &page);
    decide(p, &metrics);
    decide(p, &open);
}

// ---- Names --------------------------------------------------------------------------------------

// Names as a reader of memory has them.
static void copy_name(char *out, size_t size, const char *text) {
    size_t length = strnlen(text, size - 1);
    memset(out, 0, size);
    memcpy(out, text, length);
    clean_array(out, size);
}

static void fill(const parts *p, trace_table *t, live_row *row) {
    char function[TRACE_SUM_NAME], group[TRACE_SUM_IN];
    *t = (trace_table){ .peers = { .count = 1, .of = { { .rank = 0, .workers = 1 } } } };
    *row = (live_row){ .job = "job",
                       .pid = 7,
                       .life = IMAGE_RUNS,
                       .phase = "serving",
                       .waits_kind = "reply",
                       .table = t };
    copy_name(row->worker, sizeof row->worker, p->text[8][0] ? p->text[8] : "w");
    copy_name(row->waits_for, sizeof row->waits_for, p->text[9]);
    copy_name(function, sizeof function, p->text[10]);
    copy_name(group, sizeof group, p->text[11]);
    t->peers.of[0].counters[TRACE_PEER_BYTES_SENT] = 1;
    for (int k = 0; k < TRACE_SUM_KINDS; k++)
        trace_sums_add(&t->sums[k], function, k == TRACE_SUMS_COLLECTIVES ? group : "", true, 1);
}

static char *text_of(const model *m, void (*write)(const model *m, FILE *out)) {
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    check(out);
    write(m, out);
    check(fclose(out) == 0 && strlen(text) == size);
    return text;
}

static void write_page(const model *m, FILE *out) {
    page_write(m, HISTORY_BY_SECOND, out);
}

static int count_of(const char *text, char c) {
    int count = 0;
    for (; *text; text++) count += *text == c;
    return count;
}

// As many elements as |plain|, a page whose names need no escapes.
static void check_form(const char *page, const char *plain) {
    check(count_of(page, '<') == count_of(plain, '<'));
    check(count_of(page, '>') == count_of(plain, '>'));
}

static void check_metrics(char *text) {
    for (char *line = text; *line;) {
        size_t size = strcspn(line, "\n");
        check(line[size] == '\n');
        line[size] = '\0';
        const char *value = strrchr(line, ' ');
        check(strncmp(line, "# HELP gradwire_", 16) == 0 ||
              strncmp(line, "# TYPE gradwire_", 16) == 0 ||
              (strncmp(line, "gradwire_", 9) == 0 && value &&
               strspn(value + 1, "0123456789.-") == strlen(value + 1)));
        line += size + 1;
    }
}

static model *model_of(const parts *p) {
    static trace_table t;
    static live_row row;
    model *m = model_open("job");
    check(m);
    fill(p, &t, &row);
    model_update(m, &row, 1, NULL, 0, 1000, 1700000000);
    return m;
}

static void show(const parts *p) {
    parts plain = { 0 };
    for (int i = 8; i < PARTS; i++) memcpy(plain.text[i], "w", 2);
    if (!p->text[9][0]) plain.text[9][0] = '\0';
    model *m = model_of(p), *other = model_of(&plain);
    char *page = text_of(m, write_page), *plain_page = text_of(other, write_page);
    check_form(page, plain_page);
    char *metrics = text_of(m, metrics_write);
    check_metrics(metrics);
    char *json = text_of(m, job_json_write);
    json_t *value = json_loads(json, JSON_REJECT_DUPLICATES, NULL);
    check(json_is_object(value));
    json_decref(value);
    free(page);
    free(plain_page);
    free(metrics);
    free(json);
    model_close(m);
    model_close(other);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    parts p;
    split(data, size, &p);
    request(&p);
    show(&p);
    return 0;
}
