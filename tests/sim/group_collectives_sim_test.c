// Collectives of groups in the simulator: their results, and their errors.
#include "base/map.h"
#include "collective/group/group.h"
#include "collective/plan/plan.h"
#include "testing/cluster.h"
#include "testing/testing.h"

#include <gradwire.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static cluster_options workers(int count) {
    return (cluster_options){ .world_size = count };
}

static void expect_numbers(gw_scope *s, gw_tensor *x, const char *text) {
    if (!gw_ok(s)) fail_msg("%s", gw_scope_error(s)->text);
    assert_string_equal(gw_to_text(s, x), text);
}

// ---- Results ------------------------------------------------------------------------------------

static void try_all(gw_scope *s, int rank, void *context) {
    (void)context;
    gw_group *g = gw_group_world(s);
    int n = gw_group_size(g);
    assert_int_equal(gw_group_rank(g), rank);
    float row[] = { (float)rank, 1 };
    gw_tensor *x = gw_from(s, row, 2);
    expect_numbers(s, gw_all_reduce(s, g, x, GW_SUM), "tensor([3., 3.])");
    expect_numbers(s, gw_all_reduce(s, g, x, GW_MAX), "tensor([2., 1.])");
    expect_numbers(s, gw_all_reduce(s, g, x, GW_AVG), "tensor([1., 1.])");
    expect_numbers(s, gw_reduce(s, g, x, GW_SUM, 1), rank == 1 ? "tensor([3., 3.])" : "tensor([])");
    expect_numbers(s, gw_broadcast(s, g, rank == 2 ? x : NULL, 2), "tensor([2., 1.])");
    expect_numbers(s, gw_all_gather(s, g, x), "tensor([0., 1., 1., 1., 2., 1.])");
    expect_numbers(s, gw_gather_to(s, g, x, 0),
                   rank ? "tensor([])" : "tensor([0., 1., 1., 1., 2., 1.])");
    gw_list *each = gw_list_open(s);
    for (int i = 0; i < n; i++) gw_list_add(s, each, gw_full(s, GW_I64, i * 10, i));
    gw_tensor *item = gw_scatter_from(s, g, rank ? NULL : each, 0);
    assert_int_equal(gw_numel(item), rank);
    gw_tensor *rows = gw_full(s, GW_F32, rank + 1, 3, 2);
    expect_numbers(s, gw_reduce_scatter(s, g, rows, GW_SUM), "tensor([[6., 6.]])");
    gw_tensor *to = gw_from(s, ((float[]){ 10.f * rank, 10.f * rank + 1, 10.f * rank + 2 }), 3);
    gw_tensor *received = gw_all_to_all(s, g, to);
    for (int i = 0; i < n; i++)
        assert_int_equal((int)((const float *)gw_data(received))[i], 10 * i + rank);
    gw_list *all = gw_all_gather_value(s, g, rank * 7);
    assert_int_equal(gw_list_count(all), n);
    for (int i = 0; i < n; i++) assert_int_equal(gw_int_of(s, gw_list_get(s, all, i)), i * 7);
    assert_string_equal(gw_string_of(s, gw_broadcast_value(s, g, rank == 1 ? "hello" : "no", 1)),
                        "hello");
    gw_barrier(s, g);
    assert_true(gw_ok(s));
}

static void every_operation_returns_its_defined_result(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++) cluster_run(seed, workers(3), try_all, NULL);
}

// ---- Sizes --------------------------------------------------------------------------------------

static void try_sizes(gw_scope *s, int rank, void *context) {
    (void)context;
    gw_group *g = gw_group_world(s);
    int n = gw_group_size(g);
    const int64_t sizes[] = { 0, 1, 5, 1000, 1001, 20000, 70001 };
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        gw_scope *t = gw_scope_open(s);
        gw_tensor *x = gw_full(t, GW_I64, rank + 1, sizes[i]);
        gw_tensor *sum = gw_all_reduce(t, g, x, GW_SUM);
        assert_int_equal(gw_numel(sum), sizes[i]);
        int64_t total = gw_item_int(t, gw_sum(t, sum));
        if (gw_ok(t)) assert_int_equal(total, sizes[i] * n * (n + 1) / 2);
        gw_tensor *all = gw_all_gather(t, g, gw_full(t, GW_I64, rank, sizes[i] + rank));
        if (gw_ok(t)) assert_int_equal(gw_numel(all), n * sizes[i] + n * (n - 1) / 2);
        gw_error e = gw_scope_close(t);
        if (e.status) fail_msg("%s", e.text);
    }
}

static void sizes_do_not_matter(void **state) {
    (void)state;
    for (int n = 1; n <= 5; n++)
        for (uint64_t seed = 1; seed <= 3; seed++) cluster_run(seed, workers(n), try_sizes, NULL);
}

enum { LARGE_NUMBERS = 240000 };

// Numbers that contain their index and the rank of their member.
static gw_tensor *large_of(gw_scope *s, int rank, int64_t count) {
    gw_tensor *x = gw_zeros(s, GW_I32, count);
    int32_t *at = gw_data_for_write(s, x);
    for (int64_t i = 0; i < count; i++) at[i] = (int32_t)(i * 8 + rank);
    return x;
}

