// Calls between workers in the simulator.
#include "agent/state/agent.h"
#include "testing/cluster.h"
#include "testing/testing.h"

#include <gradwire.h>
#include <stdio.h>
#include <string.h>

// ---- Functions ----------------------------------------------------------------------------------

GW_FUNCTION(sim_echo, GW_INLINE, "any") {
    return gw_arg(s, a, 0);
}

GW_FUNCTION(sim_echo_on_pool, GW_POOL, "any") {
    return gw_arg(s, a, 0);
}

GW_FUNCTION(sim_two, GW_INLINE, "int, float?") {
    return gw_value_of((double)gw_arg_int(s, a, 0) +
                       (gw_arg_count(a) > 1 ? gw_arg_float(s, a, 1) : 0));
}

GW_FUNCTION(sim_unchecked, GW_INLINE) {
    return gw_value_of(gw_arg_int(s, a, 0));
}

GW_FUNCTION(sim_fail, GW_INLINE, "string") {
    gw_fail(s, GW_REMOTE, "%s", gw_arg_string(s, a, 0));
    return gw_none();
}

GW_FUNCTION(sim_nest, GW_POOL, "int") {
    int64_t depth = gw_arg_int(s, a, 0);
    if (depth == 0) return gw_value_of(0);
    int next = (gw_rpc_self(s).rank + 1) % gw_rpc_world_size(s);
    return gw_value_of(1 + gw_int_of(s, gw_rpc_sync(s, next, "sim_nest", depth - 1)));
}

GW_FUNCTION(sim_wait_inline, GW_INLINE) {
    return gw_rpc_sync(s, gw_rpc_self(s).rank, "sim_echo", 1);
}

// Waits until its own deadline.
GW_FUNCTION(sim_hang, GW_POOL) {
    return gw_wait(s, gw_future_open(s));
}

GW_FUNCTION(sim_time_left, GW_INLINE) {
    int64_t left = gw_scope_time_left_ms(s);
    return gw_value_of(left == INT64_MAX ? -1 : left);
}

GW_FUNCTION(sim_time_left_nested, GW_POOL) {
    return gw_rpc_sync(s, gw_rpc_self(s).rank, "sim_time_left");
}

static gw_value add_one(gw_scope *s, gw_value v, void *context) {
    (void)context;
    return gw_value_of(gw_int_of(s, v) + 1);
}

// Holds no thread until the other worker has answered.
GW_FUNCTION(sim_relay, GW_INLINE, "int, int") {
    gw_future *f =
        gw_rpc_async(s, (int)gw_arg_int(s, a, 0), "sim_echo_on_pool", gw_arg_int(s, a, 1));
    return gw_value_of(gw_then(s, f, add_one, NULL));
}

GW_FUNCTION(sim_random, GW_INLINE) {
    return gw_value_of(gw_rand(s, GW_F64, 2));
}

// ---- Values -------------------------------------------------------------------------------------

static void assert_same_tensor(gw_scope *s, gw_tensor *x, gw_tensor *y) {
    assert_true(gw_equal(s, x, y));
    assert_true(gw_ok(s));
}

