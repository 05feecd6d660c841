// gradwire trace on images made by hand: both formats, pairs, flows, rows, clocks, the report.
#include "testing/testing.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../support/images.h"
#include "../support/launched.h"
#include "../support/trace_lines.h"
#include "timeline/format.h"
#include "timeline/histogram.h"
#include "timeline/prepare.h"
#include "timeline/report.h"
#include "timeline/table.h"
#include "timeline/timeline.h"
#include "trace/kinds.h"

// ---- Images -------------------------------------------------------------------------------------

// A record of the first thread.
static void add(images *x, int rank, int kind, int64_t at_ns, uint64_t id, uint64_t value,
                const char *name) {
    images_record(x, rank, kind, at_ns, name);
    image_thread *t = &x->of[rank].threads[0];
    image_record *r = &t->records[t->record_count - 1];
    r->id = id;
    r->value = value;
    if (!*name) r->name = 0;
}

static void add_number(images *x, int rank, int64_t at_ns, const char *name, double value) {
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    add(x, rank, TRACE_COUNTER, at_ns, 0, bits, name);
}

static uint64_t collective(uint32_t number) {
    return trace_collective_id(7, 1, number);
}

// A call of rank 0 to rank 1.
static void add_call(images *x, uint64_t number, int64_t at_ns) {
    uint64_t id = trace_call_id(0, number);
    add(x, 0, TRACE_CALL_MADE, at_ns, id, 1, "f");
    add(x, 1, TRACE_BODY_BEGUN, at_ns + 10, id, 0, "f");
    add(x, 1, TRACE_BODY_ENDED, at_ns + 20, id, 0, "f");
    add(x, 0, TRACE_CALL_ENDED, at_ns + 30, id, 0, "f");
}

static void add_collective(images *x, int rank, uint32_t number, int64_t from_ns, int64_t to_ns) {
    add(x, rank, TRACE_COLLECTIVE_ENTERED, from_ns, collective(number), 4096, "all_reduce");
    if (to_ns) add(x, rank, TRACE_COLLECTIVE_ENDED, to_ns, collective(number), 0, "world");
}

// ---- Both formats -------------------------------------------------------------------------------

static void write_one(const images *x, const clocks *c, bool json, const char *path) {
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    format out;
    assert_true(json ? chrome_open(f, &out) : perfetto_open(f, &out));
    assert_true(timeline_visit(x->of, x->count, c, &out.to));
    assert_true(out.close(out.to.state));
    assert_int_equal(fclose(f), 0);
}

static void assert_same(const trace_lines *a, const trace_lines *b) {
    for (int i = 0; i < a->count && i < b->count; i++)
        assert_string_equal(a->lines[i], b->lines[i]);
    assert_int_equal(a->count, b->count);
}

// Slices of a track are one after the other, or one within the other.
static void assert_nested(const trace_lines *x) {
    for (int i = 0; i < x->count; i++) {
        for (int k = i + 1; k < x->count; k++) {
            char track[2][512];
            long long from[2], to[2];
            if (sscanf(x->lines[i], "slice|%511[^|]|%*[^|]|%*[^|]|%lld|%lld|", track[0], &from[0],
                       &to[0]) != 3 ||
                sscanf(x->lines[k], "slice|%511[^|]|%*[^|]|%*[^|]|%lld|%lld|", track[1], &from[1],
                       &to[1]) != 3 ||
                strcmp(track[0], track[1]) != 0)
                continue;
            bool is_apart = to[0] <= from[1] || to[1] <= from[0];
            bool is_inside =
                (from[0] <= from[1] && to[1] <= to[0]) || (from[1] <= from[0] && to[0] <= to[1]);
            if (!is_apart && !is_inside) fail_msg("%s and %s overlap", x->lines[i], x->lines[k]);
        }
    }
}

// The lines of the trace, which both formats have, and whose slices nest. The images are changed.
static trace_lines lines_of(images *x) {
    path folder = make_folder(), json = in_folder(folder, "t.json"),
         protobuf = in_folder(folder, "t.pftrace");
    clocks c;
    assert_true(prepare_images(x->of, x->count, 0, &c));
    write_one(x, &c, true, json.text);
    write_one(x, &c, false, protobuf.text);
    clocks_fini(&c);
    trace_lines out = trace_lines_of_json(json.text);
    for (int i = 0; i < out.count; i++) testing_note("%s", out.lines[i]);
    assert_nested(&out);
    if (has_program("protoc")) {
        trace_lines other = trace_lines_of_protobuf(protobuf.text);
        assert_same(&out, &other);
        trace_lines_free(&other);
    }
    images_close(x);
    remove_folder(folder);
    return out;
}

#define EXPECT(x, count, ...) assert_int_equal(COUNT(x, __VA_ARGS__), count)
#define PROCESS_0 "|worker0, host a, attempt 0/"
#define PROCESS_1 "|worker1, host a, attempt 0/"

static void protoc_is_installed(void **state) {
    (void)state;
    if (!has_program("protoc"))
        testing_skip(
            "protoc is not installed (scripts/setup test): traces of Perfetto are not read back");
}

