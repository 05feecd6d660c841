#include "trace/table.h"

#include "base/crc32c.h"
#include "base/mem.h"
#include "testing/testing.h"
#include "trace/kinds.h"
#include "trace/layout.h"

#include <stdio.h>
#include <string.h>

static trace_activity wait_for_reply(int i) {
    trace_activity a = { .kind = TRACE_WAITS_REPLY,
                         .since_ns = 1000 + i,
                         .tid = 100 * i,
                         .caller = i % 2 ? 3 : -1,
                         .call = (uint64_t)i,
                         .number = 14 };
    snprintf(a.what, sizeof a.what, "slow");
    snprintf(a.site, sizeof a.site, "hang.c:%d", i);
    for (int rank = 0; rank < i; rank++) trace_activity_add_rank(&a, rank);
    return a;
}

// Those with larger ranks have more bytes.
static void add_peer(trace_peers *to, int rank) {
    trace_peer x = { .rank = rank,
                     .workers = 1,
                     .counters = { [TRACE_PEER_CALLS_MADE] = 1,
                                   [TRACE_PEER_BYTES_SENT] = (uint64_t)rank * 100,
                                   [TRACE_PEER_QUEUED_MAX] = (uint64_t)rank },
                     .transport = "shm" };
    trace_peers_add(to, &x);
}

static void write_table(bytes *out, int count) {
    uint64_t counters[TRACE_COUNTERS] = { [TRACE_CALLS_MADE] = 7, [TRACE_BYTES_SENT] = 1ull << 40 };
    uint64_t memory[MEMORY_KINDS] = { [MEMORY_GRADIENTS] = 1ull << 33, [MEMORY_RECORDS] = 5 };
    trace_peers peers = { 0 };
    for (int i = 0; i < 40; i++) add_peer(&peers, i);
    trace_table_begin(out, 5000, TRACE_SERVING);
    for (int i = 0; i < count; i++) {
        trace_activity a = wait_for_reply(i % 20);
        trace_table_add(out, &a);
    }
    static trace_sums made;
    if (!made.count)
        for (int i = 0; i < 1000; i++) {
            char name[200];
            snprintf(name, sizeof name, "%0*d", 1 + i % 100, i);
            trace_sums_add(&made, name, name, i % 2, i);
        }
    trace_table_end(out, &(trace_table_counts){
                             counters,
                             memory,
                             &peers,
                             { [TRACE_SUMS_MADE] = &made, [TRACE_SUMS_COLLECTIVES] = &made } });
    assert_false(out->failed);
}

static void it_reads_what_was_written(void **state) {
    (void)state;
    bytes b = { 0 };
    trace_table *t = mem_calloc(sizeof *t);
    write_table(&b, 20);
    assert_true(trace_table_read(b.data, b.size, t));
    assert_int_equal(t->now_ns, 5000);
    assert_int_equal(t->phase, TRACE_SERVING);
    assert_int_equal(t->counters[TRACE_CALLS_MADE], 7);
    assert_true(t->counters[TRACE_BYTES_SENT] == 1ull << 40);
    assert_true(t->memory[MEMORY_GRADIENTS] == 1ull << 33 && t->memory[MEMORY_RECORDS] == 5);
    assert_int_equal(t->peers.count, TRACE_PEERS_MAX + 1);
    assert_int_equal(t->peers.of[0].rank, 39);
    assert_int_equal(t->peers.of[0].counters[TRACE_PEER_BYTES_SENT], 3900);
    assert_string_equal(t->peers.of[0].transport, "shm");
    assert_int_equal(t->sums[TRACE_SUMS_MADE].count, TRACE_SUMS_MAX + 1);
    assert_int_equal(t->sums[TRACE_SUMS_SERVED].count, 0);
    assert_string_equal(t->sums[TRACE_SUMS_COLLECTIVES].of[7].name, "00000007");
    assert_string_equal(t->sums[TRACE_SUMS_COLLECTIVES].of[7].in, "00000007");
    assert_int_equal(t->sums[TRACE_SUMS_MADE].of[7].counters[TRACE_SUM_FAILED], 1);
    assert_int_equal(t->sums[TRACE_SUMS_MADE].of[7].counters[TRACE_SUM_NS], 7);
    assert_int_equal(t->activity_count, 20);
    assert_int_equal(t->left_out, 0);
    for (int i = 0; i < 20; i++) {
        trace_activity expected = wait_for_reply(i);
        assert_memory_equal(&t->activities[i], &expected, sizeof expected);
    }
    bytes_fini(&b);
    mem_free(t);
}