static void send_all_kinds(gw_scope *root, int rank, void *context) {
    (void)context;
    if (rank != 0) return;
    for (int to = 0; to < gw_rpc_world_size(root); to++) {
        gw_scope *s = gw_scope_open(root);
        assert_int_equal(gw_rpc_sync(s, to, "sim_echo", gw_none()).kind, GW_NONE);
        assert_true(gw_bool_of(s, gw_rpc_sync(s, to, "sim_echo", (bool)true)));
        assert_int_equal(gw_int_of(s, gw_rpc_sync(s, to, "sim_echo", INT64_MIN)), INT64_MIN);
        assert_true(gw_float_of(s, gw_rpc_sync(s, to, "sim_echo", 2.5)) == 2.5);
        assert_string_equal(gw_string_of(s, gw_rpc_sync(s, to, "sim_echo", "text")), "text");
        gw_value bytes = gw_rpc_sync(s, to, "sim_echo", gw_value_of_bytes("a\0b", 3));
        assert_int_equal(bytes.size, 3);
        assert_memory_equal(bytes.as.bytes, "a\0b", 3);
        gw_worker self = gw_rpc_self(s);
        gw_worker worker = gw_worker_of(s, gw_rpc_sync(s, to, "sim_echo", &self));
        assert_string_equal(gw_worker_of(s, gw_rpc_sync(s, to, "sim_echo", self)).name, "w0");
        assert_string_equal(worker.name, "w0");

        gw_tensor *small = gw_arange(s, GW_F32, 0, 6, 1), *large = gw_randn(s, GW_F32, 60, 70);
        assert_same_tensor(s, small, gw_tensor_of(s, gw_rpc_sync(s, to, "sim_echo", small)));
        assert_same_tensor(s, large,
                           gw_tensor_of(s, gw_rpc_sync(s, to, "sim_echo_on_pool", large)));

        gw_list *list = gw_list_open(s);
        gw_list_add(s, list, 7);
        gw_list_add(s, list, large);
        gw_map *map = gw_map_open(s);
        gw_map_put(s, map, "list", list);
        gw_map *back = gw_map_of(s, gw_rpc_sync(s, to, "sim_echo", map));
        gw_list *items = gw_list_of(s, gw_map_get(s, back, "list"));
        assert_int_equal(gw_int_of(s, gw_list_get(s, items, 0)), 7);
        assert_same_tensor(s, large, gw_tensor_of(s, gw_list_get(s, items, 1)));
        assert_true(gw_ok(s));
        gw_scope_close_up(s);
    }
}

static void it_sends_and_returns_every_kind_of_value(void **state) {
    (void)state;
    cluster_run(1, (cluster_options){ .world_size = 2 }, send_all_kinds, NULL);
}

static void write_after_sending(gw_scope *root, int rank, void *context) {
    (void)context;
    if (rank != 0) return;
    for (int to = 0; to < 2; to++) {
        gw_tensor *x = gw_full(root, GW_F32, 1.0, 5000);
        gw_future *f = gw_rpc_async(root, to, "sim_echo", x);
        gw_copy_(root, x, gw_zeros(root, GW_F32, 5000));
        gw_tensor *sent = gw_tensor_of(root, gw_wait(root, f));
        assert_same_tensor(root, sent, gw_ones(root, GW_F32, 5000));
        // Each reader gets a separate tensor.
        gw_copy_(root, sent, x);
        assert_same_tensor(root, gw_tensor_of(root, gw_wait(root, f)), gw_ones(root, GW_F32, 5000));
        assert_same_tensor(root, x, gw_zeros(root, GW_F32, 5000));
    }
}

static void call_for_lists(gw_scope *s, int rank, void *context) {
    (void)context;
    if (rank) return;
    gw_tensor *x = gw_from(s, ((float[]){ 3, 1, 2 }), 3);
    gw_list *sorted = gw_list_of(s, gw_rpc_sync(s, 1, "gw.sort", x));
    assert_int_equal(gw_list_count(sorted), 2);
    assert_string_equal(gw_to_text(s, gw_tensor_of(s, gw_list_get(s, sorted, 0))),
                        "tensor([1., 2., 3.])");
    assert_string_equal(gw_to_text(s, gw_tensor_of(s, gw_list_get(s, sorted, 1))),
                        "tensor([1, 2, 0])");
    gw_requires_grad(s, x);
    gw_list *parts = gw_list_of(s, gw_rpc_sync(s, 1, "gw.split", x, 1));
    assert_int_equal(gw_list_count(parts), 3);
    gw_backward(s, gw_sum(s, gw_tensor_of(s, gw_list_get(s, parts, 1))));
    assert_string_equal(gw_to_text(s, gw_grad(s, x)), "tensor([0., 1., 0.])");
}

static void it_gets_several_results_of_an_operator_in_a_list(void **state) {
    (void)state;
    cluster_run(4, (cluster_options){ .world_size = 2 }, call_for_lists, NULL);
}

static void it_sends_the_values_of_arguments_at_the_call(void **state) {
    (void)state;
    cluster_run(2, (cluster_options){ .world_size = 2 }, write_after_sending, NULL);
}

// ---- Errors -------------------------------------------------------------------------------------