static void expect_large(gw_scope *s, gw_tensor *x, int64_t first, int64_t count, int64_t from,
                         int rank) {
    if (!gw_ok(s)) fail_msg("%s", gw_scope_error(s)->text);
    const int32_t *at = gw_data(x);
    for (int64_t i = 0; i < count; i++)
        if (at[first + i] != (from + i) * 8 + rank)
            fail_msg("%lld is %d", (long long)(first + i), at[first + i]);
}

// Two members to a host, as if their addresses were equal; stars have up to four centers.
static void put_on_hosts(gw_group *g) {
    g->place.processors = 4;
    if (g->count % 2 == 0) g->place.host_size = 2;
}

static void exchange_large(gw_scope *s, int rank, void *context) {
    (void)context;
    gw_group *g = gw_group_world(s);
    int n = gw_group_size(g);
    put_on_hosts(g);
    int64_t each = LARGE_NUMBERS / n;
    gw_tensor *x = large_of(s, rank, LARGE_NUMBERS), *all = gw_all_gather(s, g, x);
    for (int i = 0; i < n; i++) expect_large(s, all, i * LARGE_NUMBERS, LARGE_NUMBERS, 0, i);
    gw_tensor *received = gw_all_to_all(s, g, x);
    for (int i = 0; i < n; i++) expect_large(s, received, i * each, each, rank * each, i);
    // Members contribute different numbers of rows.
    gw_tensor *uneven = gw_gather_to(s, g, large_of(s, rank, LARGE_NUMBERS + rank), 0);
    for (int i = 0; i < n && rank == 0; i++)
        expect_large(s, uneven, i * LARGE_NUMBERS + i * (i - 1) / 2, LARGE_NUMBERS + i, 0, i);
    // As one dimension, and as 3 rows, of which some pieces have none.
    gw_tensor *first = gw_broadcast(s, g, rank == n - 1 ? x : NULL, n - 1);
    expect_large(s, first, 0, LARGE_NUMBERS, 0, n - 1);
    first = gw_broadcast(s, g, gw_reshape(s, x, 3, LARGE_NUMBERS / 3), 0);
    expect_large(s, first, 0, LARGE_NUMBERS, 0, 0);
    assert_int_equal(gw_size(first, 0), 3);
    gw_list *items = gw_list_open(s);
    for (int i = 0; i < n; i++) gw_list_add(s, items, large_of(s, i, LARGE_NUMBERS));
    expect_large(s, gw_scatter_from(s, g, items, 0), 0, LARGE_NUMBERS, 0, rank);
    gw_tensor *sum = gw_all_reduce(s, g, x, GW_SUM), *most = gw_reduce(s, g, x, GW_MAX, n - 1);
    if (rank == n - 1) expect_large(s, most, 0, LARGE_NUMBERS, 0, n - 1);
    const int32_t *at = gw_data(sum);
    for (int64_t i = 0; i < LARGE_NUMBERS; i++)
        if (at[i] != n * i * 8 + n * (n - 1) / 2) fail_msg("%lld is %d", (long long)i, at[i]);
}

static void exchange_large_over_connections_that_break(uint64_t seed, void *context) {
    (void)context;
    int n = 2 + (int)(seed % 3);
    cluster_options o = workers(n);
    o.faults = (sim_faults){ .nodes = n, .until_ns = 20000000, .cuts = 3 };
    cluster_run(seed, o, exchange_large, NULL);
}

// For the operations that have such a plan.
static void prefer_plans(plan_kind kind) {
    for (int o = 0; o < OPERATION_COUNT; o++)
        plan_prefer((operation)o, plan_exists((operation)o, kind) ? kind : PLAN_AUTO);
}

// Pieces of the result are at their offsets, also if they arrive twice.
static void large_pieces_are_written_at_their_offsets(void **state) {
    (void)state;
    for (int kind = PLAN_KIND_COUNT - 1; kind >= PLAN_AUTO; kind--) {
        prefer_plans((plan_kind)kind);
        testing_for_seeds(3, exchange_large_over_connections_that_break, NULL);
    }
}

// How long each member takes, in nanoseconds of the simulation, if rank 1 calls after the messages of rank 0 about the
// collective have arrived. |to|: the rank that gathers; -1: both do.
static int64_t times_ns[2];

static void time_with_late(gw_scope *s, gw_group *g, gw_tensor *x, int to) {
    env *e = g->agent->env;
    bool is_late = gw_group_rank(g) == 1;
    gw_barrier(s, g);
    if (is_late) gw_recv(s, g, 0);
    int64_t start_ns = env_now_ns(e);
    gw_future *f = to < 0 ? gw_all_gather_async(s, g, x) : gw_gather_to_async(s, g, x, to);
    if (!is_late) gw_send(s, g, gw_ones(s, GW_F32), 1);
    gw_wait(s, f);
    times_ns[gw_group_rank(g)] = env_now_ns(e) - start_ns;
    gw_barrier(s, g);
    if (!gw_ok(s)) fail_msg("%s", gw_scope_error(s)->text);
}

static void exchange_at_once(gw_scope *s, int rank, void *context) {
    (void)context;
    gw_group *g = gw_group_world(s);
    gw_tensor *x = large_of(s, rank, LARGE_NUMBERS);
    int64_t one_way_ns[2];
    for (int to = 0; to < 2; to++) {
        time_with_late(s, g, x, to);
        one_way_ns[to] = times_ns[to];
    }
    time_with_late(s, g, x, -1);
    for (int i = 0; i < 2; i++)
        if (times_ns[i] > one_way_ns[i] * 3 / 2)
            fail_msg("w%d: both ways take %lld us, one way takes %lld us", i,
                     (long long)times_ns[i] / 1000, (long long)one_way_ns[i] / 1000);
}