static void operators_fetches_and_messages_have_arguments(void **state) {
    (void)state;
    images x;
    images_open(&x, 1);
    add(&x, 0, TRACE_MODULE_BEGUN, 100, 1, 0, "linear");
    add(&x, 0, TRACE_OP_BEGUN, 200, 2, 0, "matmul");
    add(&x, 0, TRACE_OP_ENDED, 300, 2, trace_op_value(3, 4096), "matmul");
    add(&x, 0, TRACE_MODULE_ENDED, 400, 1, 0, "linear");
    add(&x, 0, TRACE_FETCH_BEGUN, 500, 3, 7, "");
    add(&x, 0, TRACE_FETCH_ENDED, 600, 3, 11, "");
    add(&x, 0, TRACE_MESSAGE_SENT, 700, trace_message_id(5, 32), 100, "shm");
    add(&x, 0, TRACE_REFERENCE_FORKED, 800, 9, 4, "");
    add(&x, 0, TRACE_RECONNECTING, 900, 0, 2, "worker2");
    add(&x, 0, TRACE_RESENT, 1000, 2, 3, "worker2");
    add(&x, 0, TRACE_QUEUE_FULL, 1100, 4, 2, "");
    trace_lines t = lines_of(&x);
    EXPECT(&t, 1, "slice" PROCESS_0, "|linear|module|");
    EXPECT(&t, 1, "slice" PROCESS_0, "|matmul|operator|", "bytes=4096;device=3;");
    EXPECT(&t, 1, "slice" PROCESS_0, "|fetch|fetch|", "rank=7;", "status=");
    EXPECT(&t, 1, "instant" PROCESS_0, "message sent: shm", "rank=5;", "bytes=100;");
    EXPECT(&t, 1, "instant" PROCESS_0, "reference forked", "rank=4;");
    EXPECT(&t, 1, "instant" PROCESS_0, "connection lost: worker2", "rank=2;");
    EXPECT(&t, 1, "instant" PROCESS_0, "messages resent: worker2", "count=3;");
    EXPECT(&t, 1, "slice" PROCESS_0, "|full queue|full queue|", "rank=2;", "end=missing");
    trace_lines_free(&t);
}

static void begin_and_end_are_one_slice(void **state) {
    (void)state;
    images x;
    images_open(&x, 1);
    add(&x, 0, TRACE_SPAN_OPENED, 100, 1, 0, "outer");
    add(&x, 0, TRACE_SPAN_OPENED, 200, 2, 0, "inner");
    add(&x, 0, TRACE_MARK, 250, 0, 0, "here");
    add(&x, 0, TRACE_SPAN_CLOSED, 300, 2, 0, "inner");
    add(&x, 0, TRACE_STEP_BEGUN, 300, 9, 0, "");
    add(&x, 0, TRACE_STEP_ENDED, 1234567890123, 9, 11, "");
    add(&x, 0, TRACE_SPAN_CLOSED, 1234567890124, 1, 0, "outer");
    trace_lines t = lines_of(&x);
    EXPECT(&t, 1, "slice" PROCESS_0 "main|outer|span|100|1234567890124|");
    EXPECT(&t, 1, "slice" PROCESS_0 "main|inner|span|200|300|");
    EXPECT(&t, 1, "instant" PROCESS_0 "main|here|mark|250|");
    EXPECT(&t, 1, "slice" PROCESS_0 "main|optimizer step|optimizer step|300|1234567890123|status=");
    assert_int_equal(t.count, 4);
    trace_lines_free(&t);
}

static void each_kind_of_a_begin_is_before_its_end(void **state) {
    (void)state;
    for (int kind = 1; kind < TRACE_KIND_COUNT; kind++) {
        if (trace_kinds[kind].phase == TRACE_END)
            assert_int_equal(trace_kinds[kind - 1].phase, TRACE_BEGIN);
        if (trace_kinds[kind].phase == TRACE_BEGIN)
            assert_int_equal(trace_kinds[kind + 1].phase, TRACE_END);
    }
}

static void every_kind_has_an_event(void **state) {
    (void)state;
    images x;
    images_open(&x, 1);
    int events = 0;
    for (int kind = 1; kind < TRACE_KIND_COUNT; kind++) {
        add(&x, 0, kind, 1000 + kind, trace_kinds[kind].phase == TRACE_INSTANT ? 0 : 5, 0, "name");
        events += trace_kinds[kind].phase != TRACE_END;
    }
    trace_lines t = lines_of(&x);
    int found = 0;
    for (int i = 0; i < t.count; i++)
        found += strncmp(t.lines[i], "source", 6) != 0 && strncmp(t.lines[i], "target", 6) != 0;
    assert_int_equal(found, events);
    trace_lines_free(&t);
}

static void a_missing_end_is_the_last_record_and_marked(void **state) {
    (void)state;
    images x;
    images_open(&x, 2);
    add(&x, 0, TRACE_SPAN_OPENED, 100, 1, 0, "open");
    add(&x, 0, TRACE_MARK, 700, 0, 0, "last");
    add(&x, 1, TRACE_MARK, 900, 0, 0, "of another worker");
    trace_lines t = lines_of(&x);
    EXPECT(&t, 1, "slice" PROCESS_0 "main|open|span|100|700|end=missing: after the last record;");
    trace_lines_free(&t);
}