static void expect(gw_scope *s, gw_status status, gw_outcome outcome, const char *text) {
    const gw_error *e = gw_scope_error(s);
    assert_string_equal(e->text, text);
    assert_int_equal(e->status, status);
    assert_int_equal(e->outcome, outcome);
    gw_scope_clear(s);
}

static void make_mistakes(gw_scope *s, int rank, void *context) {
    (void)context;
    if (rank != 0) return;
    gw_rpc_sync(s, "w9", "sim_echo", 1);
    expect(s, GW_NOT_FOUND, GW_NOT_DELIVERED, "w0 has no worker named \"w9\"");
    gw_rpc_sync(s, 7, "sim_echo", 1);
    expect(s, GW_NOT_FOUND, GW_NOT_DELIVERED,
           "w0 knows no worker of rank 7: the job has 2 workers");
    gw_rpc_sync(s, "w1", "my_ad", 1);
    expect(s, GW_NOT_FOUND, GW_NOT_DELIVERED,
           "w1 has no function my_ad; is its object linked? (gradwire/function.h)");
    gw_rpc_sync(s, "w1", "sim_ecko", 1);
    expect(s, GW_NOT_FOUND, GW_NOT_DELIVERED,
           "w1 has no function sim_ecko; did you mean \"sim_echo\"?");
    gw_rpc_sync(s, "w1", "gw.ad", 1);
    expect(s, GW_NOT_FOUND, GW_NOT_DELIVERED, "w1 has no function gw.ad; did you mean \"gw.add\"?");
    gw_rpc_sync(s, "w1", "", 1);
    expect(s, GW_INVALID, GW_NOT_DELIVERED, "\"\" is not the name of a function");
    gw_rpc_sync(s, "w1", "sim_echo");
    expect(s, GW_INVALID, GW_NOT_DELIVERED, "w1: sim_echo: takes 1 argument, not 0");
    gw_rpc_sync(s, "w1", "sim_echo", 1, 2);
    expect(s, GW_INVALID, GW_NOT_DELIVERED, "w1: sim_echo: takes 1 argument, not 2");
    gw_rpc_sync(s, "w1", "sim_two", 1, 2.0, 3);
    expect(s, GW_INVALID, GW_NOT_DELIVERED, "w1: sim_two: takes at most 2 arguments, not 3");
    gw_rpc_sync(s, "w1", "sim_two", "one");
    expect(s, GW_INVALID, GW_NOT_DELIVERED, "w1: sim_two: argument 0 is string, not int");
    assert_true(gw_float_of(s, gw_rpc_sync(s, "w1", "sim_two", 1, 2)) == 3);
    gw_rpc_sync(s, "w1", "sim_unchecked", "one");
    expect(s, GW_INVALID, GW_RAN_AND_FAILED, "w1: sim_unchecked: argument 0 is string, not int");
    gw_rpc_sync(s, "w1", "sim_unchecked");
    expect(s, GW_INVALID, GW_RAN_AND_FAILED,
           "w1: sim_unchecked: argument 0 is missing: the call has 0 arguments");
    gw_rpc_sync(s, "w1", "sim_fail", "no more memory");
    expect(s, GW_REMOTE, GW_RAN_AND_FAILED, "w1: sim_fail: no more memory");
    gw_rpc_sync(s, "w1", "gw.matmul", gw_ones(s, GW_F32, 6, 5), gw_ones(s, GW_F32, 4, 8));
    expect(s, GW_INVALID, GW_RAN_AND_FAILED,
           "w1: gw.matmul: 6x5 times 4x8: the 5 columns of a must be the 4 rows of b");
    gw_rpc_sync(s, "w1", "sim_wait_inline");
    expect(s, GW_WOULD_BLOCK, GW_RAN_AND_FAILED,
           "w1: sim_wait_inline: a wait in the GW_INLINE function sim_wait_inline, which must not "
           "block: only GW_POOL functions may block");
    gw_scope_label(s, "step 12");
    gw_rpc_sync(s, "w1", "sim_fail", "why not");
    assert_string_equal(gw_scope_error(s)->worker, "w1");
    assert_string_equal(gw_scope_error(s)->function, "sim_fail");
    expect(s, GW_REMOTE, GW_RAN_AND_FAILED, "step 12: w1: sim_fail: why not");
}

