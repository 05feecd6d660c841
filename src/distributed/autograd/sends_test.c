// How many sends a worker stores for each receiver, and its memory of sends that are gone.
#include "distributed/autograd/passes.h"

#include "base/mem.h"
#include "testing/cluster.h"
#include "testing/testing.h"
#include <gradwire.h>
#include <string.h>

GW_FUNCTION(sends_double, GW_INLINE, "tensor") {
    return gw_value_of(gw_mul(s, gw_arg_tensor(s, a, 0), gw_full(s, GW_F32, 2.0)));
}

// Acts as if that many messages had been sent to the caller.
GW_FUNCTION(sends_count_for_caller, GW_INLINE, "int") {
    agent *here = s->agent;
    env_enter(here->env);
    passes_peer_of_on_loop(here, gw_arg_caller(a).rank)->send_count = (uint32_t)gw_arg_int(s, a, 0);
    env_leave(here->env);
    return gw_none();
}

static gw_tensor *call_double(gw_scope *s, int to) {
    gw_tensor *x = gw_requires_grad(s, gw_ones(s, GW_F32, 2));
    return gw_tensor_of(s, gw_rpc_sync(s, to, "sends_double", x));
}

static void expect(gw_scope *s, gw_status status, const char *text) {
    assert_string_equal(gw_scope_error(s)->text, text);
    assert_int_equal(gw_scope_error(s)->status, status);
    gw_scope_clear(s);
}

static void use_up(gw_scope *root, int rank, void *context) {
    (void)context;
    int count;
    gw_scope *s = gw_scope_open(root);
    if (rank == 1) {
        gw_rpc_sync(s, 0, "sends_count_for_caller", LIMIT_SENDS_PER_PEER - 1);
        gw_backward(s, gw_sum(s, call_double(s, 0)));
        assert_true(gw_ok(s));
        gw_rpc_sync(s, 0, "sends_count_for_caller", LIMIT_SENDS_PER_PEER);
        call_double(s, 0);
        expect(s, GW_LIMIT,
               "w0: 1048576 messages with tensors that need a gradient are kept on this worker for "
               "w1");
    }
    gw_rpc_barrier(s, gw_rpc_workers(s, &count), 3);
    if (rank == 2) {
        gw_backward(s, gw_sum(s, call_double(s, 0)));
        assert_true(gw_ok(s));
    }
    gw_rpc_barrier(s, gw_rpc_workers(s, &count), 3);
    if (rank == 1) gw_rpc_sync(s, 0, "sends_count_for_caller", 0);
    gw_scope_close_up(s);
}

static void one_member_does_not_use_up_the_limits_of_others(void **state) {
    (void)state;
    cluster_run(1, (cluster_options){ .world_size = 3 }, use_up, NULL);
}

// ---- Limits -------------------------------------------------------------------------------------

static uint32_t count_for(agent *a, int rank) {
    env_enter(a->env);
    uint32_t count = passes_peer_of_on_loop(a, rank)->send_count;
    env_leave(a->env);
    return count;
}

static void count(gw_scope *root, int rank, void *context) {
    (void)context;
    if (rank) return;
    gw_scope *s = gw_scope_open(root);
    gw_tensor *y = call_double(s, 1);
    assert_int_equal(count_for(root->agent, 1), 1);
    gw_backward(s, gw_sum(s, y));
    assert_int_equal(count_for(root->agent, 1), 0);
    gw_scope_close_up(s);
}

static void a_pass_frees_sends_that_count_against_the_limits(void **state) {
    (void)state;
    cluster_run(1, (cluster_options){ .world_size = 2 }, count, NULL);
}

enum { CROSSINGS = 400 };

// A graph goes to and fro between two workers and is dropped without a pass. Each receive ends only
// after the send behind it has been released.
static void drop(gw_scope *root, int rank, void *context) {
    (void)context;
    if (rank) return;
    gw_scope *s = gw_scope_open(root);
    gw_tensor *x = gw_requires_grad(s, gw_ones(s, GW_F32, 2));
    for (int i = 0; i < CROSSINGS / 2; i++)
        x = gw_tensor_of(s, gw_rpc_sync(s, 1, "sends_double", x));
    const agent *a = root->agent;
    int64_t began_ns = env_now_ns(a->env);
    gw_scope_close_up(s);
    while (count_for(root->agent, 1)) gw_rpc_sync(root, 1, "sends_double", gw_ones(root, GW_F32));
    int64_t took_us = (env_now_ns(a->env) - began_ns) / 1000;
    assert_in_range(took_us, 0, CROSSINGS * 200);  // while a release on its own waits for 1 ms
}