static void a_missing_begin_is_the_first_record_and_marked(void **state) {
    (void)state;
    images x;
    images_open(&x, 1);
    x.of[0].threads[0].lost = 12;
    add(&x, 0, TRACE_MARK, 100, 0, 0, "first");
    add(&x, 0, TRACE_STEP_BEGUN, 150, 8, 0, "");
    add(&x, 0, TRACE_SPAN_CLOSED, 200, 2, 0, "inner");
    add(&x, 0, TRACE_SPAN_CLOSED, 300, 1, 0, "outer");
    add(&x, 0, TRACE_STEP_ENDED, 400, 8, 0, "");
    add(&x, 0, TRACE_COLLECTIVE_ENDED, 500, collective(3), 0, "world");
    trace_lines t = lines_of(&x);
    EXPECT(&t, 1, "main|outer|span|100|300|begin=missing: before the first record kept;");
    EXPECT(&t, 1, "main|inner|span|100|200|begin=missing: before the first record kept;");
    EXPECT(&t, 1,
           "collectives of world|collective|collective|100|500|number=3;group=world;begin=missing");
    // It began within "outer" and ends after it.
    EXPECT(&t, 1, "main, overlapping|optimizer step|optimizer step|150|400|");
    EXPECT(&t, 1, "main|older records are lost|records|100|count=12;");
    trace_lines_free(&t);
}

// Between 400 and 600 records were overwritten.
static void what_is_missing_in_a_gap_is_there_and_marked(void **state) {
    (void)state;
    images x;
    images_open(&x, 1);
    add(&x, 0, TRACE_MARK, 100, 0, 0, "first");
    add(&x, 0, TRACE_SPAN_OPENED, 200, 1, 0, "ends in the gap");
    add(&x, 0, TRACE_CALL_MADE, 300, trace_call_id(0, 1), 1, "f");
    add(&x, 0, TRACE_STEP_BEGUN, 400, 7, 0, "");
    add(&x, 0, TRACE_OVERTAKEN, 600, 0, 1234, "");
    add(&x, 0, TRACE_STEP_ENDED, 700, 7, 0, "");
    add(&x, 0, TRACE_SPAN_CLOSED, 800, 2, 0, "begins in the gap");
    add(&x, 0, TRACE_SPAN_OPENED, 900, 3, 0, "still open");
    add(&x, 0, TRACE_MARK, 1000, 0, 0, "last");
    trace_lines t = lines_of(&x);
    EXPECT(&t, 1, "main|ends in the gap|span|200|600|end=missing: overwritten;");
    EXPECT(&t, 1, "calls to rank 1|f|call|300|600|end=missing: overwritten;");
    EXPECT(&t, 1, "|optimizer step|optimizer step|400|700|");
    EXPECT(&t, 1, "|begins in the gap|span|600|800|begin=missing: overwritten;");
    EXPECT(&t, 1, "main|still open|span|900|1000|end=missing: after the last record;");
    EXPECT(&t, 1, "instant", "main|records were overwritten before they were read|",
           "|600|count=1234;");
    trace_lines_free(&t);
}

static void of_several_begins_of_an_id_the_last_is_ended_first(void **state) {
    (void)state;
    images x;
    images_open(&x, 1);
    add(&x, 0, TRACE_PASS_BEGUN, 100, 4, 0, "");
    add(&x, 0, TRACE_PASS_BEGUN, 200, 4, 0, "");
    add(&x, 0, TRACE_PASS_ENDED, 300, 4, 0, "");
    add(&x, 0, TRACE_PASS_ENDED, 400, 4, 0, "");
    add(&x, 0, TRACE_PASS_BEGUN, 500, 4, 0, "");
    add(&x, 0, TRACE_PASS_ENDED, 600, 4, 0, "");
    trace_lines t = lines_of(&x);
    EXPECT(&t, 1, "backward passes|backward|backward|100|400|");
    EXPECT(&t, 1, "backward passes (2)|backward|backward|200|300|");
    EXPECT(&t, 1, "backward passes|backward|backward|500|600|");
    trace_lines_free(&t);
}

// Begins and ends of few ids, in any order.
static void any_records_give_slices_that_nest(void **state) {
    (void)state;
    for (unsigned seed = 0; seed < (unsigned)testing_scaled(10); seed++) {
        images x;
        int64_t at = 0;
        unsigned seed_of_rand = seed;
        testing_note("seed %u", seed);
        images_open(&x, 2);
        if (seed % 2) snprintf(x.of[1].host, sizeof x.of[1].host, "b");
        for (int i = 0; i < 150; i++) {
            int kind = 1 + rand_r(&seed_of_rand) % (TRACE_KIND_COUNT - 1);
            at += rand_r(&seed_of_rand) % 5;
            add(&x, rand_r(&seed_of_rand) % 2, kind, at, (uint64_t)rand_r(&seed_of_rand) % 4,
                (uint64_t)rand_r(&seed_of_rand) % 3, i % 3 ? "x" : "");
        }
        trace_lines t = lines_of(&x);
        assert_true(t.count > 0);
        trace_lines_free(&t);
    }
}