GW_CALLERS(sim_for_w0, "w0");
GW_FUNCTION(sim_for_w0, GW_INLINE) {
    (void)a;
    return gw_value_of(gw_rpc_self(s).rank);
}

typedef struct sim_ours {
    int64_t n;
} sim_ours;

GW_CALLERS(sim_ours, "trainer%d");
GW_CLASS(sim_ours, sim_ours_open);
static void sim_ours_open(gw_scope *own, sim_ours *self, const gw_args *a) {
    (void)own;
    (void)a;
    self->n = 1;
}

static void call_restricted_functions(gw_scope *s, int rank, void *context) {
    (void)context;
    for (int to = 0; to < 2; to++) {
        const char *name = to ? "w1" : "w0";
        int64_t answer = gw_int_of(s, gw_rpc_sync(s, name, "sim_for_w0"));
        if (rank == 0) assert_int_equal(answer, to);
        char words[128];
        snprintf(words, sizeof words,
                 "%s: sim_for_w0: only workers named \"w0\" may call it, not w1", name);
        if (rank == 1) expect(s, GW_UNSUPPORTED, GW_NOT_DELIVERED, words);
        gw_to_here_value(s, gw_remote(s, name, "sim_ours"));
        assert_int_equal(gw_scope_error(s)->status, GW_UNSUPPORTED);
        assert_non_null(
            strstr(gw_scope_error(s)->text, "only workers named \"trainer%d\" may call it, not"));
        gw_scope_clear(s);
    }
}

static void restricted_functions_refuse_other_callers(void **state) {
    (void)state;
    cluster_run(4, (cluster_options){ .world_size = 2 }, call_restricted_functions, NULL);
}

static void it_describes_a_wrong_call_in_one_error_text(void **state) {
    (void)state;
    cluster_run(3, (cluster_options){ .world_size = 2 }, make_mistakes, NULL);
}

static void fail_late(gw_scope *s, int rank, void *context) {
    (void)context;
    if (rank != 0) return;
    gw_future *f = gw_rpc_async(s, "w9", "sim_echo", 1);
    assert_true(gw_ok(s));
    assert_true(gw_future_done(f));
    gw_future *g = gw_rpc_async(s, "w1", "sim_fail", "late");
    gw_future *both[] = { g, f };
    gw_wait_all(s, both, 2);
    expect(s, GW_REMOTE, GW_RAN_AND_FAILED, "w1: sim_fail: late");
    gw_wait(s, f);
    expect(s, GW_NOT_FOUND, GW_NOT_DELIVERED, "w0 has no worker named \"w9\"");
    // Calls in a failed scope do nothing.
    gw_fail(s, GW_CANCELLED, "enough");
    uint64_t made = gw_rpc_get_stats(s).calls_made;
    gw_future *poison = gw_rpc_async(s, "w1", "sim_echo", 1);
    gw_rpc_sync(s, "w1", "sim_echo", 1);
    assert_int_equal(gw_rpc_get_stats(s).calls_made, made);
    expect(s, GW_CANCELLED, GW_OUTCOME_NONE, "enough");
    gw_wait(s, poison);
    expect(s, GW_INVALID, GW_OUTCOME_NONE,
           "the future is the result of a call that failed in another scope");
}

GW_FUNCTION(sim_lost_result, GW_INLINE) {
    gw_scope *inner = gw_scope_open(s);
    gw_fail(inner, GW_TIMEOUT, "a text of its own");
    gw_tensor *lost = gw_keep(s, gw_ones(inner, GW_F32));
    gw_error ignored = gw_scope_close(inner);
    (void)ignored;
    return gw_value_of(lost);
}

static void send_failed_values(gw_scope *s, int rank, void *context) {
    (void)context;
    if (rank != 0) return;
    gw_scope *inner = gw_scope_open(s);
    gw_fail(inner, GW_TIMEOUT, "the first error");
    gw_tensor *lost = gw_keep(s, gw_ones(inner, GW_F32));
    gw_list *list = gw_list_open(inner);
    assert_int_equal(gw_scope_close(inner).status, GW_TIMEOUT);
    gw_rpc_sync(s, "w1", "gw.add", lost, 1);
    expect(s, GW_INVALID, GW_NOT_DELIVERED,
           "the tensor was made in a scope that has failed: the first error");
    gw_rpc_sync(s, "w1", "sim_echo", list);
    expect(s, GW_INVALID, GW_NOT_DELIVERED, "the list was made in a scope that has failed");
    gw_rpc_sync(s, "w1", "sim_lost_result");
    expect(
        s, GW_INVALID, GW_RAN_AND_FAILED,
        "w1: sim_lost_result: the tensor was made in a scope that has failed: a text of its own");
}