// A late member sends its large value at once, and the other one sends its own concurrently.
static void large_values_are_exchanged_concurrently(void **state) {
    (void)state;
    setenv("GW_LEND", "0", 1);  // all of it goes over the network
    cluster_options o = workers(2);
    o.network = (sim_options){ .delay_max_us = 2000, .window_bytes = 16384 };
    for (uint64_t seed = 1; seed <= 5; seed++) cluster_run(seed, o, exchange_at_once, NULL);
}

// A future that is not resolved when it is gathered arrives as a promise.
static void gather_promises(gw_scope *s, int rank, void *context) {
    (void)context;
    gw_group *g = gw_group_world(s);
    int n = gw_group_size(g);
    char other[16];
    snprintf(other, sizeof other, "w%d", (rank + 1) % n);
    gw_future *later =
        gw_rpc_async(s, other, "gw.add", gw_full(s, GW_F32, rank), gw_ones(s, GW_F32));
    gw_list *all = gw_all_gather_value(s, g, later);
    for (int i = 0; i < n; i++) {
        gw_value v = gw_list_get(s, all, i);
        if (i == rank) v = gw_wait(s, later);  // its own is as it was
        gw_tensor *x = gw_tensor_of(s, v);
        if (!gw_ok(s)) fail_msg("%s", gw_scope_error(s)->text);
        assert_int_equal(gw_item(s, x), i + 1);
    }
}

static void promises_are_gathered(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++)
        cluster_run(seed, workers(3), gather_promises, NULL);
}

// ---- Errors -------------------------------------------------------------------------------------

static void expect(gw_scope *s, gw_status status, const char *text) {
    const gw_error *e = gw_scope_error(s);
    if (!strstr(e->text, text)) fail_msg("\"%s\" instead of \"%s\"", e->text, text);
    assert_int_equal(e->status, status);
    gw_scope_clear(s);
}

static void expect_sum(gw_scope *s, gw_group *g) {
    int n = gw_group_size(g);
    gw_tensor *sum = gw_all_reduce(s, g, gw_full(s, GW_F32, gw_group_rank(g) + 1, 1), GW_SUM);
    if (!gw_ok(s)) fail_msg("%s", gw_scope_error(s)->text);
    assert_int_equal((int)gw_item(s, sum), n * (n + 1) / 2);
}

static void differ(gw_scope *s, int rank, void *context) {
    (void)context;
    gw_group *g = gw_group_world(s);
    expect_sum(s, g);
    if (rank == 1)
        gw_all_gather(s, g, gw_ones(s, GW_F32, 3));
    else
        gw_all_reduce(s, g, gw_ones(s, GW_F32, 3), GW_SUM);
    expect(s, GW_MISMATCH, "w1 does all_gather f32 3 (group_collectives_sim_test.c:");
    gw_all_reduce(s, g, gw_ones(s, GW_F32, rank + 1), GW_SUM);
    expect(s, GW_MISMATCH, "group \"world\": collective 3: ");
    expect_sum(s, g);
}

static void members_that_differ_get_the_call_of_each_and_continue(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 50; seed++) cluster_run(seed, workers(3), differ, NULL);
}

static void pause_s(gw_scope *s, int seconds) {
    cluster_sleep_ms(s, seconds * 1000);
}

static void be_late(gw_scope *s, int rank, void *context) {
    (void)context;
    gw_group *g = gw_group_world(s);
    if (rank == 2) pause_s(s, 5);
    gw_all_reduce(s, g, gw_ones(s, GW_F32, 1), GW_SUM, .timeout_ms = 1000);
    expect(s, GW_TIMEOUT, "; w2 has not entered");
    expect_sum(s, g);
}

static void a_late_member_fails_with_the_others_and_all_continue(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 50; seed++) cluster_run(seed, workers(3), be_late, NULL);
}

static void fail_before(gw_scope *s, int rank, void *context) {
    (void)context;
    gw_group *g = gw_group_world(s);
    for (int step = 0; step < 3; step++) {
        gw_scope *t = gw_scope_open(s);
        if (step == 1 && rank == 1)
            gw_matmul(t, gw_ones(t, GW_F32, 2, 3), gw_ones(t, GW_F32, 2, 3));
        for (int i = 0; i < 4; i++) gw_all_reduce(t, g, gw_ones(t, GW_F32, 1), GW_SUM);
        if (step == 1)
            expect(t, GW_INVALID,
                   "gw.matmul: 2x3 times 2x3: the 3 columns of a must be the 2 rows of b");
        gw_error e = gw_scope_close(t);
        if (e.status) fail_msg("w%d, step %d: %s", rank, step, e.text);
    }
    expect_sum(s, g);
}

static void a_scope_that_has_failed_fails_the_others_once(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 50; seed++) cluster_run(seed, workers(3), fail_before, NULL);
}

static void give_up(gw_scope *s, int rank, void *context) {
    (void)context;
    gw_group *g = gw_group_world(s);
    gw_future *f = rank == 0 ? NULL : gw_all_reduce_async(s, g, gw_ones(s, GW_F32, 1), GW_SUM);
    if (rank == 2) gw_cancel(s, f);
    if (rank == 0) pause_s(s, 1);
    if (rank == 0)
        gw_all_reduce(s, g, gw_ones(s, GW_F32, 1), GW_SUM);
    else
        gw_wait(s, f);
    assert_int_equal(gw_scope_error(s)->status, GW_CANCELLED);
    gw_scope_clear(s);
    if (rank == 2) pause_s(s, 2);  // its future was done at once
    expect_sum(s, g);
}

