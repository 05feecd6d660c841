// A reader of the memory is another process, which has its own mapping: here, another mapping.
#include "trace/record.h"

#include "testing/testing.h"
#include "trace/clock.h"
#include "trace/region.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

typedef struct view {
    const char *bytes;
    const trace_header *header;
    const trace_thread_row *threads;
} view;

// Of a descriptor of the memory that this process has.
static view map(int fd) {
    view v = { .bytes =
                   mmap(NULL, trace_memory_bytes(TRACE_RECORDS), PROT_READ, MAP_SHARED, fd, 0) };
    assert_ptr_not_equal(v.bytes, MAP_FAILED);
    v.header = (const trace_header *)v.bytes;
    v.threads = (const trace_thread_row *)(v.bytes + trace_threads_at());
    return v;
}

static const trace_event *record_at(view v, int thread, uint64_t i) {
    const trace_event *ring =
        (const trace_event *)(v.bytes + trace_rings_at() +
                              (uint64_t)thread * trace_ring_bytes(TRACE_RECORDS));
    return &ring[i % TRACE_RECORDS];
}

static const char *text_of(view v, uint32_t name) {
    return v.bytes + trace_strings_at() + name;
}

// The memory that the launcher would pass.
static view open_passed(void) {
    char number[16];
    int fd = trace_memory_make();
    assert_true(fd >= 0);
    snprintf(number, sizeof number, "%d", fd);
    unsetenv("GW_FLIGHT");
    setenv("GW_FLIGHT_FD", number, 1);
    trace_open();
    assert_non_null(trace_region());
    return map(fd);
}

static int thread_of(view v) {
    for (int i = 0; i < TRACE_THREADS; i++)
        if (v.threads[i].tid == (int)gettid()) return i;
    fail();
    return -1;
}

static void records_are_in_the_memory_that_was_passed(void **state) {
    (void)state;
    view v = open_passed();
    assert_int_equal(v.header->owner, (int)getpid());
    assert_string_equal(v.header->magic, TRACE_MAGIC);
    assert_true(trace_is_on(TRACE_COLL));
    assert_false(trace_is_on(TRACE_CALL));
    trace_record_text(TRACE_MARK, 2, 11, 22, "epoch 3");
    int i = thread_of(v);
    assert_int_equal(v.threads[i].head, 2);  // the first one is that the thread started
    const trace_event *r = record_at(v, i, 1);
    assert_int_equal(r->kind, TRACE_MARK);
    assert_int_equal(r->agent, 2);
    assert_int_equal(r->id, 11);
    assert_int_equal(r->value, 22);
    assert_int_equal(r->number, 1);
    assert_string_equal(text_of(v, r->name), "epoch 3");
    assert_in_range(r->ticks, v.header->opened.ticks, trace_ticks(v.header->clock));
}

static _Atomic bool writer_is_done;

static void *record_many(void *unused) {
    enum { MANY = 100000 };
    (void)unused;
    for (uint64_t i = 0; i < MANY; i++) trace_record(TRACE_MARK, 0, i, i, 0);
    writer_is_done = true;
    return NULL;
}

// Below the count there are only whole ones: |number|, |id| and |value| belong together.
static void constant_texts_have_the_same_names(void **state) {
    (void)state;
    enum { TEXTS = 3000 };  // more than are remembered
    static char texts[TEXTS][8];
    view v = open_passed();
    uint32_t first[TEXTS];
    for (int i = 0; i < TEXTS; i++) snprintf(texts[i], sizeof texts[i], "t%d", i);
    for (int pass = 0; pass < 2; pass++)
        for (int i = 0; i < TEXTS; i++) {
            uint32_t name = trace_name_of_constant(texts[i]);
            if (!pass) first[i] = name;
            assert_int_equal(name, first[i]);
            assert_string_equal(text_of(v, name), texts[i]);
        }
    assert_int_equal(trace_name("t7"), first[7]);
}

static void *take_id(void *out) {
    *(uint64_t *)out = trace_unique_id();
    return NULL;
}

static void ids_of_work_are_unique(void **state) {
    (void)state;
    pthread_t other;
    uint64_t ids[3] = { trace_unique_id(), trace_unique_id(), 0 };
    assert_int_equal(pthread_create(&other, NULL, take_id, &ids[2]), 0);
    pthread_join(other, NULL);
    for (int i = 0; i < 3; i++) assert_true(ids[i] && ids[i] != ids[(i + 1) % 3]);
}

static void values_of_records_are_read_back(void **state) {
    (void)state;
    assert_int_equal(trace_message_rank(trace_message_id(1023, 255)), 1023);
    uint64_t value = trace_op_value(200, UINT64_C(1) << 45);
    assert_int_equal(trace_op_device(value), 200);
    assert_true(trace_op_bytes(value) == UINT64_C(1) << 45);
}

