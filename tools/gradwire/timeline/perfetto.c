#include "timeline/format.h"

#include <stdlib.h>
#include <string.h>

#include "timeline/writer.h"
#include "trace/kinds.h"

// Fields, by message.
enum {
    TRACE_PACKET = 1,
    PACKET_CLOCK_SNAPSHOT = 6,
    PACKET_TIMESTAMP = 8,
    PACKET_SEQUENCE_ID = 10,
    PACKET_TRACK_EVENT = 11,
    PACKET_INTERNED_DATA = 12,
    PACKET_SEQUENCE_FLAGS = 13,
    PACKET_TRACK_DESCRIPTOR = 60,
    SNAPSHOT_CLOCK = 1,
    CLOCK_ID = 1,
    CLOCK_TIMESTAMP = 2,
    TRACK_UUID = 1,
    TRACK_NAME = 2,
    TRACK_PROCESS = 3,
    TRACK_THREAD = 4,
    TRACK_PARENT = 5,
    TRACK_COUNTER = 8,
    PROCESS_PID = 1,
    PROCESS_NAME = 6,
    THREAD_PID = 1,
    THREAD_TID = 2,
    THREAD_NAME = 5,
    INTERNED_CATEGORIES = 1,
    INTERNED_NAMES = 2,
    INTERNED_ANNOTATION_NAMES = 3,
    INTERNED_ID = 1,
    INTERNED_TEXT = 2,
    EVENT_CATEGORY = 3,
    EVENT_ANNOTATION = 4,
    EVENT_TYPE = 9,
    EVENT_NAME_ID = 10,
    EVENT_TRACK = 11,
    EVENT_NAME = 23,
    EVENT_DOUBLE = 44,
    EVENT_FLOW = 47,
    EVENT_LAST_FLOW = 48,
    ANNOTATION_NAME = 1,
    ANNOTATION_NUMBER = 3,
    ANNOTATION_TEXT = 6,
};

enum { SLICE_BEGIN = 1, SLICE_END = 2, INSTANT = 3, COUNTER = 4 };    // TrackEvent.Type
enum { INCREMENTAL_STATE_CLEARED = 1, NEEDS_INCREMENTAL_STATE = 2 };  // SequenceFlags
enum { CLOCK_OF_WALL = 1, CLOCK_OF_BOOT = 6 };                        // BuiltinClock
enum { VARINT = 0, FIXED64 = 1, DELIMITED = 2 };                      // wire types
enum { SEQUENCE = 1 };

// What a counter needs to note a number that cannot be drawn.
typedef struct counter_track {
    uint32_t track, parent;
    char *name;
} counter_track;

typedef struct perfetto {
    writer out;
    counter_track *counters;
    int counter_count;
} perfetto;

// ---- Bytes --------------------------------------------------------------------------------------

static size_t encode_varint(uint64_t x, uint8_t *out) {
    size_t size = 0;
    for (; x >= 0x80; x >>= 7) out[size++] = (uint8_t)(x | 0x80);
    out[size++] = (uint8_t)x;
    return size;
}

static void put_varint(perfetto *p, uint64_t x) {
    uint8_t encoded[10];
    writer_put(&p->out, encoded, encode_varint(x, encoded));
}

static void put_tag(perfetto *p, int field, int type) {
    put_varint(p, (uint64_t)field << 3 | (uint64_t)type);
}

static void put_number(perfetto *p, int field, uint64_t x) {
    put_tag(p, field, VARINT);
    put_varint(p, x);
}

// fixed64, double
static void put_fixed(perfetto *p, int field, uint64_t x) {
    uint8_t bytes[8];
    for (int i = 0; i < 8; i++) bytes[i] = (uint8_t)(x >> 8 * i);
    put_tag(p, field, FIXED64);
    writer_put(&p->out, bytes, sizeof bytes);
}

static void put_text(perfetto *p, int field, const char *text) {
    size_t size = strlen(text);
    put_tag(p, field, DELIMITED);
    put_varint(p, size);
    writer_put(&p->out, text, size);
}

// A message: its size gets one byte, and more at its end if it needs them.
static size_t begin_message(perfetto *p, int field) {
    put_tag(p, field, DELIMITED);
    writer_extend(&p->out, 1);
    return p->out.size;
}