static void a_cancellation_ends_the_collective_for_all(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 50; seed++) cluster_run(seed, workers(3), give_up, NULL);
}

static void go_away(gw_scope *s, int rank, void *context) {
    const bool *alone = context;
    gw_group *g = gw_group_world(s);
    expect_sum(s, g);
    if (rank == 1) {
        if (*alone) gw_rpc_leave(s);
        return;
    }
    gw_all_reduce(s, g, gw_ones(s, GW_F32, 1), GW_SUM);
    assert_int_equal(gw_scope_error(s)->status, GW_DISCONNECTED);
    assert_non_null(strstr(gw_scope_error(s)->text, "w1"));
    gw_scope_clear(s);
}

static void a_member_that_leaves_is_not_waited_for(void **state) {
    (void)state;
    bool alone[] = { false, true };
    for (uint64_t seed = 1; seed <= 50; seed++) {
        cluster_outcome x = cluster_run(seed, workers(3), go_away, &alone[seed % 2]);
        assert_true(x.took_ns < 10 * SIM_SECOND);
    }
}

// ---- Many at once -------------------------------------------------------------------------------

enum { MANY = 1000 };

static void start_many(gw_scope *s, int rank, void *context) {
    (void)context;
    gw_group *g = gw_group_world(s);
    gw_future *fs[MANY];
    for (int i = 0; i < MANY; i++)
        fs[i] = gw_all_reduce_async(s, g, gw_full(s, GW_I64, rank + i, 3), GW_SUM);
    for (int i = 0; i < MANY; i++) {
        gw_tensor *sum = gw_tensor_of(s, gw_wait(s, fs[i]));
        if (!gw_ok(s)) fail_msg("%d: %s", i, gw_scope_error(s)->text);
        assert_int_equal(((const int64_t *)gw_data(sum))[2], 3 * i + 3);
    }
}

static void collectives_above_the_limit_wait_in_order(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 3; seed++) cluster_run(seed, workers(3), start_many, NULL);
}

// One more than may be under way: those before it succeed, and it fails on all members.
static void start_too_many(gw_scope *s, int rank, void *context) {
    (void)context;
    gw_group *g = gw_group_world(s);
    gw_future *fs[LIMIT_GROUP_COLLECTIVES];
    if (rank) gw_recv(s, g, 0);
    for (int i = 0; i < LIMIT_GROUP_COLLECTIVES; i++) {
        fs[i] = gw_barrier_async(s, g);
        if (!gw_ok(s)) fail_msg("%d: %s", i, gw_scope_error(s)->text);
    }
    if (rank == 0) {
        gw_barrier_async(s, g);
        expect(s, GW_LIMIT,
               "group \"world\": 1024 collectives are under way on this worker: wait for some of "
               "them");
        gw_send(s, g, gw_ones(s, GW_F32, 1), 1);
    }
    gw_wait_all(s, fs, LIMIT_GROUP_COLLECTIVES);
    if (rank) {
        gw_barrier(s, g);
        expect(s, GW_LIMIT, "w0: group \"world\": 1024 collectives are under way on this worker");
    }
    expect_sum(s, g);
}

static void too_many_are_refused(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 3; seed++) cluster_run(seed, workers(2), start_too_many, NULL);
}

static void use_keys(gw_scope *s, int rank, void *context) {
    (void)context;
    gw_group *g = gw_group_world(s);
    gw_future *fs[8];
    for (int i = 0; i < 8; i++) {
        uint64_t key = 1 + (uint64_t)((i * 3 + rank * 5) % 8);
        fs[key - 1] =
            gw_all_reduce_async(s, g, gw_full(s, GW_I64, (int)key, 1), GW_SUM, .key = key);
    }
    for (int key = 1; key <= 8; key++)
        assert_int_equal(gw_item_int(s, gw_tensor_of(s, gw_wait(s, fs[key - 1]))), 3 * key);
}

static void keys_may_be_used_in_different_orders(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++) cluster_run(seed, workers(3), use_keys, NULL);
}

enum { MANY_KEYS = 8, CALLS_OF_KEY = 16 };  // together more than may be under way

// Each member begins with another key: the calls that it may enter at first are not those of the others.
static void use_many_keys(gw_scope *s, int rank, void *context) {
    (void)context;
    gw_group *g = gw_group_world(s);
    gw_future *fs[MANY_KEYS][CALLS_OF_KEY];
    for (int k = 0; k < MANY_KEYS; k++)
        for (int i = 0; i < CALLS_OF_KEY; i++) {
            int key = (k + rank * MANY_KEYS / 2) % MANY_KEYS;
            fs[key][i] = gw_all_reduce_async(s, g, gw_full(s, GW_I64, 100 * key + i, 1), GW_SUM,
                                             .key = 1 + (uint64_t)key);
        }
    int members = gw_group_size(g);
    for (int key = 0; key < MANY_KEYS; key++)
        for (int i = 0; i < CALLS_OF_KEY; i++)
            assert_int_equal(gw_item_int(s, gw_tensor_of(s, gw_wait(s, fs[key][i]))),
                             members * (100 * key + i));
}

