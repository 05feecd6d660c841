#include "trace_lines.h"

#include "testing/testing.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TEXT = 2048, TRACKS = 1024, NAMES = 1024 };

__attribute__((format(printf, 2, 3))) static void add(trace_lines *x, const char *format, ...) {
    va_list args;
    x->lines = realloc(x->lines, (size_t)(x->count + 1) * sizeof *x->lines);
    assert_non_null(x->lines);
    va_start(args, format);
    assert_true(vasprintf(&x->lines[x->count++], format, args) >= 0);
    va_end(args);
}

static int by_text(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static void sort(trace_lines *x) {
    if (x->count) qsort(x->lines, (size_t)x->count, sizeof *x->lines, by_text);
}

void trace_lines_free(trace_lines *x) {
    for (int i = 0; i < x->count; i++) free(x->lines[i]);
    free(x->lines);
    *x = (trace_lines){ 0 };
}

int trace_lines_count(const trace_lines *x, const char *const *parts) {
    int count = 0;
    for (int i = 0; i < x->count; i++) {
        bool has_all = true;
        for (int k = 0; parts[k]; k++) has_all &= strstr(x->lines[i], parts[k]) != NULL;
        count += has_all;
    }
    return count;
}

// ---- JSON ---------------------------------------------------------------------------------------

typedef struct json_track {
    int pid, tid;
    char name[TEXT / 4];
} json_track;

typedef struct json_reading {
    trace_lines out;
    json_track *tracks;
    int count;
} json_reading;

static const char *text_of(const json_t *e, const char *key) {
    const char *text = json_string_value(json_object_get(e, key));
    return text ? text : "";
}

static int number_of(const json_t *e, const char *key) {
    return (int)json_integer_value(json_object_get(e, key));
}

// Microseconds with three digits behind the point.
static int64_t ns_of(const json_t *e, const char *key) {
    return (int64_t)(json_number_value(json_object_get(e, key)) * 1000 + 0.5);
}

static const char *name_of_track(const json_reading *r, int pid, int tid, bool is_process) {
    for (int i = 0; i < r->count; i++)
        if (r->tracks[i].pid == pid &&
            (is_process ? r->tracks[i].tid < 0 : r->tracks[i].tid == tid))
            return r->tracks[i].name;
    return is_process ? "no process" : "";
}

static void take_metadata(json_reading *r, const json_t *e) {
    assert_true(r->count < TRACKS);
    bool is_process = strcmp(text_of(e, "name"), "process_name") == 0;
    json_track *t = &r->tracks[r->count++];
    t->pid = number_of(e, "pid");
    t->tid = is_process ? -1 : number_of(e, "tid");
    snprintf(t->name, sizeof t->name, "%s", text_of(json_object_get(e, "args"), "name"));
}

static void write_arguments(json_t *args, char *out, size_t size) {
    const char *key;
    json_t *value;
    size_t used = 0;
    out[0] = '\0';
    json_object_foreach(args, key, value) {
        if (json_is_string(value))
            used +=
                (size_t)snprintf(out + used, size - used, "%s=%s;", key, json_string_value(value));
        else
            used += (size_t)snprintf(out + used, size - used, "%s=%lld;", key,
                                     (long long)json_integer_value(value));
        assert_true(used < size);
    }
}

static void take_json_event(json_reading *r, const json_t *e) {
    char track[TEXT], arguments[TEXT];
    const char *phase = text_of(e, "ph"), *name = text_of(e, "name"), *category = text_of(e, "cat");
    bool is_of_process = strcmp(text_of(e, "s"), "p") == 0 || *phase == 'C';
    int pid = number_of(e, "pid"), tid = number_of(e, "tid");
    int64_t at = ns_of(e, "ts");
    json_t *args = json_object_get(e, "args");
    snprintf(track, sizeof track, "%s/%s", name_of_track(r, pid, tid, true),
             is_of_process ? "" : name_of_track(r, pid, tid, false));
    write_arguments(args, arguments, sizeof arguments);
    switch (*phase) {
    case 'M': take_metadata(r, e); break;
    case 'X':
        add(&r->out, "slice|%s|%s|%s|%" PRId64 "|%" PRId64 "|%s", track, name, category, at,
            at + ns_of(e, "dur"), arguments);
        break;
    case 'i':
        add(&r->out, "instant|%s|%s|%s|%" PRId64 "|%s", track, name, category, at, arguments);
        break;
    case 's': add(&r->out, "source|%s|%s|%" PRId64, track, text_of(e, "id"), at); break;
    case 'f': add(&r->out, "target|%s|%s|%" PRId64, track, text_of(e, "id"), at); break;
    case 'C':
        if (json_is_null(json_object_get(args, "value")))
            add(&r->out, "instant|%s|%s is %s||%" PRId64 "|", track, name, text_of(args, "note"),
                at);
        else
            add(&r->out, "counter|%s%s|%" PRId64 "|%.9g", track, name, at,
                json_number_value(json_object_get(args, "value")));
        break;
    default: fail_msg("there is no phase %s", phase);
    }
}

trace_lines trace_lines_of_json(const char *path) {
    json_error_t error;
    json_t *all = json_load_file(path, 0, &error), *event;
    if (!all) fail_msg("%s: line %d: %s", path, error.line, error.text);
    json_reading r = { .tracks = calloc(TRACKS, sizeof *r.tracks) };
    size_t i;
    assert_non_null(r.tracks);
    json_array_foreach(json_object_get(all, "traceEvents"), i, event) take_json_event(&r, event);
    free(r.tracks);
    json_decref(all);
    sort(&r.out);
    return r.out;
}

// ---- Protobuf -----------------------------------------------------------------------------------

typedef struct track {
    uint64_t parent;
    bool is_process, is_row;
    char name[TEXT / 4];
} track;

// A name for a number.
typedef struct interned {
    uint64_t id;
    char name[TEXT];
} interned;

// The fields of one packet.
typedef struct packet {
    int64_t at;
    uint64_t track, name_id, category, sources[64], targets[64];
    int source_count, target_count;
    double value;
    char type[32], name[TEXT], arguments[TEXT];
} packet;

typedef struct reading {
    trace_lines out;
    char path[8][64];  // of the messages that are open
    int depth;
    packet packet;
    interned in, argument;
    uint64_t uuid;
    track track;
    track tracks[TRACKS];
    char *names[NAMES], *categories[NAMES], *argument_names[NAMES];
    char *begun[TRACKS];  // by track: a slice without its end
} reading;

static bool is_in(const reading *r, const char *message) {
    return r->depth && strcmp(r->path[r->depth - 1], message) == 0;
}

// As protoc escapes it.
static void unescape(const char *from, char *out, size_t size) {
    char *end = out + size - 1;
    assert_int_equal(*from, '"');
    for (from++; *from && *from != '"' && out < end; out++) {
        int code = 0;
        if (*from != '\\') {
            *out = *from++;
        } else if (from[1] >= '0' && from[1] <= '7') {
            for (from++; *from >= '0' && *from <= '7'; from++) code = code * 8 + *from - '0';
            *out = (char)code;
        } else {
            *out = from[1] == 'n' ? '\n' : from[1] == 't' ? '\t' : from[1];
            from += 2;
        }
    }
    *out = '\0';
}

static void write_track(const reading *r, uint64_t number, char *out, size_t size) {
    assert_true(number && number < TRACKS);
    const track *t = &r->tracks[number];
    const track *p = t->is_process ? t : &r->tracks[t->parent];
    assert_true(p->is_process);
    snprintf(out, size, "%s/%s", p->name, t->is_process ? "" : t->name);
}

// Rows of one name and process have numbers in JSON.
static void keep_track(reading *r) {
    int same = 1;
    assert_true(r->uuid && r->uuid < TRACKS);
    for (uint64_t i = 1; i < r->uuid; i++)
        same += r->track.is_row && r->tracks[i].is_row && r->tracks[i].parent == r->track.parent &&
                strncmp(r->tracks[i].name, r->track.name, strlen(r->track.name)) == 0 &&
                strchr("( ", r->tracks[i].name[strlen(r->track.name)]);
    size_t size = strlen(r->track.name);
    if (same > 1) snprintf(r->track.name + size, sizeof r->track.name - size, " (%d)", same);
    r->tracks[r->uuid] = r->track;
}

static void keep_name(reading *r, const char *list) {
    char **names = strcmp(list, "event_names") == 0        ? r->names
                   : strcmp(list, "event_categories") == 0 ? r->categories
                                                           : r->argument_names;
    assert_true(r->in.id < NAMES && !names[r->in.id]);
    names[r->in.id] = strdup(r->in.name);
}

static const char *find_name(char **names, uint64_t id) {
    assert_true(id < NAMES);
    if (id && !names[id]) fail_msg("the name %" PRIu64 " is not interned yet", id);
    return id ? names[id] : "";
}

static void end_event(reading *r) {
    packet *p = &r->packet;
    char track[TEXT];
    write_track(r, p->track, track, sizeof track);
    const char *name = p->name_id ? find_name(r->names, p->name_id) : p->name;
    const char *category = find_name(r->categories, p->category);
    if (strcmp(p->type, "TYPE_SLICE_BEGIN") == 0) {
        assert_null(r->begun[p->track]);
        assert_true(asprintf(&r->begun[p->track], "slice|%s|%s|%s|%" PRId64 "|%%|%s", track, name,
                             category, p->at, p->arguments) >= 0);
    } else if (strcmp(p->type, "TYPE_SLICE_END") == 0) {
        char *begun = r->begun[p->track], *hole = begun ? strstr(begun, "|%|") : NULL;
        assert_non_null(hole);
        add(&r->out, "%.*s|%" PRId64 "%s", (int)(hole - begun), begun, p->at, hole + 2);
        free(begun);
        r->begun[p->track] = NULL;
    } else if (strcmp(p->type, "TYPE_INSTANT") == 0) {
        add(&r->out, "instant|%s|%s|%s|%" PRId64 "|%s", track, name, category, p->at, p->arguments);
    } else {
        assert_string_equal(p->type, "TYPE_COUNTER");
        add(&r->out, "counter|%s|%" PRId64 "|%.9g", track, p->at, p->value);
    }
    for (int i = 0; i < p->source_count; i++)
        add(&r->out, "source|%s|%" PRIx64 "|%" PRId64, track, p->sources[i], p->at);
    for (int i = 0; i < p->target_count; i++)
        add(&r->out, "target|%s|%" PRIx64 "|%" PRId64, track, p->targets[i], p->at);
}

static void begin_message(reading *r, const char *name) {
    assert_true(r->depth < 8);
    snprintf(r->path[r->depth++], sizeof r->path[0], "%s", name);
    if (strcmp(name, "packet") == 0) r->packet = (packet){ 0 };
    if (strcmp(name, "track_descriptor") == 0) r->track = (track){ .is_row = true };
    if (strcmp(name, "process") == 0) r->track.is_process = true;
    if (strcmp(name, "process") == 0 || strcmp(name, "thread") == 0 || strcmp(name, "counter") == 0)
        r->track.is_row = false;
}

static void end_argument(reading *r) {
    size_t used = strlen(r->packet.arguments);
    snprintf(r->packet.arguments + used, TEXT - used, "%s=%s;",
             find_name(r->argument_names, r->argument.id), r->argument.name);
}

static void end_message(reading *r) {
    assert_true(r->depth > 0);
    const char *name = r->path[--r->depth];
    if (strcmp(name, "track_event") == 0) end_event(r);
    if (strcmp(name, "track_descriptor") == 0) keep_track(r);
    if (strcmp(name, "debug_annotations") == 0) end_argument(r);
    if (strncmp(name, "event_", 6) == 0 || strcmp(name, "debug_annotation_names") == 0)
        keep_name(r, name);
}

static void take_event_field(packet *p, const char *key, const char *value) {
    uint64_t number = strtoull(value, NULL, 10);
    if (strcmp(key, "type") == 0) snprintf(p->type, sizeof p->type, "%s", value);
    if (strcmp(key, "track_uuid") == 0) p->track = number;
    if (strcmp(key, "name_iid") == 0) p->name_id = number;
    if (strcmp(key, "category_iids") == 0) p->category = number;
    if (strcmp(key, "name") == 0) unescape(value, p->name, sizeof p->name);
    if (strcmp(key, "double_counter_value") == 0) p->value = strtod(value, NULL);
    if (strcmp(key, "flow_ids") == 0) p->sources[p->source_count++] = number;
    if (strcmp(key, "terminating_flow_ids") == 0) p->targets[p->target_count++] = number;
}

static void take_descriptor_field(reading *r, const char *key, const char *value) {
    if (strcmp(key, "uuid") == 0) r->uuid = strtoull(value, NULL, 10);
    if (strcmp(key, "parent_uuid") == 0) r->track.parent = strtoull(value, NULL, 10);
    if (strstr(key, "name")) unescape(value, r->track.name, sizeof r->track.name - 16);
}

// An argument: its text is that of the number or string.
static void take_pair(interned *x, const char *key, const char *value) {
    if (strcmp(key, "iid") == 0 || strcmp(key, "name_iid") == 0)
        x->id = strtoull(value, NULL, 10);
    else if (*value == '"')
        unescape(value, x->name, sizeof x->name);
    else
        snprintf(x->name, sizeof x->name, "%s", value);
}

static void take_field(reading *r, const char *key, const char *value) {
    if (*key >= '0' && *key <= '9')
        fail_msg("there is no field %s in %s", key, r->path[r->depth - 1]);
    if (is_in(r, "packet") && strcmp(key, "timestamp") == 0)
        r->packet.at = (int64_t)strtoull(value, NULL, 10);
    if (is_in(r, "track_event")) take_event_field(&r->packet, key, value);
    if (is_in(r, "track_descriptor") || is_in(r, "process") || is_in(r, "thread"))
        take_descriptor_field(r, key, value);
    if (is_in(r, "event_names") || is_in(r, "event_categories") ||
        is_in(r, "debug_annotation_names"))
        take_pair(&r->in, key, value);
    if (is_in(r, "debug_annotations")) take_pair(&r->argument, key, value);
}

static void take_line(reading *r, char *line) {
    line += strspn(line, " ");
    line[strcspn(line, "\n")] = '\0';
    char *colon = strstr(line, ": "), *brace = strstr(line, " {");
    if (*line == '}') {
        end_message(r);
    } else if (brace && (!colon || brace < colon)) {
        *brace = '\0';
        begin_message(r, line);
    } else {
        assert_non_null(colon);
        *colon = '\0';
        take_field(r, line, colon + 2);
    }
}

trace_lines trace_lines_of_protobuf(const char *path) {
    char command[1024], *line = NULL;
    size_t size = 0;
    reading *r = calloc(1, sizeof *r);
    assert_non_null(r);
    snprintf(
        command, sizeof command,
        "exec protoc --decode=gradwire.Trace --proto_path=%s/tests/support perfetto.proto < %s",
        GW_SOURCE_DIR, path);
    FILE *in = popen(command, "r");
    assert_non_null(in);
    while (getline(&line, &size, in) > 0) take_line(r, line);
    assert_int_equal(pclose(in), 0);
    for (int i = 0; i < TRACKS; i++) assert_null(r->begun[i]);
    for (int i = 0; i < NAMES; i++) {
        free(r->names[i]);
        free(r->categories[i]);
        free(r->argument_names[i]);
    }
    trace_lines out = r->out;
    free(line);
    free(r);
    sort(&out);
    return out;
}