static void end_message(perfetto *p, size_t start) {
    uint8_t encoded[10];
    if (p->out.failed) return;
    size_t size = p->out.size - start, bytes = encode_varint(size, encoded);
    if (bytes > 1) {
        if (!writer_extend(&p->out, bytes - 1)) return;
        memmove(p->out.data + start + bytes - 1, p->out.data + start, size);
    }
    memcpy(p->out.data + start - 1, encoded, bytes);
}

// ---- Packets ------------------------------------------------------------------------------------

static size_t begin_packet(perfetto *p) {
    writer_flush(&p->out);
    size_t packet = begin_message(p, TRACE_PACKET);
    put_number(p, PACKET_SEQUENCE_ID, SEQUENCE);
    return packet;
}

static void put_interned(perfetto *p, int field, uint64_t number, const char *text) {
    size_t x = begin_message(p, field);
    put_number(p, INTERNED_ID, number);
    put_text(p, INTERNED_TEXT, text);
    end_message(p, x);
}

static void put_clock(perfetto *p, int clock, int64_t at_ns) {
    size_t x = begin_message(p, SNAPSHOT_CLOCK);
    put_number(p, CLOCK_ID, (uint64_t)clock);
    put_number(p, CLOCK_TIMESTAMP, (uint64_t)(at_ns < 0 ? 0 : at_ns));
    end_message(p, x);
}

static uint64_t category_of(uint8_t kind) {
    return (uint64_t)kind + 1;
}

// The names of categories and arguments.
static void put_fixed_names(perfetto *p) {
    size_t packet = begin_packet(p);
    put_number(p, PACKET_SEQUENCE_FLAGS, INCREMENTAL_STATE_CLEARED);
    size_t x = begin_message(p, PACKET_INTERNED_DATA);
    for (uint8_t kind = 0; kind < TRACE_KIND_COUNT; kind++)
        put_interned(p, INTERNED_CATEGORIES, category_of(kind),
                     kind ? trace_kinds[kind].text : "records");
    for (int i = 0; i < VISIT_ARGUMENT_NAMES; i++)
        put_interned(p, INTERNED_ANNOTATION_NAMES, (uint64_t)i + 1,
                     visit_argument_text((visit_argument_name)i));
    end_message(p, x);
    end_message(p, packet);
}

static void start(void *state, int64_t at_ns, int64_t wall_ns) {
    perfetto *p = state;
    put_fixed_names(p);
    size_t packet = begin_packet(p), x = begin_message(p, PACKET_CLOCK_SNAPSHOT);
    put_clock(p, CLOCK_OF_BOOT, at_ns);
    put_clock(p, CLOCK_OF_WALL, wall_ns);
    end_message(p, x);
    end_message(p, packet);
}

static void add_name(void *state, uint32_t number, const char *text) {
    perfetto *p = state;
    size_t packet = begin_packet(p);
    put_number(p, PACKET_SEQUENCE_FLAGS, NEEDS_INCREMENTAL_STATE);
    size_t x = begin_message(p, PACKET_INTERNED_DATA);
    put_interned(p, INTERNED_NAMES, number, text);
    end_message(p, x);
    end_message(p, packet);
}

// ---- Tracks -------------------------------------------------------------------------------------

static void keep_counter(perfetto *p, const visit_track *t) {
    counter_track *larger = realloc(p->counters, (size_t)(p->counter_count + 1) * sizeof *larger);
    char *name = strdup(t->name);
    if (larger) p->counters = larger;
    if (larger && name)
        p->counters[p->counter_count++] = (counter_track){ t->number, t->parent, name };
    else
        free(name);
}

static void put_process_or_thread(perfetto *p, const visit_track *t) {
    bool is_process = t->kind == VISIT_PROCESS;
    size_t x = begin_message(p, is_process ? TRACK_PROCESS : TRACK_THREAD);
    put_number(p, is_process ? PROCESS_PID : THREAD_PID, (uint64_t)t->pid);
    if (!is_process) put_number(p, THREAD_TID, (uint64_t)t->tid);
    put_text(p, is_process ? PROCESS_NAME : THREAD_NAME, t->name);
    end_message(p, x);
}

static void add_track(void *state, const visit_track *t) {
    perfetto *p = state;
    size_t packet = begin_packet(p), x = begin_message(p, PACKET_TRACK_DESCRIPTOR);
    put_number(p, TRACK_UUID, t->number);
    if (t->parent) put_number(p, TRACK_PARENT, t->parent);
    if (t->kind == VISIT_PROCESS || t->kind == VISIT_THREAD)
        put_process_or_thread(p, t);
    else
        put_text(p, TRACK_NAME, t->name);
    if (t->kind == VISIT_COUNTER) end_message(p, begin_message(p, TRACK_COUNTER));
    end_message(p, x);
    end_message(p, packet);
    if (t->kind == VISIT_COUNTER) keep_counter(p, t);
}