// ---- Flows --------------------------------------------------------------------------------------

// The id of the flow in the line of |kind| at |at|; it must be the only one.
static unsigned long long flow_at(const trace_lines *t, const char *kind, int at) {
    unsigned long long found = 0;
    int count = 0;
    for (int i = 0; i < t->count; i++) {
        char track[512];
        unsigned long long id;
        int time;
        if (strncmp(t->lines[i], kind, strlen(kind)) != 0) continue;
        if (sscanf(t->lines[i] + strlen(kind), "|%511[^|]|%llx|%d", track, &id, &time) != 3 ||
            time != at)
            continue;
        found = id;
        count++;
    }
    if (count != 1) fail_msg("%d of %s at %d", count, kind, at);
    return found;
}

static void a_call_leads_to_its_body_and_back(void **state) {
    (void)state;
    images x;
    images_open(&x, 2);
    add_call(&x, 5, 100);
    add_call(&x, 6, 200);
    trace_lines t = lines_of(&x);
    EXPECT(&t, 1, "slice" PROCESS_0 "calls to worker1|f|call|100|130|");
    EXPECT(&t, 1, "slice" PROCESS_1 "main|f|body|110|120|");
    assert_true(flow_at(&t, "source", 100) == flow_at(&t, "target", 110));
    assert_true(flow_at(&t, "source", 120) == flow_at(&t, "target", 130));
    assert_true(flow_at(&t, "source", 200) == flow_at(&t, "target", 210));
    assert_true(flow_at(&t, "source", 100) != flow_at(&t, "source", 200));
    assert_true(flow_at(&t, "source", 100) != flow_at(&t, "source", 120));
    trace_lines_free(&t);
}

static void calls_at_one_time_are_on_rows_of_their_own(void **state) {
    (void)state;
    images x;
    images_open(&x, 3);
    for (int i = 0; i < 3; i++)
        add(&x, 0, TRACE_CALL_MADE, 100 + i, trace_call_id(0, (uint64_t)i), 1, "f");
    add(&x, 0, TRACE_CALL_MADE, 105, trace_call_id(0, 7), 2, "g");
    for (int i = 0; i < 3; i++)
        add(&x, 0, TRACE_CALL_ENDED, 110 + i, trace_call_id(0, (uint64_t)i), 0, "f");
    add(&x, 0, TRACE_CALL_MADE, 120, trace_call_id(0, 8), 1, "f");
    trace_lines t = lines_of(&x);
    EXPECT(&t, 1, "calls to worker1|f|call|100|110|");
    EXPECT(&t, 1, "calls to worker1 (2)|f|call|101|111|");
    EXPECT(&t, 1, "calls to worker1 (3)|f|call|102|112|");
    EXPECT(&t, 1, "calls to worker2|g|call|105|120|end=missing");
    EXPECT(&t, 1, "calls to worker1|f|call|120|120|end=missing");
    trace_lines_free(&t);
}

static void rows_are_bounded(void **state) {
    (void)state;
    images x;
    images_open(&x, 1);
    for (int i = 0; i < 300; i++)
        add(&x, 0, TRACE_CALL_MADE, 100, trace_call_id(0, (uint64_t)i), 1, "f");
    add(&x, 0, TRACE_MARK, 200, 0, 0, "m");
    trace_lines t = lines_of(&x);
    EXPECT(&t, 256, "slice", "calls to rank 1");
    EXPECT(&t, 44, "instant", "main|f|call|100|note=one of too many at one time;duration_ns=100;");
    trace_lines_free(&t);
}

static void the_last_that_enters_a_collective_leads_to_the_ends_of_the_others(void **state) {
    (void)state;
    images x;
    images_open(&x, 3);
    add_collective(&x, 0, 1, 100, 305);
    add_collective(&x, 1, 1, 200, 306);
    add_collective(&x, 2, 1, 300, 307);
    // A member may end before the last one has entered: nothing leads to that end.
    add_collective(&x, 0, 2, 400, 410);
    add_collective(&x, 1, 2, 420, 0);
    add_collective(&x, 2, 2, 430, 440);
    add(&x, 1, TRACE_MARK, 500, 0, 0, "m");
    trace_lines t = lines_of(&x);
    EXPECT(&t, 2, "source|worker2", "|300");
    EXPECT(&t, 2, "source");
    EXPECT(&t, 2, "target");
    assert_true(flow_at(&t, "target", 305) != flow_at(&t, "target", 306));
    EXPECT(&t, 1,
           "slice" PROCESS_1
           "collectives of world|all_reduce|collective|200|306|number=1;bytes=4096;group=world;");
    // Its group is known from the others.
    EXPECT(
        &t, 1,
        "slice" PROCESS_1
        "collectives of world|all_reduce|collective|420|500|number=2;bytes=4096;group=world;end=");
    trace_lines_free(&t);
}

