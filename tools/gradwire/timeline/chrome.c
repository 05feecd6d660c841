#include "timeline/format.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "timeline/writer.h"
#include "trace/kinds.h"

// A track. The name of a counter, in JSON; else NULL.
typedef struct place {
    int pid, tid;
    bool is_process;
    char *name;
} place;

typedef struct chrome {
    writer out;
    bool has_events;
    char **names;   // by number, from 1, in JSON
    place *places;  // by the number of the track, from 1
    uint32_t name_count, place_count;
} chrome;

// ---- Bytes --------------------------------------------------------------------------------------

static void put(chrome *c, const char *text) {
    writer_put_text(&c->out, text);
}

static void put_raw(chrome *c, const char *data, size_t size) {
    writer_put(&c->out, data, size);
}

static void put_number(chrome *c, uint64_t x) {
    char digits[20];
    size_t at = sizeof digits;
    do digits[--at] = (char)('0' + x % 10);
    while (x /= 10);
    put_raw(c, digits + at, sizeof digits - at);
}

// Microseconds, as the format has them.
static void put_time(chrome *c, uint64_t ns) {
    char rest[] = { '.', (char)('0' + ns / 100 % 10), (char)('0' + ns / 10 % 10),
                    (char)('0' + ns % 10) };
    put_number(c, ns / 1000);
    put_raw(c, rest, sizeof rest);
}

// A string of JSON. '<' is written as a number too, for pages that have the text in a script.
static void put_text(chrome *c, const char *text) {
    put(c, "\"");
    for (const char *at = text; *at; at++) {
        unsigned char x = (unsigned char)*at;
        char code[8];
        if (x == '"' || x == '\\') {
            put_raw(c, (char[]){ '\\', *at }, 2);
        } else if (x < 0x20 || x == 0x7f || x == '<') {
            snprintf(code, sizeof code, "\\u%04x", x);
            put(c, code);
        } else {
            put_raw(c, at, 1);
        }
    }
    put(c, "\"");
}

// ---- Events -------------------------------------------------------------------------------------

static void begin_event(chrome *c, const char *phase, const place *at) {
    writer_flush(&c->out);
    put(c, c->has_events ? ",\n{\"ph\":\"" : "\n{\"ph\":\"");
    c->has_events = true;
    put(c, phase);
    put(c, "\",\"pid\":");
    put_number(c, (uint64_t)at->pid);
    put(c, ",\"tid\":");
    put_number(c, (uint64_t)at->tid);
}

static void put_at(chrome *c, int64_t at_ns) {
    put(c, ",\"ts\":");
    put_time(c, (uint64_t)at_ns);
}

static const char *category_of(uint8_t kind) {
    return kind ? trace_kinds[kind].text : "records";
}

static void put_arguments(chrome *c, const visit_event *e) {
    put(c, ",\"args\":{");
    for (int i = 0; i < e->argument_count; i++) {
        const visit_argument *a = &e->arguments[i];
        if (i) put(c, ",");
        put_text(c, visit_argument_text(a->name));
        put(c, ":");
        if (a->text)
            put_text(c, a->text);
        else
            put_number(c, a->number);
    }
    put(c, "}");
}

static void put_named(chrome *c, const visit_event *e, const char *phase) {
    const place *at = &c->places[e->track - 1];
    begin_event(c, phase, at);
    put_at(c, e->begin_ns);
    put(c, ",\"name\":");
    put(c, c->names[e->name - 1]);
    put(c, ",\"cat\":\"");
    put(c, category_of(e->kind));
    put(c, "\"");
    if (e->argument_count) put_arguments(c, e);
}

static void put_flow(chrome *c, const visit_event *e, const visit_flow *f) {
    char id[24];
    begin_event(c, f->is_target ? "f" : "s", &c->places[e->track - 1]);
    put_at(c, f->is_at_end ? e->end_ns : e->begin_ns);
    if (f->is_target) put(c, ",\"bp\":\"e\"");
    snprintf(id, sizeof id, "\"%" PRIx64 "\"", f->id);
    put(c, ",\"id\":");
    put(c, id);
    put(c, ",\"name\":\"");
    put(c, category_of(e->kind == TRACE_BODY_BEGUN   ? TRACE_CALL_MADE
                       : e->kind == TRACE_PART_BEGUN ? TRACE_PASS_BEGUN
                                                     : e->kind));
    put(c, "\",\"cat\":\"flow\"}");
}

static bool is_usable(const chrome *c, const visit_event *e) {
    return !c->out.failed && e->track && e->track <= c->place_count && e->name &&
           e->name <= c->name_count;
}

