#include "memories.h"

#include "testing/testing.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "images.h"
#include "trace/clock.h"

trace_header *memory_header(const memory *m) {
    return (trace_header *)(void *)m->at;
}

trace_thread_row *memory_thread_row(const memory *m, int i) {
    return (trace_thread_row *)(void *)(m->at + trace_threads_at()) + i;
}

trace_agent_row *memory_agent_row(const memory *m, int i) {
    return (trace_agent_row *)(void *)(m->at + trace_agents_at()) + i;
}

trace_event *memory_ring(const memory *m, int i) {
    return (trace_event *)(void *)(m->at + trace_rings_at() +
                                   (uint64_t)i * trace_ring_bytes(MEMORIES_RECORDS));
}

uint32_t memory_add_string(const memory *m, const char *text) {
    uint32_t at = memory_header(m)->string_bytes;
    size_t size = strlen(text) + 1;
    memcpy(m->at + trace_strings_at() + at, text, size);
    memory_header(m)->string_bytes = at + (uint32_t)size;
    return at;
}

void memory_write_record(const memory *m, int thread, uint64_t index, trace_kind kind,
                         uint32_t name) {
    memory_ring(m, thread)[index % MEMORIES_RECORDS] =
        (trace_event){ .ticks = memory_header(m)->opened.ticks + index,
                       .id = index,
                       .value = 2 * index,
                       .name = name,
                       .number = (uint16_t)index,
                       .agent = 1,
                       .kind = (uint8_t)kind };
}

static void write_table(const memory *m, int agent) {
    uint64_t counters[TRACE_COUNTERS] = { 3, 4, 5, 6, 7, 8, 9 };
    uint64_t memory[MEMORY_KINDS] = { [MEMORY_GRADIENTS] = 1000 };
    trace_peers peers = { .count = 1, .of = { { .rank = 1, .workers = 1, .counters = { 3, 4 } } } };
    trace_activity a = { .kind = TRACE_WAITS_REPLY, .since_ns = 1, .caller = -1, .what = "f" };
    trace_activity late = { .kind = TRACE_WAITS_SHUTDOWN, .caller = -1 };
    bytes b = { 0 };
    trace_table_begin(&b, memory_header(m)->opened.monotonic_ns, TRACE_SERVING);
    trace_table_add(&b, &a);
    trace_table_add(&b, &late);
    trace_sums served = { .count = 1, .of = { { .name = "f", .counters = { 5, 1, 2000 } } } };
    trace_table_end(
        &b, &(trace_table_counts){ counters, memory, &peers, { [TRACE_SUMS_SERVED] = &served } });
    trace_agent_row *r = memory_agent_row(m, agent);
    r->tables[1].bytes = (uint32_t)b.size;
    memcpy(r->tables[1].data, b.data, b.size);
    r->written = 1;
    bytes_fini(&b);
}

memory memory_open(uint64_t count) {
    memory m = { .fd = memfd_create("test", MFD_CLOEXEC),
                 .size = trace_memory_bytes(MEMORIES_RECORDS) };
    assert_true(m.fd >= 0);
    assert_int_equal(ftruncate(m.fd, (off_t)m.size), 0);
    m.at = mmap(NULL, m.size, PROT_READ | PROT_WRITE, MAP_SHARED, m.fd, 0);
    assert_true(m.at != MAP_FAILED);
    trace_header *h = memory_header(&m);
    *h = (trace_header){ .magic = TRACE_MAGIC,
                         .version = TRACE_VERSION,
                         .ring_records = MEMORIES_RECORDS,
                         .owner = 77,
                         .clock = TRACE_CLOCK_MONOTONIC,
                         .start_time = 5,
                         .opened = trace_now(TRACE_CLOCK_MONOTONIC),
                         .levels = TRACE_DEFAULT,
                         .own_levels = TRACE_DEFAULT,
                         .string_bytes = 1,
                         .program = "train",
                         .job = "job" };
    // In the past, so that each record has another time.
    h->opened.monotonic_ns -= 1000000;
    h->opened.ticks = (uint64_t)h->opened.monotonic_ns;
    trace_agent_row *r = memory_agent_row(&m, 1);
    r->is_open = 1;
    r->rank = 2;
    r->world_size = 3;
    IMAGES_SET(r->name, "ps");
    write_table(&m, 1);
    memory_thread_row(&m, 0)->head = count;
    memory_thread_row(&m, 0)->tid = 78;
    IMAGES_SET(memory_thread_row(&m, 0)->name, "main");
    uint32_t name = memory_add_string(&m, "here");
    for (uint64_t i = count > MEMORIES_RECORDS ? count - MEMORIES_RECORDS : 0; i < count; i++)
        memory_write_record(&m, 0, i, TRACE_MARK, name);
    return m;
}

void memory_close(memory *m) {
    munmap(m->at, m->size);
    close(m->fd);
}