static void it_counts_activities_for_which_there_is_no_room(void **state) {
    (void)state;
    trace_table *t = mem_calloc(sizeof *t);
    bytes b = { 0 };
    write_table(&b, 1000);
    assert_true(b.size <= TRACE_TABLE_BYTES - 8);
    assert_true(trace_table_read(b.data, b.size, t));
    assert_int_equal(t->activity_count + t->left_out, 1000);
    assert_in_range(t->activity_count, 1, TRACE_ACTIVITIES_MAX);
    bytes_fini(&b);
    mem_free(t);
}

static void peers_beyond_the_sixteen_with_most_bytes_are_added_up(void **state) {
    (void)state;
    trace_peers peers = { 0 };
    trace_peer none = { .rank = 1, .workers = 1, .transport = "tcp" };
    trace_peers_add(&peers, &none);
    assert_int_equal(peers.count, 0);
    for (int i = 0; i < 40; i++) add_peer(&peers, i % 2 ? i : 38 - i);
    assert_int_equal(peers.count, TRACE_PEERS_MAX + 1);
    for (int i = 0; i < TRACE_PEERS_MAX; i++) {
        assert_int_equal(peers.of[i].rank, 39 - i);
        assert_int_equal(peers.of[i].workers, 1);
    }
    const trace_peer *others = &peers.of[TRACE_PEERS_MAX];
    assert_int_equal(others->rank, -1);
    assert_int_equal(others->workers, 24);
    assert_int_equal(others->counters[TRACE_PEER_CALLS_MADE], 24);
    assert_int_equal(others->counters[TRACE_PEER_BYTES_SENT], 100 * (23 * 24 / 2));
    assert_int_equal(others->counters[TRACE_PEER_QUEUED_MAX], 23);
    assert_string_equal(others->transport, "");
}

static void other_bytes_are_no_table(void **state) {
    (void)state;
    trace_table *t = mem_calloc(sizeof *t);
    bytes b = { 0 };
    write_table(&b, 3);
    for (size_t size = 0; size < b.size; size++) assert_false(trace_table_read(b.data, size, t));
    bytes_put_u8(&b, 0);
    assert_false(trace_table_read(b.data, b.size, t));
    // No change of a byte makes it read beyond the end (sanitizers).
    for (size_t i = 0; i < b.size; i++) {
        b.data[i] ^= 0xff;
        trace_table_read(b.data, b.size - 1, t);
        b.data[i] ^= 0xff;
    }
    bytes_fini(&b);
    mem_free(t);
}

static void activities_have_texts(void **state) {
    (void)state;
    char text[128];
    trace_activity a = wait_for_reply(1);
    trace_activity_text(&a, text, sizeof text);
    assert_string_equal(text, "call 14 of slow");
    a.kind = TRACE_WAITS_COLLECTIVE;
    snprintf(a.what, sizeof a.what, "all_reduce");
    snprintf(a.in, sizeof a.in, "world");
    trace_activity_text(&a, text, sizeof text);
    assert_string_equal(text, "all_reduce 14 of group \"world\"");
}

// Tools of another version read the memory of a process that runs. Where this test fails, TRACE_VERSION is increased.
static void the_version_is_that_of_the_bytes(void **state) {
    (void)state;
    bytes b = { 0 };
    const uint64_t layout[] = {
        sizeof(trace_header),
        offsetof(trace_header, opened),
        offsetof(trace_header, levels),
        offsetof(trace_header, program),
        offsetof(trace_header, own_levels),
        sizeof(trace_thread_row),
        sizeof(trace_agent_row),
        offsetof(trace_agent_row, tables),
        trace_memory_bytes(TRACE_RECORDS),
        TRACE_KIND_COUNT,
    };
    for (size_t i = 0; i < sizeof layout / sizeof layout[0]; i++) bytes_put_u64(&b, layout[i]);
    bytes table = { 0 };
    write_table(&table, 5);
    bytes_put(&b, table.data, table.size);
    assert_false(b.failed);
    uint32_t sum = crc32c(0, b.data, b.size);
    bytes_fini(&table);
    bytes_fini(&b);
    testing_note("version %d has the bytes 0x%08x", TRACE_VERSION, sum);
    assert_int_equal(TRACE_VERSION, 2);
    assert_int_equal(sum, 0x7be01bbe);
}

GW_TESTS(trace_table, the_version_is_that_of_the_bytes,
         peers_beyond_the_sixteen_with_most_bytes_are_added_up, it_reads_what_was_written,
         it_counts_activities_for_which_there_is_no_room, other_bytes_are_no_table,
         activities_have_texts);