static void a_pass_leads_to_its_parts_on_other_workers(void **state) {
    (void)state;
    images x;
    images_open(&x, 2);
    for (int i = 0; i < 2; i++) {
        add(&x, 0, TRACE_PASS_BEGUN, 100 + 1000 * i, 4, 0, "");
        add(&x, 0, TRACE_PART_BEGUN, 110 + 1000 * i, 4, 0, "worker0");
        add(&x, 0, TRACE_PART_ENDED, 120 + 1000 * i, 4, 0, "worker0");
        add(&x, 1, TRACE_PART_BEGUN, 200 + 1000 * i, 4, 0, "worker0");
        add(&x, 1, TRACE_PART_ENDED, 300 + 1000 * i, 4, 0, "worker0");
        add(&x, 0, TRACE_PASS_ENDED, 400 + 1000 * i, 4, 0, "");
    }
    add(&x, 1, TRACE_PART_BEGUN, 5000, 4, 0, "worker0");  // of no pass that is open
    trace_lines t = lines_of(&x);
    assert_true(flow_at(&t, "source", 100) == flow_at(&t, "target", 200));
    assert_true(flow_at(&t, "source", 1100) == flow_at(&t, "target", 1200));
    EXPECT(&t, 2, "target");
    EXPECT(&t, 1,
           PROCESS_1 "backward passes|part of a backward of worker0|part of a backward|200|300|");
    trace_lines_free(&t);
}

// ---- Texts, numbers, clocks ---------------------------------------------------------------------

static void names_may_be_any_text(void **state) {
    (void)state;
    static const char *const names[] = { "a \"quoted\" \\ name",
                                         "</script><script>alert(1)</script>",
                                         "Gr\xc3\xb6\xc3\x9f \xf0\x9f\x98\x80", "'{}[],:%s%n",
                                         "tab\there\nline" };
    images x;
    images_open(&x, 1);
    snprintf(x.of[0].agents[0].name, 128, "%s", names[1]);
    for (int i = 0; i < 5; i++) {
        add(&x, 0, TRACE_SPAN_OPENED, 100 + 10 * i, (uint64_t)i, 0, names[i]);
        add(&x, 0, TRACE_SPAN_CLOSED, 105 + 10 * i, (uint64_t)i, 0, names[i]);
    }
    char name[3000];
    memset(name, 'x', sizeof name);
    memcpy(name + 1022, "\xc3\xb6", 2);  // is cut here
    name[2999] = '\0';
    add(&x, 0, TRACE_MARK, 200, 0, 0, name);
    trace_lines t = lines_of(&x);
    for (int i = 0; i < 5; i++) {
        char part[256];
        snprintf(part, sizeof part,
                 "</script><script>alert(1)</script>, host a, attempt 0/main|%s|span|", names[i]);
        EXPECT(&t, 1, "slice", part);
    }
    EXPECT(&t, 1, "instant", "xxxx?|mark");
    trace_lines_free(&t);
}

static void the_file_has_no_script(void **state) {
    (void)state;
    images x;
    images_open(&x, 1);
    add(&x, 0, TRACE_MARK, 200, 0, 0, "</script>");
    path folder = make_folder(), json = in_folder(folder, "t.json");
    write_one(&x, &(clocks){ 0 }, true, json.text);
    char text[8192] = "";
    FILE *f = fopen(json.text, "r");
    assert_non_null(f);
    assert_true(fread(text, 1, sizeof text - 1, f) > 0);
    fclose(f);
    assert_null(strstr(text, "</script>"));
    assert_non_null(strstr(text, "\"\\u003c/script>\""));
    images_close(&x);
    remove_folder(folder);
}

static void numbers_that_cannot_be_drawn_are_noted(void **state) {
    (void)state;
    images x;
    images_open(&x, 1);
    add_number(&x, 0, 100, "queue", 17.25);
    add_number(&x, 0, 200, "queue", NAN);
    add_number(&x, 0, 300, "queue", -INFINITY);
    add_number(&x, 0, 400, "other", 1e300);
    trace_lines t = lines_of(&x);
    EXPECT(&t, 1, "counter" PROCESS_0 "queue|100|17.25");
    EXPECT(&t, 1, "instant" PROCESS_0 "|queue is nan||200|");
    EXPECT(&t, 1, "instant" PROCESS_0 "|queue is -infinity||300|");
    EXPECT(&t, 1, "counter" PROCESS_0 "other|400|1e+300");
    trace_lines_free(&t);
}