static void add_slice(void *state, const visit_event *e) {
    chrome *c = state;
    if (!is_usable(c, e)) return;
    put_named(c, e, "X");
    put(c, ",\"dur\":");
    put_time(c, (uint64_t)(e->end_ns - e->begin_ns));
    put(c, "}");
    for (int i = 0; i < e->flow_count; i++) put_flow(c, e, &e->flows[i]);
}

static void add_instant(void *state, const visit_event *e) {
    chrome *c = state;
    if (!is_usable(c, e)) return;
    put_named(c, e, "i");
    put(c, c->places[e->track - 1].is_process ? ",\"s\":\"p\"}" : ",\"s\":\"t\"}");
}

static void add_counter(void *state, uint32_t track, int64_t at_ns, double value,
                        const char *note) {
    chrome *c = state;
    char number[32];
    if (c->out.failed || !track || track > c->place_count) return;
    begin_event(c, "C", &c->places[track - 1]);
    put_at(c, at_ns);
    put(c, ",\"name\":");
    put(c, c->places[track - 1].name);
    snprintf(number, sizeof number, "%.17g", value);
    put(c, ",\"args\":{\"value\":");
    put(c, note ? "null,\"note\":\"" : number);
    put(c, note ? note : "");
    put(c, note ? "\"}}" : "}}");
}

// ---- Names and tracks ---------------------------------------------------------------------------

static void start(void *state, int64_t at_ns, int64_t wall_ns) {
    chrome *c = state;
    put(c, "{\"displayTimeUnit\":\"ns\",\"otherData\":{\"clock_ns\":");
    put_number(c, (uint64_t)at_ns);
    put(c, ",\"utc_ns\":");
    put_number(c, (uint64_t)(wall_ns < 0 ? 0 : wall_ns));
    put(c, "},\"traceEvents\":[");
}

// The text in JSON; to be freed.
static char *encode(chrome *c, const char *text) {
    chrome other = { 0 };
    put_text(&other, text);
    put_raw(&other, "", 1);
    if (other.out.failed) writer_fail(&c->out, ENOMEM);
    return (char *)other.out.data;
}

// Room for one more at powers of two.
static void *grow(chrome *c, void *array, uint32_t count, size_t size) {
    if (count & (count - 1)) return array;
    void *larger = realloc(array, (count ? 2 * (size_t)count : 1) * size);
    if (!larger) writer_fail(&c->out, ENOMEM);
    return larger ? larger : array;
}

static void add_name(void *state, uint32_t number, const char *text) {
    chrome *c = state;
    (void)number;
    c->names = grow(c, c->names, c->name_count, sizeof *c->names);
    if (!c->out.failed) c->names[c->name_count++] = encode(c, text);
}

static void put_metadata(chrome *c, const place *at, const char *what, const visit_track *t) {
    char row[16] = "", text[1024];
    if (t->row) snprintf(row, sizeof row, " (%d)", t->row + 1);
    snprintf(text, sizeof text, "%.900s%s", t->name, row);
    begin_event(c, "M", at);
    put(c, ",\"name\":\"");
    put(c, what);
    put(c, "\",\"args\":{\"name\":");
    put_text(c, text);
    put(c, "}}");
}

static void add_track(void *state, const visit_track *t) {
    chrome *c = state;
    bool is_process = t->kind == VISIT_PROCESS, is_counter = t->kind == VISIT_COUNTER;
    c->places = grow(c, c->places, c->place_count, sizeof *c->places);
    if (c->out.failed) return;
    place *x = &c->places[c->place_count++];
    *x = (place){ .pid = t->pid,
                  .tid = is_process || is_counter ? t->pid : t->tid,
                  .is_process = is_process };
    if (is_counter)
        x->name = encode(c, t->name);
    else
        put_metadata(c, x, is_process ? "process_name" : "thread_name", t);
}

// ---- All ----------------------------------------------------------------------------------------

static void fini(void *state) {
    chrome *c = state;
    for (uint32_t i = 0; i < c->name_count; i++) free(c->names[i]);
    for (uint32_t i = 0; i < c->place_count; i++) free(c->places[i].name);
    free(c->names);
    free(c->places);
}

static bool close_chrome(void *state) {
    put(state, "\n]}\n");
    return format_close(state, fini);
}

static const format chrome_format = { .to = { .start = start,
                                              .name = add_name,
                                              .track = add_track,
                                              .slice = add_slice,
                                              .instant = add_instant,
                                              .counter = add_counter },
                                      .close = close_chrome };

bool chrome_open(FILE *to, format *out) {
    return format_open(&chrome_format, sizeof(chrome), to, out);
}