static void failed_values_are_no_arguments_and_no_results(void **state) {
    (void)state;
    cluster_run(4, (cluster_options){ .world_size = 2 }, send_failed_values, NULL);
}

static void it_reports_errors_where_results_are_waited_for(void **state) {
    (void)state;
    cluster_run(4, (cluster_options){ .world_size = 2 }, fail_late, NULL);
}

// ---- Nesting ------------------------------------------------------------------------------------

static void nest(gw_scope *s, int rank, void *context) {
    (void)context;
    if (rank != 0) return;
    int to = gw_rpc_world_size(s) - 1;
    assert_int_equal(gw_int_of(s, gw_rpc_sync(s, to, "sim_nest", 63)), 63);
    assert_true(gw_ok(s));
    gw_rpc_sync(s, to, "sim_nest", 64);
    assert_int_equal(gw_scope_error(s)->status, GW_LIMIT);
    assert_non_null(
        strstr(gw_scope_error(s)->text, "functions call each other more than 64 levels deep"));
    gw_scope_clear(s);
}

static void it_nests_calls_to_the_limit_with_a_pool_of_one(void **state) {
    (void)state;
    for (int world_size = 1; world_size <= 3; world_size++)
        cluster_run(5, (cluster_options){ .world_size = world_size, .threads = 1 }, nest, NULL);
}

static void nest_from_both_sides(gw_scope *s, int rank, void *context) {
    (void)context;
    gw_future *fs[20];
    for (int i = 0; i < 20; i++) fs[i] = gw_rpc_async(s, 1 - rank, "sim_nest", 10);
    gw_wait_all(s, fs, 20);
    for (int i = 0; i < 20; i++) assert_int_equal(gw_int_of(s, gw_wait(s, fs[i])), 10);
}

static void nest_with_seed(uint64_t seed, void *context) {
    (void)context;
    cluster_run(seed, (cluster_options){ .world_size = 2, .threads = 1 }, nest_from_both_sides,
                NULL);
}

static void it_nests_from_both_sides_at_once(void **state) {
    (void)state;
    testing_for_seeds(20, nest_with_seed, NULL);
}

static void relay(gw_scope *s, int rank, void *context) {
    (void)context;
    if (rank != 0) return;
    gw_future *fs[30];
    for (int i = 0; i < 30; i++) fs[i] = gw_rpc_async(s, 1, "sim_relay", 2, i);
    for (int i = 0; i < 30; i++) assert_int_equal(gw_int_of(s, gw_wait(s, fs[i])), i + 1);
    gw_future *f = gw_rpc_async(s, 1, "sim_relay", 9, 1);
    gw_wait(s, f);
    expect(s, GW_NOT_FOUND, GW_RAN_AND_FAILED,
           "w1: sim_relay: w1 knows no worker of rank 9: the job has 3 workers");
}

static void it_replies_when_a_returned_future_resolves(void **state) {
    (void)state;
    cluster_run(6, (cluster_options){ .world_size = 3, .threads = 1 }, relay, NULL);
}

// ---- Limits -------------------------------------------------------------------------------------

static void call_too_often(gw_scope *root, int rank, void *context) {
    (void)context;
    if (rank != 0) return;
    gw_scope *s = gw_scope_open(root);
    gw_future *argument = gw_future_open(s), *first = gw_rpc_async(s, 1, "sim_echo", argument);
    for (int i = 0; i < 65535; i++) gw_rpc_async(s, 1, "sim_echo", argument);
    // The next call waits until its deadline.
    gw_future *last = gw_rpc_async_with(s, gw_to(1), "sim_echo", GW_ARGS(1),
                                        GW_OPTIONS(gw_call_options, .timeout_ms = 50));
    gw_wait(s, last);
    expect(s, GW_OVERLOADED, GW_NOT_DELIVERED, "w1: 65536 calls to that worker have not returned");
    gw_future_set(s, argument, 7);
    assert_int_equal(gw_int_of(s, gw_wait(s, first)), 7);
    gw_scope_close_up(s);
}