static void hosts_without_messages_are_aligned_by_wall_time_and_that_is_said(void **state) {
    (void)state;
    images x;
    images_open(&x, 3);
    snprintf(x.of[1].host, sizeof x.of[1].host, "b");
    snprintf(x.of[2].host, sizeof x.of[2].host, "b");
    x.of[2].pid = x.of[0].pid;  // possible on two hosts
    x.of[0].opened = (trace_moment){ .monotonic_ns = 1000, .wall_ns = 500000 };
    x.of[1].opened = (trace_moment){ .monotonic_ns = 70000, .wall_ns = 500100 };
    x.of[2].opened =
        (trace_moment){ .monotonic_ns = 80000, .wall_ns = 999999 };  // the clock was set
    add(&x, 0, TRACE_MARK, 2000, 0, 0, "m");
    add(&x, 1, TRACE_MARK, 71000, 0, 0, "m");
    add(&x, 2, TRACE_MARK, 81000, 0, 0, "m");
    trace_lines t = lines_of(&x);
    EXPECT(&t, 1, "instant|worker0, host a, attempt 0/main|m|mark|2000|");
    EXPECT(&t, 1, "instant|worker1, host b, attempt 0/main|m|mark|2100|");
    EXPECT(&t, 1, "instant|worker2, host b, attempt 0/main|m|mark|12100|");
    EXPECT(&t, 1, "instant|worker0",
           "|clock of the host|records|2000|method=the clock of the trace;");
    EXPECT(&t, 1, "|clock of the host|records|2100|method=wall time, as there are no messages",
           "offset_ns=-68900;");
    EXPECT(&t, 1, "|clock of the host|records|12100|", "offset_ns=-68900;");
    trace_lines_free(&t);
}

static void times_beyond_all_do_no_harm(void **state) {
    (void)state;
    images x;
    images_open(&x, 2);
    snprintf(x.of[1].host, sizeof x.of[1].host, "b");
    x.of[0].opened = (trace_moment){ .monotonic_ns = INT64_MAX, .wall_ns = INT64_MIN };
    x.of[1].opened = (trace_moment){ .monotonic_ns = 0, .wall_ns = INT64_MAX };
    add(&x, 0, TRACE_SPAN_OPENED, 0, 1, 0, "m");
    add(&x, 0, TRACE_SPAN_CLOSED, INT64_MAX, 1, 0, "m");
    add(&x, 1, TRACE_SPAN_OPENED, 0, 1, 0, "m");
    add(&x, 1, TRACE_SPAN_CLOSED, INT64_MAX, 1, 0, "m");
    clocks c;
    assert_true(prepare_images(x.of, 2, 0, &c));
    path folder = make_folder(), file = in_folder(folder, "t");
    write_one(&x, &c, true, file.text);
    write_one(&x, &c, false, file.text);
    clocks_fini(&c);
    images_close(&x);
    remove_folder(folder);
}

static void only_the_last_seconds_are_kept(void **state) {
    (void)state;
    images x;
    images_open(&x, 2);
    add(&x, 0, TRACE_MARK, 1000, 0, 0, "m");
    add(&x, 0, TRACE_MARK, 2000, 0, 0, "m");
    add(&x, 1, TRACE_MARK, 1200, 0, 0, "m");
    clocks c;
    assert_true(prepare_images(x.of, 2, 900, &c));
    assert_int_equal(c.host_count, 1);
    clocks_fini(&c);
    assert_int_equal(x.of[0].threads[0].record_count, 1);
    assert_int_equal(x.of[0].threads[0].records[0].at_ns, 2000);
    assert_int_equal(x.of[0].threads[0].lost, 1);
    assert_int_equal(x.of[1].threads[0].record_count, 1);
    images_close(&x);
}

// ---- The report ---------------------------------------------------------------------------------

static void expect_report(const images *x, const char *const *parts) {
    char *text = NULL;
    size_t size;
    FILE *f = open_memstream(&text, &size);
    clocks c = { 0 };
    assert_non_null(f);
    assert_true(report_print(x->of, x->count, &c, f));
    assert_int_equal(fclose(f), 0);
    testing_note("%s", text);
    for (; *parts; parts++)
        if (!strstr(text, *parts)) fail_msg("no \"%s\" in\n%s", *parts, text);
    free(text);
}
#define REPORT(x, ...) expect_report(x, (const char *const[]){ __VA_ARGS__, NULL })

static void the_report_has_times_and_stragglers(void **state) {
    (void)state;
    images x;
    images_open(&x, 2);
    add_collective(&x, 0, 1, 1000, 4000);
    add_collective(&x, 1, 1, 3000, 4000);
    add_collective(&x, 0, 2, 10000, 14000);
    add_collective(&x, 1, 2, 13000, 14000);
    add_call(&x, 1, 20000);
    // A second is covered once, by two spans.
    add(&x, 0, TRACE_SPAN_OPENED, 20100, 1, 0, "load");
    add(&x, 0, TRACE_SPAN_OPENED, 20100, 2, 0, "load");
    add(&x, 0, TRACE_SPAN_CLOSED, 21000, 2, 0, "load");
    add(&x, 0, TRACE_SPAN_CLOSED, 21000, 1, 0, "load");
    add(&x, 0, TRACE_SLOW_WAIT, 22000, 0, 12000000, "a turn");
    REPORT(&x,
           "worker0: records of 21.0 us; collectives 7.00 us (33 %); spans 900 ns (4 %); calls 30 "
           "ns (0 %)\n",
           "  span                        2    1.80 us", "load\n",
           "12.0 ms    12.0 ms    12.0 ms    12.0 ms  waited long for: a turn\n",
           "\ncalls and their bodies, of all workers\n",
           "  call                        1      30 ns      30 ns",
           "  body                        1      10 ns",
           "  all_reduce of world: 2, mean 2.25 us; arrival apart by 2.50 us, at most 3.00 us; "
           "last: worker1 2\n",
           "  world: all 2 members have ended all, the last is 2\n");
    images_close(&x);
}

