// What each worker counts of its exchange with each other one.
#include "agent/bodies/observe.h"
#include "base/mem.h"
#include "testing/cluster.h"
#include "testing/testing.h"

#include <gradwire.h>
#include <stdlib.h>
#include <string.h>

enum { WORKERS = 3, CALLS = 7, NUMBERS = 10000, NUMBERS_BYTES = NUMBERS * 4 };

GW_FUNCTION(peer_stats_size, GW_INLINE, "tensor") {
    return gw_value_of(gw_numel(gw_arg_tensor(s, a, 0)));
}

typedef struct counted {
    gw_rpc_stats all;
    gw_peer_stats with[WORKERS];
} counted;

static counted count(gw_scope *s) {
    counted out = { .all = gw_rpc_get_stats(s) };
    for (int rank = 0; rank < WORKERS; rank++)
        out.with[rank] = gw_rpc_get_peer_stats(s, (gw_worker){ .rank = rank });
    return out;
}

// Rank 0 sends large tensors to rank 1, and one small one to rank 2.
static void call_both(gw_scope *s, int rank, void *context) {
    counted *out = context;
    for (int i = 0; rank == 0 && i < CALLS; i++)
        gw_rpc_sync(s, 1, "peer_stats_size", gw_zeros(s, GW_F32, NUMBERS));
    if (rank == 0) gw_rpc_sync(s, 2, "peer_stats_size", gw_zeros(s, GW_F32, 1));
    cluster_sleep_ms(s, 5000);
    out[rank] = count(s);
    cluster_sleep_ms(s, 5000);
}

static void sums_are_those_of_the_worker(const counted *c) {
    gw_peer_stats sum = { 0 };
    for (int rank = 0; rank < WORKERS; rank++) {
        sum.calls_made += c->with[rank].calls_made;
        sum.calls_served += c->with[rank].calls_served;
        sum.messages_sent += c->with[rank].messages_sent;
        sum.messages_received += c->with[rank].messages_received;
        sum.bytes_sent += c->with[rank].bytes_sent;
        sum.bytes_received += c->with[rank].bytes_received;
        sum.reconnects += c->with[rank].reconnects;
    }
    assert_int_equal(sum.calls_made, c->all.calls_made);
    assert_int_equal(sum.calls_served, c->all.calls_served);
    assert_int_equal(sum.messages_sent, c->all.messages_sent);
    assert_int_equal(sum.messages_received, c->all.messages_received);
    assert_int_equal(sum.bytes_sent, c->all.bytes_sent);
    assert_int_equal(sum.bytes_received, c->all.bytes_received);
    assert_int_equal(sum.reconnects, c->all.reconnects);
}

static void each_peer_has_its_own_counts(void **state) {
    (void)state;
    counted c[WORKERS];
    setenv("GW_LEND", "0", 1);
    cluster_run(1, (cluster_options){ .world_size = WORKERS }, call_both, c);
    unsetenv("GW_LEND");
    for (int rank = 0; rank < WORKERS; rank++) sums_are_those_of_the_worker(&c[rank]);
    assert_int_equal(c[0].with[1].calls_made, CALLS);
    assert_int_equal(c[0].with[2].calls_made, 1);
    assert_int_equal(c[1].with[0].calls_served, CALLS);
    assert_int_equal(c[1].with[2].calls_served, 0);
    assert_in_range(c[0].with[1].bytes_sent, CALLS * NUMBERS_BYTES, (CALLS + 1) * NUMBERS_BYTES);
    assert_true(c[0].with[2].bytes_sent < NUMBERS_BYTES);
    assert_true(c[0].with[1].queued_bytes_max >= NUMBERS_BYTES);
    assert_true(c[0].with[2].queued_bytes_max < NUMBERS_BYTES);
    assert_int_equal(c[0].with[1].queued_bytes, 0);
    assert_non_null(c[0].with[1].transport);
    assert_null(c[0].with[0].transport);
    assert_int_equal(c[0].with[0].messages_sent, 0);
    // Both ends count the same messages: none is under way.
    for (int a = 0; a < WORKERS; a++)
        for (int b = 0; b < WORKERS; b++)
            assert_int_equal(c[a].with[b].messages_sent, c[b].with[a].messages_received);
}

static void look_in_the_table(gw_scope *s, int rank, void *context) {
    counted ignored[WORKERS];
    call_both(s, rank, ignored);
    if (rank != 0) return;
    agent *a = s->agent;
    trace_table *t = mem_calloc(sizeof *t);
    observation o;
    assert_non_null(t);
    env_enter(a->env);
    observe_on_loop(a, &o);
    env_leave(a->env);
    assert_true(trace_table_read(o.table.data, o.table.size, t));
    assert_int_equal(t->peers.count, 2);
    assert_int_equal(t->peers.of[0].rank, 1);
    assert_int_equal(t->peers.of[1].rank, 2);
    assert_int_equal(t->peers.of[0].counters[TRACE_PEER_CALLS_MADE], CALLS);
    assert_true(t->peers.of[0].counters[TRACE_PEER_BYTES_SENT] >= CALLS * NUMBERS_BYTES);
    assert_true(t->peers.of[0].transport[0]);
    bytes_fini(&o.table);
    mem_free(t);
    *(bool *)context = true;
}

static void the_table_has_them_with_most_bytes_first(void **state) {
    (void)state;
    bool is_done = false;
    setenv("GW_LEND", "0", 1);
    cluster_run(1, (cluster_options){ .world_size = WORKERS }, look_in_the_table, &is_done);
    unsetenv("GW_LEND");
    assert_true(is_done);
}

static void ask_for_no_worker(gw_scope *s, int rank, void *context) {
    (void)rank, (void)context;
    static const int none[] = { -1, WORKERS };
    for (int i = 0; i < 2; i++) {
        gw_rpc_get_peer_stats(s, (gw_worker){ .rank = none[i] });
        assert_int_equal(gw_scope_error(s)->status, GW_NOT_FOUND);
        gw_scope_clear(s);
    }
}

static void an_unknown_worker_is_an_error(void **state) {
    (void)state;
    cluster_run(1, (cluster_options){ .world_size = WORKERS }, ask_for_no_worker, NULL);
}

GW_TESTS(peer_stats, each_peer_has_its_own_counts, the_table_has_them_with_most_bytes_first,
         an_unknown_worker_is_an_error);