static void it_limits_the_number_of_pending_calls(void **state) {
    (void)state;
    cluster_run(10, (cluster_options){ .world_size = 2 }, call_too_often, NULL);
}

// Each makes two more calls on the other worker, without end.
GW_FUNCTION(sim_bomb, GW_POOL) {
    (void)a;
    int other = 1 - gw_rpc_self(s).rank;
    gw_future *fs[] = { gw_rpc_async(s, other, "sim_bomb"), gw_rpc_async(s, other, "sim_bomb") };
    gw_wait_all(s, fs, 2);
    return gw_none();
}

static void bomb(gw_scope *root, int rank, void *context) {
    (void)context;
    gw_scope *s = gw_scope_open(root);
    if (rank == 0) {
        gw_scope_set_timeout(s, 50);
        gw_rpc_sync(s, 1, "sim_bomb");
        assert_int_equal(gw_scope_error(s)->status, GW_TIMEOUT);
        gw_scope_clear(s);
    }
    // Unrelated callers are answered meanwhile, and all are afterwards.
    for (int i = 0; rank == 2 && i < 100; i++)
        assert_int_equal(gw_int_of(s, gw_rpc_sync(s, i % 2, "sim_echo", i)), i);
    gw_scope_close_up(s);
    assert_int_equal(gw_int_of(root, gw_rpc_sync(root, 1 - rank % 2, "sim_nest", 20)), 20);
}

static void calls_that_multiply_end_with_the_first_deadline(void **state) {
    (void)state;
    cluster_run(11, (cluster_options){ .world_size = 3 }, bomb, NULL);
}

// ---- Deadlines ----------------------------------------------------------------------------------

static void run_out_of_time(gw_scope *root, int rank, void *context) {
    (void)context;
    if (rank != 0) return;
    gw_call_options quick = GW_OPTIONS(gw_call_options, .timeout_ms = 50);
    gw_scope *s = gw_scope_open(root);
    gw_rpc_sync_with(s, gw_to("w1"), "sim_hang", GW_NO_ARGS, quick);
    expect(s, GW_TIMEOUT, GW_MAY_HAVE_RUN, "w1: sim_hang: no reply within 50 ms");
    gw_future *f = gw_rpc_async_with(s, gw_to("w1"), "sim_hang", GW_NO_ARGS, quick);
    gw_wait(s, f);
    expect(s, GW_TIMEOUT, GW_MAY_HAVE_RUN, "w1: sim_hang: no reply within 50 ms");

    // The default is 60 s; a shorter one of the scope counts, and nested calls get it.
    assert_in_range(gw_int_of(s, gw_rpc_sync(s, "w1", "sim_time_left")), 59000, 60000);
    gw_scope_set_timeout(s, 5000);
    assert_in_range(gw_int_of(s, gw_rpc_sync(s, "w1", "sim_time_left")), 4000, 5000);
    assert_in_range(gw_int_of(s, gw_rpc_sync(s, "w1", "sim_time_left_nested")), 4000, 5000);
    gw_call_options none = GW_OPTIONS(gw_call_options, .timeout_ms = GW_NO_TIMEOUT);
    assert_in_range(
        gw_int_of(s, gw_rpc_sync_with(s, gw_to("w1"), "sim_time_left", GW_NO_ARGS, none)), 4000,
        5000);
    assert_int_equal(
        gw_int_of(root, gw_rpc_sync_with(root, gw_to("w1"), "sim_time_left", GW_NO_ARGS, none)),
        -1);

    f = gw_rpc_async(root, "w1", "sim_echo_on_pool", 1);
    gw_scope_set_timeout(s, 1);
    gw_rpc_sync(s, "w1", "sim_hang");
    expect(s, GW_TIMEOUT, GW_MAY_HAVE_RUN, "w1: sim_hang: no reply within 1 ms");
    assert_int_equal(gw_int_of(root, gw_wait(root, f)), 1);
    gw_scope_close_up(s);
}