// ---- Events -------------------------------------------------------------------------------------

// Begins a packet with an event.
typedef struct open_event {
    size_t packet, event;
} open_event;

static open_event begin_event(perfetto *p, int type, uint32_t track, int64_t at_ns,
                              bool has_names) {
    open_event out = { .packet = begin_packet(p) };
    put_number(p, PACKET_TIMESTAMP, (uint64_t)at_ns);
    if (has_names) put_number(p, PACKET_SEQUENCE_FLAGS, NEEDS_INCREMENTAL_STATE);
    out.event = begin_message(p, PACKET_TRACK_EVENT);
    put_number(p, EVENT_TYPE, (uint64_t)type);
    put_number(p, EVENT_TRACK, track);
    return out;
}

static void end_event(perfetto *p, open_event x) {
    end_message(p, x.event);
    end_message(p, x.packet);
}

static void put_argument(perfetto *p, const visit_argument *a) {
    size_t x = begin_message(p, EVENT_ANNOTATION);
    put_number(p, ANNOTATION_NAME, (uint64_t)a->name + 1);
    if (a->text)
        put_text(p, ANNOTATION_TEXT, a->text);
    else
        put_number(p, ANNOTATION_NUMBER, a->number);
    end_message(p, x);
}

static void put_flows(perfetto *p, const visit_event *e, bool is_at_end) {
    for (int i = 0; i < e->flow_count; i++)
        if (e->flows[i].is_at_end == is_at_end)
            put_fixed(p, e->flows[i].is_target ? EVENT_LAST_FLOW : EVENT_FLOW, e->flows[i].id);
}

static void put_named(perfetto *p, const visit_event *e, int type) {
    open_event x = begin_event(p, type, e->track, e->begin_ns, true);
    put_number(p, EVENT_NAME_ID, e->name);
    put_number(p, EVENT_CATEGORY, category_of(e->kind));
    for (int i = 0; i < e->argument_count; i++) put_argument(p, &e->arguments[i]);
    put_flows(p, e, false);
    end_event(p, x);
}

static void add_slice(void *state, const visit_event *e) {
    perfetto *p = state;
    put_named(p, e, SLICE_BEGIN);
    open_event x = begin_event(p, SLICE_END, e->track, e->end_ns, false);
    put_flows(p, e, true);
    end_event(p, x);
}

static void add_instant(void *state, const visit_event *e) {
    put_named(state, e, INSTANT);
}

// "queue is nan", on the track of the process.
static void note_counter(perfetto *p, uint32_t track, int64_t at_ns, const char *note) {
    for (int i = 0; i < p->counter_count; i++) {
        if (p->counters[i].track != track) continue;
        char text[256];
        snprintf(text, sizeof text, "%.200s is %s", p->counters[i].name, note);
        open_event x = begin_event(p, INSTANT, p->counters[i].parent, at_ns, false);
        put_text(p, EVENT_NAME, text);
        end_event(p, x);
    }
}

static void add_counter(void *state, uint32_t track, int64_t at_ns, double value,
                        const char *note) {
    perfetto *p = state;
    uint64_t bits;
    if (note) {
        note_counter(p, track, at_ns, note);
        return;
    }
    memcpy(&bits, &value, sizeof bits);
    open_event x = begin_event(p, COUNTER, track, at_ns, false);
    put_fixed(p, EVENT_DOUBLE, bits);
    end_event(p, x);
}

// ---- All ----------------------------------------------------------------------------------------

static void fini(void *state) {
    perfetto *p = state;
    for (int i = 0; i < p->counter_count; i++) free(p->counters[i].name);
    free(p->counters);
}

static bool close_perfetto(void *state) {
    return format_close(state, fini);
}

static const format perfetto_format = { .to = { .start = start,
                                                .name = add_name,
                                                .track = add_track,
                                                .slice = add_slice,
                                                .instant = add_instant,
                                                .counter = add_counter },
                                        .close = close_perfetto };

bool perfetto_open(FILE *to, format *out) {
    return format_open(&perfetto_format, sizeof(perfetto), to, out);
}