// GRP-3.
static void keys_above_the_limit_may_be_used_in_different_orders(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 10; seed++)
        cluster_run(seed, workers(2 + (int)seed % 2), use_many_keys, NULL);
}

// ---- Plans --------------------------------------------------------------------------------------

enum { PLAN_WORKERS = 6, PLAN_NUMBERS = 301 };

// Numbers of member |rank|, whose sums depend on the order of additions.
static gw_tensor *numbers_of(gw_scope *s, int rank, gw_dtype dtype) {
    float x[PLAN_NUMBERS];
    for (int i = 0; i < PLAN_NUMBERS; i++)
        x[i] = ldexpf((float)((i * 37 + rank * 101) % 255 - 127), (i + 3 * rank) % 11 - 8);
    return gw_to_dtype(s, gw_from(s, x, PLAN_NUMBERS), dtype);
}

// What a mean of |factor| times the numbers of all is by definition: halves are widened and
// multiplied in f32, and rounded once.
static gw_tensor *mean_by_definition(gw_scope *s, int n, gw_dtype dtype, double factor) {
    gw_tensor *y[PLAN_WORKERS];
    int power = 1;
    while (2 * power <= n) power *= 2;
    gw_dtype wide = dtype == GW_F64 ? GW_F64 : GW_F32;
    for (int i = 0; i < n; i++)
        y[i] = gw_mul(s, gw_to_dtype(s, numbers_of(s, i, dtype), wide), gw_full(s, wide, factor));
    for (int i = 0; i + power < n; i++) y[i] = gw_add(s, y[i], y[i + power]);
    for (; power > 1; power /= 2)
        for (int i = 0; i < power / 2; i++) y[i] = gw_add(s, y[2 * i], y[2 * i + 1]);
    return gw_to_dtype(s, gw_div(s, y[0], gw_full(s, wide, (double)n)), dtype);
}

static void try_plans(gw_scope *s, int rank, void *context) {
    (void)context;
    gw_group *g = gw_group_world(s);
    put_on_hosts(g);
    static const gw_dtype dtypes[] = { GW_F32, GW_F64, GW_F16, GW_BF16 };
    int n = gw_group_size(g);
    for (int d = 0; d < 4; d++) {
        gw_tensor *mine = numbers_of(s, rank, dtypes[d]);
        gw_tensor *expected = mean_by_definition(s, n, dtypes[d], 0.3);
        size_t bytes = PLAN_NUMBERS * gw_dtype_size(dtypes[d]);
        gw_tensor *mean = gw_all_reduce(s, g, mine, GW_AVG, .factor = 0.3);
        if (!gw_ok(s)) fail_msg("%s", gw_scope_error(s)->text);
        assert_memory_equal(gw_data(mean), gw_data(expected), bytes);
        mean = gw_reduce(s, g, mine, GW_AVG, n - 1, .factor = 0.3);
        if (rank == n - 1) assert_memory_equal(gw_data(mean), gw_data(expected), bytes);
        int64_t sizes[PLAN_WORKERS] = { 0 };  // uneven shares, of which some are empty
        sizes[0] = PLAN_NUMBERS / 3;
        sizes[n - 1] += PLAN_NUMBERS - sizes[0];
        int64_t first_row = rank == n - 1 && n > 1 ? sizes[0] : 0;
        mean = gw_reduce_scatter(s, g, mine, GW_AVG, .factor = 0.3, .sizes = sizes);
        assert_int_equal(gw_numel(mean), sizes[rank]);
        assert_memory_equal(gw_data(mean),
                            (const char *)gw_data(expected) +
                                (size_t)first_row * gw_dtype_size(dtypes[d]),
                            (size_t)sizes[rank] * gw_dtype_size(dtypes[d]));
        assert_string_equal(gw_string_of(s, gw_broadcast_value(s, g, "word", n - 1)), "word");
        assert_int_equal(gw_item(s, gw_broadcast(s, g, gw_full(s, GW_F32, rank), n - 1)), n - 1);
        gw_tensor *first = gw_broadcast(s, g, rank == 1 % n ? mine : NULL, 1 % n);
        assert_memory_equal(gw_data(first), gw_data(numbers_of(s, 1 % n, dtypes[d])), bytes);
    }
    gw_list *all = gw_all_gather_value(s, g, rank),
            *at_root = gw_gather_value_to(s, g, rank, n - 1);
    for (int i = 0; i < n; i++) {
        assert_int_equal(gw_int_of(s, gw_list_get(s, all, i)), i);
        if (rank == n - 1) assert_int_equal(gw_int_of(s, gw_list_get(s, at_root, i)), i);
    }
    gw_list *items = gw_list_open(s);
    for (int i = 0; i < n; i++) gw_list_add(s, items, 10 * i);
    assert_int_equal(gw_int_of(s, gw_scatter_value_from(s, g, items, n - 1)), 10 * rank);
    gw_list *each = gw_all_gather_list(s, g, gw_full(s, GW_I64, rank, rank + 1));
    for (int i = 0; i < n; i++)
        assert_int_equal(gw_numel(gw_tensor_of(s, gw_list_get(s, each, i))), i + 1);
    gw_tensor *row = gw_full(s, GW_F32, rank + 1, 1, 2);
    gw_tensor *rows = gw_rows(s, gw_full(s, GW_I64, rank % 3, 1), row, 3);
    gw_tensor *both = gw_sum(s, gw_to_dense(s, gw_all_reduce(s, g, rows, GW_SUM)));
    assert_int_equal(gw_item(s, both), n * (n + 1));
    gw_barrier(s, g);
    assert_true(gw_ok(s));
}