// Its begin is overwritten in the ring of another thread.
static void an_end_without_a_begin_covers_no_time(void **state) {
    (void)state;
    images x;
    images_open(&x, 1);
    add(&x, 0, TRACE_MARK, 1000, 0, 0, "first");
    add(&x, 0, TRACE_COLLECTIVE_ENDED, 9000, trace_collective_id(7, 0, 1), 0, "world");
    add_collective(&x, 0, 2, 10000, 11000);
    REPORT(&x, "worker0: records of 10.0 us; collectives 1.00 us (10 %)\n");
    images_close(&x);
}

static void the_report_says_which_members_have_not_ended_a_collective(void **state) {
    (void)state;
    images x;
    images_open(&x, 4);
    for (int rank = 0; rank < 4; rank++) add_collective(&x, rank, 7, 1000, 1100);
    add_collective(&x, 0, 8, 2000, 0);
    add_collective(&x, 1, 8, 2000, 2100);
    add(&x, 2, TRACE_MARK, 2000, 0, 0, "something else");
    add(&x, 3, TRACE_COLLECTIVE_ENTERED, 2000, collective(8), 0, "all_reduce");
    add(&x, 3, TRACE_COLLECTIVE_ENDED, 2500, collective(8), 4, "world");
    x.of[2].life = IMAGE_HAS_ENDED;
    REPORT(&x,
           "  world: all have ended 7; not all_reduce 8:\n    worker0 has entered it; its last "
           "record: begin collective: ",
           "    worker2 has not entered it; its process has ended; its last record: mark: "
           "something else\n",
           "    worker3 has ended it with an error;");
    images_close(&x);
    images_open(&x, 2);
    add_collective(&x, 0, 1, 2000, 0);
    REPORT(
        &x,
        "  ?: there is none that all have ended; not all_reduce 1:\n    worker0 has entered it;");
    images_close(&x);
}

// Rank 1 loads slowly, and enters last. Rank 0 then steps.
static void the_report_has_the_critical_path_of_the_last_step(void **state) {
    (void)state;
    images x;
    images_open(&x, 2);
    for (int64_t at = 0; at < 2000000; at += 1000000) {
        add(&x, 0, TRACE_SPAN_OPENED, at + 1000, (uint64_t)at, 0, "load");
        add(&x, 0, TRACE_SPAN_CLOSED, at + 2000, (uint64_t)at, 0, "load");
        add(&x, 1, TRACE_SPAN_OPENED, at + 100000, (uint64_t)at, 0, "load");
        add(&x, 1, TRACE_SPAN_CLOSED, at + 500000, (uint64_t)at, 0, "load");
        add_collective(&x, 0, (uint32_t)(at / 1000000), at + 100000, at + 700000);
        add_collective(&x, 1, (uint32_t)(at / 1000000), at + 600000, at + 700001);
        for (int rank = 0; rank < 2; rank++) {
            add(&x, rank, TRACE_STEP_BEGUN, at + 710000 + rank, (uint64_t)at, 0, "");
            add(&x, rank, TRACE_STEP_ENDED, at + 960000 - rank, (uint64_t)at, 0, "");
        }
    }
    REPORT(&x, "\ncritical path of the last step, 1.00 ms\n",
           "     400 us  40 %  worker1: span load\n",
           "     250 us  25 %  worker0: optimizer step\n",
           "     240 us  24 %  worker1: its program\n",
           "     100 us  10 %  worker1 to worker0: collective all_reduce\n",
           "    10.0 us   1 %  worker0: its program\n");
    images_close(&x);
}

// The step calls rank 1, whose body calls rank 2.
static void the_critical_path_leads_through_calls(void **state) {
    (void)state;
    images x;
    images_open(&x, 3);
    uint64_t outer = trace_call_id(0, 1), inner = trace_call_id(1, 1);
    add(&x, 0, TRACE_MARK, 1000, 0, 0, "first");
    add(&x, 0, TRACE_CALL_MADE, 1100, outer, 1, "forward");
    add(&x, 1, TRACE_BODY_BEGUN, 1200, outer, 0, "forward");
    add(&x, 1, TRACE_CALL_MADE, 1300, inner, 2, "embed");
    add(&x, 2, TRACE_BODY_BEGUN, 1400, inner, 1, "embed");
    add(&x, 2, TRACE_BODY_ENDED, 1700, inner, 0, "embed");
    add(&x, 1, TRACE_CALL_ENDED, 1800, inner, 0, "embed");
    add(&x, 1, TRACE_BODY_ENDED, 1900, outer, 0, "forward");
    add(&x, 0, TRACE_CALL_ENDED, 1950, outer, 0, "forward");
    add(&x, 0, TRACE_STEP_BEGUN, 1950, 9, 0, "");
    add(&x, 0, TRACE_STEP_ENDED, 2000, 9, 0, "");
    REPORT(&x, "\ncritical path of the last step, 1.00 us\n",
           "     300 ns  30 %  worker2: body embed\n", "     200 ns  20 %  worker1: body forward\n",
           "     100 ns  10 %  worker0 to worker1: body forward\n",
           "     100 ns  10 %  worker1 to worker2: body embed\n",
           "     100 ns  10 %  worker2 to worker1: call embed\n",
           "     100 ns  10 %  worker0: its program\n",
           "      50 ns   5 %  worker1 to worker0: call forward\n",
           "      50 ns   5 %  worker0: optimizer step\n");
    images_close(&x);
}