static void it_keeps_deadlines(void **state) {
    (void)state;
    cluster_outcome o = cluster_run(7, (cluster_options){ .world_size = 2 }, run_out_of_time, NULL);
    assert_true(o.took_ns < 2 * SIM_SECOND);
}

// ---- Randomness ---------------------------------------------------------------------------------

static void draw(gw_scope *s, int rank, void *context) {
    double *out = context;
    if (rank != 0) return;
    gw_seed(s, 7);
    int to = gw_rpc_world_size(s) - 1;
    for (int i = 0; i < 3; i++) {
        gw_tensor *x = gw_tensor_of(s, gw_rpc_sync(s, to, "sim_random"));
        memcpy(out + 2 * i, gw_data(x), 2 * sizeof *out);
    }
}

static void it_draws_the_same_numbers_at_any_world_size_and_timing(void **state) {
    (void)state;
    double first[6], again[6];
    cluster_run(8, (cluster_options){ .world_size = 1 }, draw, first);
    assert_true(first[0] != first[2]);
    for (int world_size = 2; world_size < 5; world_size++) {
        cluster_run((uint64_t)world_size, (cluster_options){ .world_size = world_size }, draw,
                    again);
        assert_memory_equal(first, again, sizeof first);
    }
}

static void draw_unseeded(gw_scope *s, int rank, void *context) {
    double *out = context;
    out[2 * rank] = gw_item(s, gw_rand(s, GW_F64));
    gw_tensor *x = gw_tensor_of(s, gw_rpc_sync(s, 0, "sim_random"));
    out[2 * rank + 1] = gw_item(s, gw_select(s, x, 0, 0));
}

static void workers_without_a_seed_draw_different_numbers_each_run_the_same(void **state) {
    (void)state;
    double first[4], again[4];
    cluster_run(8, (cluster_options){ .world_size = 2 }, draw_unseeded, first);
    assert_true(first[0] != first[2]);
    assert_true(first[1] != first[3]);
    cluster_run(9, (cluster_options){ .world_size = 2 }, draw_unseeded, again);
    assert_memory_equal(first, again, sizeof first);
}

// ---- Memory of the program ----------------------------------------------------------------------

typedef struct lent_memory {
    env *env;
    float numbers[4096];
    int released;
} lent_memory;

static void count_release(void *context) {
    lent_memory *m = context;
    assert_false(env_held(m->env));
    m->released++;
}

// The last user of the numbers is the message, until it is acknowledged.
static void send_own_memory(gw_scope *s, int rank, void *context) {
    lent_memory *m = context;
    if (rank != 0) return;
    m->env = agent_of(s)->env;
    for (int i = 1; i <= 20; i++) {
        gw_scope *t = gw_scope_open(s);
        gw_tensor *x = gw_from_blob(t, GW_F32, m->numbers, GW_SHAPE(4096), count_release, m);
        gw_rpc_notify(t, 1, "gw.sum", x);
        gw_scope_close_up(t);
        while (m->released < i) gw_rpc_sync(s, 1, "gw.sum", gw_ones(s, GW_F32, 1));
    }
}

static void release_callbacks_run_without_the_loop_lock(void **state) {
    (void)state;
    lent_memory m = { 0 };
    cluster_run(1, (cluster_options){ .world_size = 2 }, send_own_memory, &m);
    assert_int_equal(m.released, 20);
}

GW_TESTS(rpc_sim, it_sends_and_returns_every_kind_of_value,
         it_gets_several_results_of_an_operator_in_a_list,
         it_sends_the_values_of_arguments_at_the_call, it_describes_a_wrong_call_in_one_error_text,
         restricted_functions_refuse_other_callers, failed_values_are_no_arguments_and_no_results,
         it_reports_errors_where_results_are_waited_for,
         it_nests_calls_to_the_limit_with_a_pool_of_one, it_nests_from_both_sides_at_once,
         it_replies_when_a_returned_future_resolves, it_limits_the_number_of_pending_calls,
         calls_that_multiply_end_with_the_first_deadline, it_keeps_deadlines,
         it_draws_the_same_numbers_at_any_world_size_and_timing,
         workers_without_a_seed_draw_different_numbers_each_run_the_same,
         release_callbacks_run_without_the_loop_lock);