static void every_plan_gives_the_same_bits(void **state) {
    (void)state;
    for (int kind = PLAN_KIND_COUNT - 1; kind >= PLAN_AUTO; kind--) {
        prefer_plans((plan_kind)kind);
        for (int n = 1; n <= PLAN_WORKERS; n++) {
            testing_note("%s plans of %d members", plan_kind_name((plan_kind)kind), n);
            cluster_run((uint64_t)n, workers(n), try_plans, NULL);
        }
    }
}

// ---- Messages -----------------------------------------------------------------------------------

static void exchange_messages(gw_scope *s, int rank, void *context) {
    (void)context;
    gw_group *g = gw_group_world(s);
    int n = gw_group_size(g), next = (rank + 1) % n, before = (rank + n - 1) % n;
    gw_future *first = gw_isend(s, g, gw_full(s, GW_I64, rank, 3), next, .tag = 1);
    gw_future *second = gw_isend(s, g, gw_full(s, GW_I64, rank + 10, 1), next, .tag = 1);
    gw_future *other = gw_isend(s, g, gw_full(s, GW_F32, rank, 2, 2), next);
    assert_int_equal(gw_dims(gw_recv(s, g, before)), 2);
    assert_int_equal(gw_numel(gw_recv(s, g, before, .tag = 1)), 3);
    int from = -1;
    assert_int_equal(gw_item_int(s, gw_recv_any(s, g, &from, .tag = 1)), before + 10);
    assert_int_equal(from, before);
    gw_wait_all(s, (gw_future *[]){ first, second, other }, 3);
    assert_true(gw_ok(s));
    gw_barrier(s, g);
    gw_future *mine = gw_irecv(s, g, rank, .tag = 2);
    gw_send(s, g, gw_full(s, GW_I64, rank, 1), rank, .tag = 2);
    assert_int_equal(gw_item_int(s, gw_tensor_of(s, gw_wait(s, mine))), rank);
    gw_isend(s, g, gw_full(s, GW_I64, -rank, 1), rank, .tag = 2);
    assert_int_equal(gw_item_int(s, gw_recv(s, g, rank, .tag = 2)), -rank);
    gw_recv(s, g, next, .tag = 7, .timeout_ms = 100);
    assert_int_equal(gw_scope_error(s)->status, GW_TIMEOUT);
    gw_scope_clear(s);
    gw_barrier(s, g);
    assert_true(gw_ok(s));
}

static void messages_are_matched_by_sender_and_tag_in_order(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 30; seed++)
        cluster_run(seed, workers(3), exchange_messages, NULL);
}

static void exchange_after_a_loss(gw_scope *s, int rank, void *context) {
    (void)context;
    gw_group *g = gw_group_world(s);
    gw_barrier(s, g);
    if (rank == 2) {
        gw_rpc_leave(s);
        return;
    }
    gw_recv(s, g, 2);
    assert_int_equal(gw_scope_error(s)->status, GW_DISCONNECTED);
    gw_scope_clear(s);
    if (rank == 0) gw_send(s, g, gw_ones(s, GW_F32, 1), 1);  // between remaining members
    if (rank == 1) assert_int_equal((int)gw_item(s, gw_recv(s, g, 0)), 1);
    assert_true(gw_ok(s));
}

static void messages_pass_between_the_remaining_members(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 30; seed++)
        cluster_run(seed, workers(3), exchange_after_a_loss, NULL);
}

// ---- Split groups, coalesced calls --------------------------------------------------------------

static void split_up(gw_scope *s, int rank, void *context) {
    (void)context;
    gw_group *all = gw_group_world(s);
    gw_group *g = gw_group_split(s, all, rank == 3 ? -1 : rank % 2, -rank);
    if (rank == 3) {
        assert_null(g);
    } else {
        assert_int_equal(gw_group_size(g), rank == 1 ? 1 : 2);
        assert_int_equal(gw_group_rank(g), rank == 0 ? 1 : 0);
        gw_tensor *sum = gw_all_reduce(s, g, gw_full(s, GW_I64, rank, 1), GW_SUM);
        assert_int_equal(gw_item_int(s, sum), rank == 1 ? 1 : 2);
    }
    gw_group *pair = gw_group_blocks(s, all, 2);
    assert_int_equal(gw_group_worker(s, pair, 0).rank, rank / 2 * 2);
    gw_tensor *xs[] = { gw_full(s, GW_F32, rank, 2, 2), gw_full(s, GW_I64, 1, 3),
                        gw_full(s, GW_F32, 1, 1) };
    gw_list *sums = gw_all_reduce_coalesced(s, all, xs, 3, GW_SUM);
    assert_int_equal(gw_list_count(sums), 3);
    gw_tensor *first = gw_tensor_of(s, gw_list_get(s, sums, 0));
    assert_int_equal(gw_dims(first), 2);
    assert_int_equal((int)gw_item(s, gw_sum(s, first)), 24);
    gw_list *from_two = gw_broadcast_coalesced(s, all, xs, 3, 2);
    assert_int_equal((int)gw_item(s, gw_max(s, gw_tensor_of(s, gw_list_get(s, from_two, 0)))), 2);
    assert_true(gw_ok(s));
}

