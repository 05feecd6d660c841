// The functions of gradwire/trace.h, by the records that they make.
#include <gradwire/trace.h>

#include "base/mem.h"
#include "testing/testing.h"
#include "trace/kinds.h"
#include "trace/record.h"
#include "trace/region.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

// ---- The records of this thread -----------------------------------------------------------------

static const char *memory_at(uint64_t offset) {
    return (const char *)trace_region()->header + offset;
}

static const trace_thread_row *own_row(int *out_index) {
    const trace_thread_row *rows =
        (const trace_thread_row *)(const void *)memory_at(trace_threads_at());
    for (*out_index = 0; *out_index < TRACE_THREADS; ++*out_index)
        if (rows[*out_index].tid == trace_thread_id()) return &rows[*out_index];
    return NULL;
}

// How many it has made; the first one, that the thread has started, does not count.
static uint64_t count_records(void) {
    int index;
    const trace_thread_row *row = own_row(&index);
    return row ? row->head - 1 : 0;
}

// Record |i|, from 0.
static trace_event record_at(uint64_t i) {
    int index;
    uint32_t size = trace_region()->records;
    assert_true(i < count_records());
    own_row(&index);
    const trace_event *ring = trace_map(trace_rings_at() + (uint64_t)index * trace_ring_bytes(size),
                                        trace_ring_bytes(size));
    assert_non_null(ring);
    return ring[(i + 1) % size];
}

static const char *name_of(trace_event r) {
    return memory_at(trace_strings_at() + r.name);
}

static void expect(uint64_t i, trace_kind kind, const char *name) {
    trace_event r = record_at(i);
    assert_int_equal(r.kind, kind);
    assert_string_equal(name_of(r), name);
    assert_int_equal((int8_t)r.agent, -1);
}

static gw_scope *open_recording(const char *levels) {
    setenv("GW_FLIGHT", levels, 1);
    trace_open();
    assert_non_null(trace_region());
    return gw_scope_open(NULL);
}

static void close_without_error(gw_scope *s) {
    assert_int_equal(gw_scope_close(s).status, GW_OK);
}

// ---- Spans --------------------------------------------------------------------------------------

static void a_span_has_a_begin_and_an_end(void **state) {
    (void)state;
    gw_scope *s = open_recording("user");
    gw_span *outer = gw_span_open(s, "outer"), *inner = gw_span_open(s, "inner");
    gw_span_close(inner);
    gw_span_close(outer);
    assert_int_equal(count_records(), 4);
    expect(0, TRACE_SPAN_OPENED, "outer");
    expect(1, TRACE_SPAN_OPENED, "inner");
    expect(2, TRACE_SPAN_CLOSED, "inner");
    expect(3, TRACE_SPAN_CLOSED, "outer");
    assert_int_equal(record_at(0).id, record_at(3).id);
    assert_int_equal(record_at(1).id, record_at(2).id);
    assert_int_not_equal(record_at(0).id, record_at(1).id);
    close_without_error(s);
    assert_int_equal(count_records(), 4);
}

static void a_scope_closes_its_spans(void **state) {
    (void)state;
    gw_scope *s = open_recording("user"), *inner = gw_scope_open(s);
    gw_span_open(s, "of the outer scope");
    gw_span_open(inner, "of the inner scope");
    close_without_error(inner);
    assert_int_equal(count_records(), 3);
    expect(2, TRACE_SPAN_CLOSED, "of the inner scope");
    close_without_error(s);
    assert_int_equal(count_records(), 4);
    expect(3, TRACE_SPAN_CLOSED, "of the outer scope");
}

static void a_span_is_closed_once(void **state) {
    (void)state;
    gw_scope *s = open_recording("user");
    gw_span *x = gw_span_open(s, "once");
    gw_span_close(x);
    gw_span_close(x);
    assert_int_equal(count_records(), 2);
    close_without_error(s);
    assert_int_equal(count_records(), 2);
}

static void in_a_scope_that_has_failed_nothing_is_recorded(void **state) {
    (void)state;
    gw_scope *s = open_recording("user");
    gw_fail(s, GW_INVALID, "for a test");
    gw_span_close(gw_span_open(s, "span"));
    gw_mark(s, "mark");
    gw_counter(s, "counter", 1);
    assert_int_equal(count_records(), 0);
    assert_int_equal(gw_scope_close(s).status, GW_INVALID);
}

// A span whose begin was not recorded has no end without a begin: the level decides at each.
static void the_level_user_switches_them(void **state) {
    (void)state;
    gw_scope *s = open_recording("coll");
    gw_span *x = gw_span_open(s, "span");
    gw_mark(s, "mark");
    gw_counter(s, "counter", 1);
    assert_int_equal(count_records(), 0);
    atomic_store(&trace_region()->header->levels, TRACE_USER);
    gw_span_close(x);
    assert_int_equal(count_records(), 1);
    expect(0, TRACE_SPAN_CLOSED, "span");
    close_without_error(s);
}

static void without_memory_for_records_they_do_nothing(void **state) {
    (void)state;
    setenv("GW_FLIGHT", "0", 1);
    trace_open();
    gw_scope *s = gw_scope_open(NULL);
    gw_span_close(gw_span_open(s, "span"));
    gw_mark(s, "mark");
    gw_counter(s, "counter", 1);
    assert_null(trace_region());
    close_without_error(s);
}

// ---- Marks and counters -------------------------------------------------------------------------

static void marks_and_counters_are_records(void **state) {
    (void)state;
    static const double values[] = { 17, -0.5, INFINITY, NAN };
    gw_scope *s = open_recording("user");
    gw_mark(s, "epoch 3");
    expect(0, TRACE_MARK, "epoch 3");
    for (uint64_t i = 0; i < 4; i++) {
        double value;
        gw_counter(s, "queue", values[i]);
        expect(1 + i, TRACE_COUNTER, "queue");
        uint64_t bits = record_at(1 + i).value;
        memcpy(&value, &bits, sizeof value);
        assert_memory_equal(&value, &values[i], sizeof value);
    }
    gw_mark(s, NULL);
    expect(5, TRACE_MARK, "");
    close_without_error(s);
}

static void names_are_cut_at_127_bytes(void **state) {
    (void)state;
    char name[300], cut[128];
    gw_scope *s = open_recording("user");
    memset(name, 'x', sizeof name);
    name[299] = '\0';
    snprintf(cut, sizeof cut, "%.127s", name);
    gw_mark(s, name);
    gw_span_open(s, name);
    expect(0, TRACE_MARK, cut);
    expect(1, TRACE_SPAN_OPENED, cut);
    close_without_error(s);
}

GW_TESTS(trace_user, a_span_has_a_begin_and_an_end, a_scope_closes_its_spans, a_span_is_closed_once,
         in_a_scope_that_has_failed_nothing_is_recorded, the_level_user_switches_them,
         without_memory_for_records_they_do_nothing, marks_and_counters_are_records,
         names_are_cut_at_127_bytes);