static void a_record_is_there_before_it_is_counted(void **state) {
    (void)state;
    view v = open_passed();
    pthread_t writer;
    trace_record(TRACE_MARK, 0, 0, 0, 0);
    int row = thread_of(v) + 1;
    assert_int_equal(pthread_create(&writer, NULL, record_many, NULL), 0);
    while (!writer_is_done) {
        uint64_t head = atomic_load_explicit(&v.threads[row].head, memory_order_acquire);
        if (head < 2) continue;
        trace_event r = *record_at(v, row, head - 1);
        // It may be overwritten meanwhile, a whole ring later.
        atomic_thread_fence(memory_order_acquire);
        uint64_t after = atomic_load_explicit(&v.threads[row].head, memory_order_acquire);
        if (after >= head - 1 + TRACE_RECORDS) continue;
        assert_int_equal(r.number, (uint16_t)(head - 1));
        assert_int_equal(r.id, head - 2);  // the first one is that the thread started
        assert_int_equal(r.value, head - 2);
    }
    pthread_join(writer, NULL);
}

// A name is kept once.
static void names_are_found_again(void **state) {
    (void)state;
    view v = open_passed();
    uint32_t a = trace_name("all_reduce"), b = trace_name("broadcast");
    assert_int_not_equal(a, b);
    assert_int_equal(trace_name("all_reduce"), a);
    assert_int_equal(trace_name(""), 0);
    assert_string_equal(text_of(v, b), "broadcast");
    char text[32];
    for (int i = 0; i < 10000; i++) {
        snprintf(text, sizeof text, "name %d", i);
        trace_name(text);
    }
    assert_true(v.header->string_bytes <= TRACE_STRINGS_BYTES);
    assert_int_equal(trace_name("no room for this one"), 0);
    assert_int_equal(trace_name("all_reduce"), a);
}

static void levels_are_switched_from_outside(void **state) {
    (void)state;
    view v = open_passed();
    trace_header *h = (trace_header *)(uintptr_t)trace_region()->header;
    h->levels = TRACE_CALL;
    assert_true(trace_is_on(TRACE_CALL));
    trace_record_text(TRACE_MARK, 0, 0, 0, "off");
    h->levels = TRACE_ALL;
    trace_record_text(TRACE_MARK, 0, 0, 0, "on");
    assert_string_equal(text_of(v, record_at(v, thread_of(v), 1)->name), "on");
}

static void a_ring_keeps_the_last_records(void **state) {
    (void)state;
    view v = open_passed();
    for (uint64_t i = 0; i < 3 * TRACE_RECORDS; i++) trace_record(TRACE_MARK, 0, i, 0, 0);
    int t = thread_of(v);
    uint64_t head = v.threads[t].head;
    assert_int_equal(head, 3 * TRACE_RECORDS + 1);
    for (uint64_t i = head - TRACE_RECORDS; i < head; i++) {
        assert_int_equal(record_at(v, t, i)->id, i - 1);
        assert_int_equal(record_at(v, t, i)->number, (uint16_t)i);
    }
}

static void *record_some(void *name) {
    for (int i = 0; i < 100; i++) trace_record_text(TRACE_MARK, 0, 0, 0, name);
    return NULL;
}

// Threads beyond the rows record nothing; the row of one that has ended is used again.
static void each_thread_has_a_ring(void **state) {
    (void)state;
    view v = open_passed();
    for (int i = 0; i < 3 * TRACE_THREADS; i++) {
        pthread_t t;
        assert_int_equal(pthread_create(&t, NULL, record_some, "x"), 0);
        pthread_join(t, NULL);
    }
    assert_int_equal(v.header->threads_left_out, 0);
    assert_int_equal(v.threads[0].head, 3 * TRACE_THREADS * 101);
    assert_int_equal(v.threads[0].tid, 0);
    assert_int_equal(v.threads[1].head, 0);
}

// The memory is not the child's, which records nothing.
static void a_forked_process_records_nothing(void **state) {
    (void)state;
    view v = open_passed();
    trace_record_text(TRACE_MARK, 0, 0, 0, "parent");
    uint64_t head = v.threads[thread_of(v)].head;
    pid_t child = fork();
    if (child == 0) {
        trace_record_text(TRACE_MARK, 0, 0, 0, "child");
        trace_record(TRACE_MARK, 0, 0, 0, 0);
        _exit(trace_is_on(TRACE_ALL));
    }
    int status;
    waitpid(child, &status, 0);
    assert_int_equal(status, 0);
    assert_int_equal(v.threads[thread_of(v)].head, head);
}