static void groups_are_split_and_tensors_sent_together(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++) cluster_run(seed, workers(4), split_up, NULL);
}

// ---- Gradients ----------------------------------------------------------------------------------

static void expect_gradient(gw_scope *s, gw_tensor *x, const float *numbers) {
    gw_tensor *d = gw_grad(s, x);
    if (!gw_ok(s)) fail_msg("%s", gw_scope_error(s)->text);
    for (int64_t i = 0; i < gw_numel(d); i++)
        assert_int_equal((int)((const float *)gw_data(d))[i], (int)numbers[i]);
}

static gw_tensor *leaf(gw_scope *s, int64_t rows) {
    return gw_requires_grad(s, gw_ones(s, GW_F32, rows, 1));
}

// Each member multiplies its results by its rank + 1 in its loss.
static void differentiate(gw_scope *root, int rank, void *context) {
    (void)context;
    gw_scope *s = gw_scope_open(root);
    gw_group *g = gw_group_world(s);
    int n = gw_group_size(g), all = n * (n + 1) / 2;
    float own = (float)rank + 1;
    gw_tensor *a = leaf(s, 2), *b = leaf(s, rank + 1), *c = leaf(s, n), *d = leaf(s, n),
              *e = leaf(s, 2), *f = leaf(s, 2), *h = leaf(s, rank + 1);
    gw_tensor *outs[] = {
        gw_all_reduce(s, g, a, GW_SUM),     gw_all_gather(s, g, b),
        gw_reduce_scatter(s, g, c, GW_SUM), gw_all_to_all(s, g, d),
        gw_broadcast(s, g, e, 1),           gw_reduce(s, g, f, GW_AVG, 0, .factor = 2),
        gw_gather_to(s, g, h, 2),
    };
    gw_tensor *loss = NULL;
    int count = (int)(sizeof outs / sizeof *outs);
    for (int i = 0; i < count; i++) {  // in orders of their own
        gw_tensor *x = gw_mul(s, gw_sum(s, outs[(i + rank) % count]), own);
        loss = loss ? gw_add(s, loss, x) : x;
    }
    gw_backward(s, loss);
    expect_gradient(s, a, (float[]){ (float)all, (float)all });
    float sums[8], each[8];
    for (int i = 0; i < 8; i++) {
        sums[i] = (float)all;
        each[i] = (float)i + 1;
    }
    expect_gradient(s, b, sums);
    expect_gradient(s, c, each);
    expect_gradient(s, d, each);
    expect_gradient(s, e, rank == 1 ? sums : (float[]){ 0, 0 });
    gw_tensor *df = gw_grad(s, f);  // 2 / n: only member 0 uses the result, with weight 1
    assert_true(gw_ok(s) && fabs(gw_item(s, gw_max(s, df)) - 2.0 / n) < 1e-6);
    expect_gradient(s, h, (float[]){ 3, 3, 3 });
    gw_error failed = gw_scope_close(s);
    if (failed.status) fail_msg("%s", failed.text);
}

static void gradients_flow_back_through_collectives(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 30; seed++) cluster_run(seed, workers(3), differentiate, NULL);
}

// Member 1 does not use its results, and closes its scope late.
static void use_nothing(gw_scope *root, int rank, void *context) {
    (void)context;
    gw_scope *s = gw_scope_open(root);
    gw_group *g = gw_group_world(root);
    int n = gw_group_size(g);
    gw_tensor *x[] = { leaf(s, 2), leaf(s, rank + 1), leaf(s, n), leaf(s, n),
                       leaf(s, 2), leaf(s, 2),        leaf(s, 1) };
    gw_tensor *outs[] = {
        gw_all_reduce(s, g, x[0], GW_SUM),     gw_all_gather(s, g, x[1]),
        gw_reduce_scatter(s, g, x[2], GW_SUM), gw_all_to_all(s, g, x[3]),
        gw_broadcast(s, g, x[4], 1),           gw_reduce(s, g, x[5], GW_SUM, 1),
        gw_gather_to(s, g, x[6], 1),
    };
    gw_tensor *loss = gw_sum(s, outs[0]);
    for (int i = 1; i < 7; i++) loss = gw_add(s, loss, gw_sum(s, outs[i]));
    if (rank == 1) {
        pause_s(root, 2);
    } else {
        gw_backward(s, loss);
        expect_gradient(s, x[0], (float[]){ 2, 2 });
        expect_gradient(s, x[1], (float[]){ 2, 2, 2 });
        expect_gradient(s, x[2], (float[]){ 1, 0, 1 });  // of the row that member 1 has got
        expect_gradient(s, x[3], (float[]){ 1, 0, 1 });
        expect_gradient(s, x[5], (float[]){ 0, 0 });
        expect_gradient(s, x[6], (float[]){ 0 });
    }
    gw_error failed = gw_scope_close(s);
    if (failed.status) fail_msg("%s", failed.text);
    gw_barrier(root, g);
    assert_true(gw_ok(root));
}

static void a_member_that_uses_no_result_delays_others_until_its_scope_closes(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 30; seed++) {
        cluster_outcome x = cluster_run(seed, workers(3), use_nothing, NULL);
        assert_true(x.took_ns < 10 * SIM_SECOND);
    }
}

// Member 1's pass fails before it reaches the collective.
static gw_tensor *refuse_gradient(gw_scope *s, gw_tensor *d, void *context) {
    (void)context;
    gw_matmul(s, d, gw_ones(s, GW_F32, 7, 7));
    return d;
}