// Of one host and several, with times of any file.
static void any_records_give_a_report(void **state) {
    (void)state;
    static const int64_t jumps[] = { 1, 1000, 100000000, INT64_MAX / 3 };
    for (unsigned seed = 0; seed < (unsigned)testing_scaled(300); seed++) {
        images x;
        clocks c;
        unsigned random = seed;
        int64_t at[3] = { 0 };
        testing_note("seed %u", seed);
        images_open(&x, 3);
        for (int i = 0; i < 3; i++)
            snprintf(x.of[i].host, sizeof x.of[i].host, "%c", 'a' + rand_r(&random) % 3);
        for (int i = 0; i < 200; i++) {
            int kind = 1 + rand_r(&random) % (TRACE_KIND_COUNT - 1), rank = rand_r(&random) % 3;
            int64_t jump = jumps[i % 40 ? rand_r(&random) % 3 : (int)(seed % 4)];
            if (at[rank] < INT64_MAX - jump) at[rank] += jump;
            const char *name = kind == TRACE_COLLECTIVE_ENTERED ? "barrier" : "x";
            add(&x, rank, kind, at[rank], (uint64_t)rand_r(&random) % 8,
                (uint64_t)rand_r(&random) % 3, name);
        }
        assert_true(prepare_images(x.of, 3, 0, &c));
        char *text = NULL;
        size_t size;
        FILE *f = open_memstream(&text, &size);
        assert_non_null(f);
        assert_true(report_print(x.of, 3, &c, f));
        fclose(f);
        assert_non_null(strstr(text, "worker2: records of "));
        free(text);
        clocks_fini(&c);
        images_close(&x);
    }
}

// ---- Parts --------------------------------------------------------------------------------------

static void percentiles_are_within_4_percent(void **state) {
    (void)state;
    histogram *h = calloc(1, sizeof *h);
    assert_non_null(h);
    assert_int_equal(histogram_find(h, 0.5), 0);
    for (int64_t i = 1; i <= 10000; i++) histogram_add(h, i * 1000);
    assert_in_range(histogram_find(h, 0.5), 4800000, 5200000);
    assert_in_range(histogram_find(h, 0.99), 9500000, 10000000);
    assert_int_equal(histogram_find(h, 1), 10000000);
    for (int bit = 0; bit < 63; bit++) histogram_add(h, INT64_C(1) << bit);
    histogram_add(h, INT64_MAX);
    histogram_add(h, -5);
    assert_true(h->max_ns == INT64_MAX);
    free(h);
}

static void a_table_finds_what_was_put_and_not_removed(void **state) {
    (void)state;
    table t = { 0 };
    for (uint32_t i = 0; i < 3000; i++) *table_put(&t, i % 7, i, 0) = i;
    for (uint32_t i = 0; i < 3000; i += 3) table_remove(&t, i % 7, i);
    table_remove(&t, 1, 1000000);
    for (uint32_t i = 0; i < 3000; i++) {
        const uint32_t *found = table_find(&t, i % 7, i);
        if (i % 3 == 0)
            assert_null(found);
        else
            assert_true(found && *found == i);
    }
    assert_int_equal(t.used, 2000);
    table_fini(&t);
}

GW_TESTS(trace_timeline, operators_fetches_and_messages_have_arguments, protoc_is_installed,
         begin_and_end_are_one_slice, each_kind_of_a_begin_is_before_its_end,
         every_kind_has_an_event, a_missing_end_is_the_last_record_and_marked,
         a_missing_begin_is_the_first_record_and_marked,
         what_is_missing_in_a_gap_is_there_and_marked,
         of_several_begins_of_an_id_the_last_is_ended_first, any_records_give_slices_that_nest,
         a_call_leads_to_its_body_and_back, calls_at_one_time_are_on_rows_of_their_own,
         rows_are_bounded, the_last_that_enters_a_collective_leads_to_the_ends_of_the_others,
         a_pass_leads_to_its_parts_on_other_workers, names_may_be_any_text, the_file_has_no_script,
         numbers_that_cannot_be_drawn_are_noted,
         hosts_without_messages_are_aligned_by_wall_time_and_that_is_said,
         times_beyond_all_do_no_harm, only_the_last_seconds_are_kept,
         the_report_has_times_and_stragglers, the_report_has_the_critical_path_of_the_last_step,
         the_critical_path_leads_through_calls, any_records_give_a_report,
         an_end_without_a_begin_covers_no_time,
         the_report_says_which_members_have_not_ended_a_collective,
         percentiles_are_within_4_percent, a_table_finds_what_was_put_and_not_removed);