static void a_long_graph_is_dropped_at_the_pace_of_messages(void **state) {
    (void)state;
    sim_options quick = { .delay_max_us = 20 };
    cluster_run(1, (cluster_options){ .world_size = 2, .network = quick }, drop, NULL);
}

static int fail_receive(size_t size) {
    return size == sizeof(receive);
}

static void refuse(gw_scope *root, int rank, void *context) {
    (void)context;
    if (rank) return;
    gw_scope *s = gw_scope_open(root);
    mem_fail_hook = fail_receive;
    call_double(s, 1);
    assert_int_equal(gw_scope_error(s)->status, GW_NO_MEMORY);
    gw_scope_clear(s);
    gw_rpc_sync(s, 1, "sends_count_for_caller", 0);
    mem_fail_hook = NULL;
    assert_int_equal(count_for(root->agent, 1), 0);
    assert_int_equal(graphs_of(root->agent)->sends.count, 0);
    gw_scope_close_up(s);
}

static void a_send_without_memory_is_released(void **state) {
    (void)state;
    cluster_run(1, (cluster_options){ .world_size = 2 }, refuse, NULL);
}

// ---- Remembering --------------------------------------------------------------------------------

static void lose(gw_scope *root, int rank, void *context) {
    (void)context;
    agent *a = root->agent;
    if (rank) return;
    gw_scope *s = gw_scope_open(root);
    call_double(s, 1);
    uint64_t id = graphs_of(a)->last_send;
    env_enter(a->env);
    sends_give_up_on_loop(a, id, 1);
    assert_null(sends_find_on_loop(a, id));
    assert_int_equal(sends_lost_with_on_loop(a, id), 1);
    assert_int_equal(sends_lost_with_on_loop(a, id + 1), -1);
    env_leave(a->env);
    gw_scope_close_up(s);
}

static void it_remembers_the_lost_worker_of_a_send(void **state) {
    (void)state;
    cluster_run(1, (cluster_options){ .world_size = 2 }, lose, NULL);
}

// ---- gw.marks -----------------------------------------------------------------------------------

static void check_upstream(gw_scope *root, int rank, void *context) {
    (void)context;
    if (rank) return;
    mark m = { .rank = 1, .slot = 0, .send = 9 };
    gw_rpc_sync(root, 1, "gw.marks", gw_value_of_bytes(&m, sizeof m - 1));
    expect(root, GW_INVALID, "w1: gw.marks: malformed marks: 15 bytes");
    gw_rpc_sync(root, 1, "gw.marks", gw_value_of_bytes(&m, sizeof m));
    assert_int_equal(gw_scope_error(root)->status, GW_WRONG_STATE);
    gw_scope_clear(root);
    // The same slot is requested many times; the walk visits each node once.
    gw_tensor *y = call_double(root, 1);
    mark many[100];
    for (int i = 0; i < 100; i++) many[i] = (mark){ .rank = 1, .slot = 0, .send = 1 };
    gw_value v = gw_rpc_sync(root, 1, "gw.marks", gw_value_of_bytes(many, sizeof many));
    assert_int_equal(v.size, 2 * sizeof(uint32_t) + sizeof(mark));
    gw_backward(root, gw_sum(root, y));
}

static void it_reports_upstream_sends_and_refuses_unknown_numbers(void **state) {
    (void)state;
    cluster_run(1, (cluster_options){ .world_size = 2 }, check_upstream, NULL);
}

GW_TESTS(distributed_sends, one_member_does_not_use_up_the_limits_of_others,
         a_pass_frees_sends_that_count_against_the_limits, a_send_without_memory_is_released,
         a_long_graph_is_dropped_at_the_pace_of_messages, it_remembers_the_lost_worker_of_a_send,
         it_reports_upstream_sends_and_refuses_unknown_numbers);