static void fail_before_the_collective(gw_scope *root, int rank, void *context) {
    (void)context;
    gw_scope *s = gw_scope_open(root);
    gw_group *g = gw_group_world(root);
    gw_tensor *out = gw_mul(s, gw_all_reduce(s, g, leaf(s, 2), GW_SUM), 2);
    if (rank == 1) gw_register_hook(s, out, refuse_gradient, NULL);
    gw_backward(s, gw_sum(s, out));
    expect(s, rank ? GW_INVALID : GW_REMOTE,
           rank ? "gw.matmul"
                : "a backward pass of w1 has failed before it reached this collective");
    gw_error closed = gw_scope_close(s);
    assert_int_equal(closed.status, GW_OK);
    gw_barrier(root, g);
    assert_true(gw_ok(root));
}

// Member 2 reaches the backward of a collective after the others have timed out: it gets their error without a wait.
static void differentiate_late(gw_scope *root, int rank, void *context) {
    (void)context;
    gw_scope *s = gw_scope_open(root);
    gw_group *g = gw_group_world(root);
    gw_tensor *out = gw_all_reduce(s, g, leaf(s, 2), GW_SUM);
    if (rank == 2) pause_s(s, 20);
    gw_scope *t = gw_scope_open(s);
    if (rank < 2) gw_scope_set_timeout(t, 2000);
    gw_backward(t, gw_sum(t, out));
    expect(t, GW_TIMEOUT, "; w2 has not entered");
    gw_scope_close_up(t);
    gw_scope_close_up(s);
    expect_sum(root, g);
}

static void a_member_late_to_a_backward_gets_the_error_of_the_others(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 30; seed++) {
        cluster_outcome x = cluster_run(seed, workers(3), differentiate_late, NULL);
        assert_true(x.took_ns < 40 * SIM_SECOND);
    }
}

static void a_pass_that_has_failed_fails_the_others(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 30; seed++) {
        cluster_outcome x = cluster_run(seed, workers(2), fail_before_the_collective, NULL);
        assert_true(x.took_ns < 10 * SIM_SECOND);
    }
}

static void refuse(gw_scope *s, int rank, void *context) {
    (void)context, (void)rank;
    gw_group *g = gw_group_world(s);
    gw_tensor *x = leaf(s, 2);
    gw_all_reduce_async(s, g, x, GW_SUM);
    expect(s, GW_INVALID,
           "gw_all_reduce_async: the tensor needs a gradient, which an asynchronous call does not "
           "record: gw_detach it");
    gw_all_reduce(s, g, x, GW_BAND);
    expect(s, GW_INVALID, "gw_all_reduce: f32 cannot be combined by band");
    gw_broadcast(s, g, x, 7);
    expect(s, GW_INVALID, "gw_broadcast: rank 7 is out of range for group \"world\" of 2 members");
    gw_reduce_scatter(s, g, gw_ones(s, GW_F32, 3), GW_SUM);
    expect(s, GW_INVALID,
           "gw_reduce_scatter: 3 rows cannot be divided equally among 2 members: set .sizes");
    gw_all_to_all(s, g, gw_ones(s, GW_F32, 3), .sizes = ((int64_t[]){ 1, 1 }));
    expect(s, GW_INVALID, "gw_all_to_all: .sizes do not sum up to the 3 rows of the tensor");
    gw_all_reduce(s, NULL, x, GW_SUM);
    expect(s, GW_INVALID, "gw_all_reduce: the group is NULL");
    gw_all_reduce(s, g, NULL, GW_SUM);
    expect(s, GW_INVALID, "gw_all_reduce");
    gw_scatter_from(s, g, NULL, gw_group_rank(g));
    expect(s, GW_INVALID, "gw_scatter_from: the list has 0 items, but the group has 2 members");
    gw_group_open(s, NULL, 2);
    expect(s, GW_INVALID, "a group of 2 workers is impossible: the list is NULL");
    gw_worker twice[] = { gw_rpc_self(s), gw_rpc_self(s) };
    gw_group_open(s, twice, 2);
    expect(s, GW_INVALID, "is twice in the list of workers");
    expect_sum(s, g);
}

static void wrong_arguments_are_refused(void **state) {
    (void)state;
    cluster_run(1, workers(2), refuse, NULL);
}

GW_TESTS(group_collectives_sim, every_operation_returns_its_defined_result, sizes_do_not_matter,
         large_pieces_are_written_at_their_offsets, large_values_are_exchanged_concurrently,
         promises_are_gathered, members_that_differ_get_the_call_of_each_and_continue,
         a_late_member_fails_with_the_others_and_all_continue,
         a_scope_that_has_failed_fails_the_others_once, a_cancellation_ends_the_collective_for_all,
         a_member_that_leaves_is_not_waited_for, collectives_above_the_limit_wait_in_order,
         too_many_are_refused, keys_may_be_used_in_different_orders,
         keys_above_the_limit_may_be_used_in_different_orders, every_plan_gives_the_same_bits,
         messages_are_matched_by_sender_and_tag_in_order,
         messages_pass_between_the_remaining_members, groups_are_split_and_tensors_sent_together,
         gradients_flow_back_through_collectives,
         a_member_that_uses_no_result_delays_others_until_its_scope_closes,
         a_member_late_to_a_backward_gets_the_error_of_the_others,
         a_pass_that_has_failed_fails_the_others, wrong_arguments_are_refused);