// The last record of a process that is killed is there.
static void records_outlive_a_killed_process(void **state) {
    (void)state;
    int fd = trace_memory_make(), ends[2];
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    if (child == 0) {
        char number[16];
        snprintf(number, sizeof number, "%d", fd);
        setenv("GW_FLIGHT_FD", number, 1);
        trace_open();
        trace_record_text(TRACE_MARK, 0, 0, 0, "the last one");
        if (write(ends[1], "", 1) != 1) _exit(1);
        for (;;) pause();
    }
    char byte;
    assert_int_equal(read(ends[0], &byte, 1), 1);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    view v = map(fd);
    assert_int_equal(v.header->owner, (int)child);
    assert_string_equal(text_of(v, record_at(v, 0, 1)->name), "the last one");
}

// The memory of a process that has ended is not taken by the next one.
static void memory_has_one_owner(void **state) {
    (void)state;
    int fd = trace_memory_make();
    char number[16];
    snprintf(number, sizeof number, "%d", fd);
    setenv("GW_FLIGHT_FD", number, 1);
    for (int i = 0; i < 2; i++) {
        pid_t child = fork();
        if (child == 0) {
            trace_open();
            trace_record_text(TRACE_MARK, 0, 0, 0, i ? "second" : "first");
            _exit(!trace_region());
        }
        int status;
        waitpid(child, &status, 0);
        assert_int_equal(status, 0);
    }
    view v = map(fd);
    assert_string_equal(text_of(v, record_at(v, 0, 1)->name), "first");
    assert_int_equal(v.threads[0].head, 2);
}

static void a_descriptor_that_is_no_memory_is_not_taken(void **state) {
    (void)state;
    int fd = open("/dev/null", O_RDWR);
    char number[16];
    snprintf(number, sizeof number, "%d", fd);
    setenv("GW_FLIGHT_FD", number, 1);
    trace_open();
    assert_non_null(trace_region());
    assert_int_equal(fcntl(fd, F_GETFD), 0);
}

static void it_can_be_switched_off(void **state) {
    (void)state;
    setenv("GW_FLIGHT", "0", 1);
    trace_open();
    assert_null(trace_region());
    assert_false(trace_is_on(TRACE_ALL));
    trace_record_text(TRACE_MARK, 0, 0, 0, "x");
    assert_int_equal(trace_agent_open(), -1);
    trace_agent_publish(-1, "x", 1);
    trace_agent_close(-1);
}

static void without_memory_nothing_is_recorded(void **state) {
    (void)state;
    const struct rlimit small = { 4096, 4096 };
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    trace_open();
    assert_null(trace_region());
    trace_record_text(TRACE_MARK, 0, 0, 0, "x");
    assert_int_equal(trace_name("x"), 0);
}

static void it_records_the_levels_of_the_variable(void **state) {
    (void)state;
    setenv("GW_FLIGHT", "call,coll", 1);
    trace_open();
    assert_true(trace_is_on(TRACE_CALL));
    assert_true(trace_is_on(TRACE_COLL));
    assert_false(trace_is_on(TRACE_JOB));
}

static void tables_are_published_whole(void **state) {
    (void)state;
    view v = open_passed();
    int row = trace_agent_open();
    trace_identity is = { .name = "ps", .rank = 2, .world_size = 4, .incarnation = 9 };
    trace_agent_identify(row, &is);
    const trace_agent_row *r = (const trace_agent_row *)(v.bytes + trace_agents_at()) + row;
    assert_string_equal(r->name, "ps");
    assert_int_equal(r->written, 0);
    for (uint64_t i = 1; i < 5; i++) {
        char text[16];
        int size = snprintf(text, sizeof text, "table %d", (int)i);
        trace_agent_publish(row, text, (size_t)size);
        assert_int_equal(r->written, i);
        assert_int_equal(r->tables[i % 2].bytes, size);
        assert_memory_equal(r->tables[i % 2].data, text, size);
    }
    static char large[TRACE_TABLE_BYTES];
    trace_agent_publish(row, large, sizeof large);
    assert_int_equal(r->written, 4);
    for (int i = 1; i < TRACE_AGENTS; i++) assert_true(trace_agent_open() > 0);
    assert_int_equal(trace_agent_open(), -1);
    trace_agent_close(row);
    assert_int_equal(trace_agent_open(), row);
}

GW_TESTS(trace_record, records_are_in_the_memory_that_was_passed, names_are_found_again,
         constant_texts_have_the_same_names, ids_of_work_are_unique,
         values_of_records_are_read_back, a_record_is_there_before_it_is_counted,
         levels_are_switched_from_outside, a_ring_keeps_the_last_records, each_thread_has_a_ring,
         a_forked_process_records_nothing, records_outlive_a_killed_process, memory_has_one_owner,
         a_descriptor_that_is_no_memory_is_not_taken, it_can_be_switched_off,
         without_memory_nothing_is_recorded, it_records_the_levels_of_the_variable,
         tables_are_published_whole);
