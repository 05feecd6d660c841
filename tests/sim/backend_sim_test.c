// Collectives over a backend, in the simulator: operations that it lacks, how many run in it at a time, and how they
// end (src/testing/memory_backend.h).
#include "base/limits.h"
#include "base/map.h"
#include "testing/cluster.h"
#include "testing/memory_backend.h"
#include "testing/testing.h"

#include <gradwire.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum {
    MEMBERS_MAX = 4,
    NUMBERS = 7,  // of a row
    ROW_BYTES = NUMBERS * 4,
    SHAPE_BYTES = (2 + LIMIT_DIMS) * 8
};

static cluster_outcome run(uint64_t seed, int count, cluster_main *body, void *context) {
    cluster_outcome o = cluster_run(seed, (cluster_options){ .world_size = count }, body, context);
    assert_int_equal(memory_backend_counts.under_way, 0);  // no call remains in it
    return o;
}

static cluster_outcome run_over_memory(uint64_t seed, int count, cluster_main *body,
                                       void *context) {
    memory_backend_reset();
    return run(seed, count, body, context);
}

static gw_group *open_over_memory(gw_scope *s, bool any_order) {
    return gw_group_world(s, .name = "m", .backend = memory_backend_at(s), .any_order = any_order);
}

// ---- Results ------------------------------------------------------------------------------------

static gw_tensor *numbers(gw_scope *s, int rank, int64_t count, gw_dtype dtype) {
    float *x = gw_alloc(s, (size_t)(count + 1) * sizeof *x);
    for (int i = 0; i < count; i++)
        x[i] = ldexpf((float)((i * 37 + rank * 101) % 255 - 127), (i + 3 * rank) % 11 - 8);
    return gw_to_dtype(s, gw_from_with(s, GW_F32, x, (gw_shape){ 1, &count }), dtype);
}

static void expect_same(gw_scope *s, gw_tensor *a, gw_tensor *b) {
    if (!gw_ok(s)) fail_msg("%s", gw_scope_error(s)->text);
    assert_int_equal(gw_dims(a), gw_dims(b));
    for (int i = 0; i < gw_dims(a); i++) assert_int_equal(gw_size(a, i), gw_size(b, i));
    assert_memory_equal(gw_data(gw_contiguous(s, a)), gw_data(gw_contiguous(s, b)),
                        (size_t)gw_numel(a) * gw_dtype_size(gw_dtype_of(a)));
}

static void try_dtype(gw_scope *s, gw_group *m, gw_group *g, gw_dtype dtype) {
    int rank = gw_group_rank(g), n = gw_group_size(g);
    gw_tensor *x = numbers(s, rank, 301, dtype), *none = numbers(s, rank, 0, dtype);
    expect_same(s, gw_all_reduce(s, m, x, GW_SUM), gw_all_reduce(s, g, x, GW_SUM));
    expect_same(s, gw_all_reduce(s, m, x, GW_MIN), gw_all_reduce(s, g, x, GW_MIN));
    expect_same(s, gw_all_reduce(s, m, none, GW_SUM), none);
    expect_same(s, gw_reduce(s, m, x, GW_SUM, n - 1), gw_reduce(s, g, x, GW_SUM, n - 1));
    if (dtype != GW_I64)
        expect_same(s, gw_all_reduce(s, m, x, GW_AVG, .factor = 0.3),
                    gw_all_reduce(s, g, x, GW_AVG, .factor = 0.3));
    gw_tensor *rows = gw_reshape(s, numbers(s, rank, 6 * n, dtype), 2 * n, 3);
    expect_same(s, gw_reduce_scatter(s, m, rows, GW_SUM), gw_reduce_scatter(s, g, rows, GW_SUM));
    gw_tensor *mine = gw_reshape(s, numbers(s, rank, 5 * (rank + 1), dtype), -1, 5);
    gw_tensor *given = rank == 1 % n ? mine : NULL;
    expect_same(s, gw_broadcast(s, m, given, 1 % n), gw_broadcast(s, g, given, 1 % n));
    expect_same(s, gw_all_gather(s, m, mine), gw_all_gather(s, g, mine));
    expect_same(s, gw_gather_to(s, m, mine, 0), gw_gather_to(s, g, mine, 0));
    int64_t sizes[MEMBERS_MAX], total = 0;
    for (int i = 0; i < n; i++) total += sizes[i] = (i + rank) % 3;
    gw_tensor *parts = gw_reshape(s, numbers(s, rank, total * 4, dtype), total, 4);
    expect_same(s, gw_all_to_all(s, m, parts, .sizes = sizes),
                gw_all_to_all(s, g, parts, .sizes = sizes));
}

static void try_all(gw_scope *s, int rank, void *context) {
    (void)context;
    gw_group *g = gw_group_world(s), *m = open_over_memory(s, false);
    static const gw_dtype dtypes[] = { GW_F32, GW_BF16, GW_I64 };
    for (int i = 0; i < 3; i++) try_dtype(s, m, g, dtypes[i]);
    int n = gw_group_size(g);
    gw_tensor *leaf = gw_requires_grad(s, gw_ones(s, GW_F32, 2 + rank));
    gw_backward(s, gw_sum(s, gw_mul(s, gw_all_gather(s, m, leaf), rank + 1)));
    expect_same(s, gw_grad(s, leaf), gw_full(s, GW_F32, n * (n + 1) / 2, 2 + rank));
    gw_tensor *into = gw_zeros(s, GW_F32, 3), *x = numbers(s, rank, 3, GW_F32);
    gw_all_reduce(s, m, x, GW_SUM, .into = into);
    expect_same(s, into, gw_all_reduce(s, g, x, GW_SUM));
    assert_int_equal(gw_list_count(gw_all_gather_value(s, m, "by sessions")), n);
    gw_barrier(s, m);
    assert_true(gw_ok(s));
}

static void a_backend_gives_the_bits_of_sessions(void **state) {
    (void)state;
    for (int n = 1; n <= MEMBERS_MAX; n++) {
        for (uint64_t seed = 1; seed <= 5; seed++) run_over_memory(seed, n, try_all, NULL);
        assert_int_equal(memory_backend_counts.begun > 0, n > 1);
    }
}

// A call carries no more bytes than the shape of a tensor, which is sent before a broadcast.
static void large_operations_are_split_into_several_calls(void **state) {
    (void)state;
    for (int n = 2; n <= MEMBERS_MAX; n++) {
        memory_backend_reset();
        memory_backend.bytes_max = SHAPE_BYTES;
        run((uint64_t)n, n, try_all, NULL);
        assert_true(memory_backend_counts.begun > 0);
    }
}

static void gather_large(gw_scope *s, int rank, void *context) {
    const int64_t *rows = context;
    gw_group *g = gw_group_world(s), *m = open_over_memory(s, false);
    int before = memory_backend_counts.begun;
    for (int root = 0; root < 3; root++) {
        gw_tensor *mine = numbers(s, rank, rows[rank] * NUMBERS, GW_F32);
        mine = gw_reshape(s, mine, rows[rank], NUMBERS);
        gw_tensor *all = gw_all_gather(s, g, mine);
        expect_same(s, gw_all_gather(s, m, mine), all);
        gw_tensor *here = gw_gather_to(s, m, mine, root);
        expect_same(s, here, gw_gather_to(s, g, mine, root));
        gw_tensor *given = rank == root ? all : NULL;
        expect_same(s, gw_broadcast(s, m, given, root), all);
    }
    gw_barrier(s, g);
    assert_true(memory_backend_counts.begun > before);
}

// Members with nothing, with exactly the size of one call, and with many times that.
static void pieces_may_have_any_size(void **state) {
    (void)state;
    static const int64_t rows[][3] = { { 10, 0, 0 },  { 0, 10, 10 },  { 100, 1, 0 },
                                       { 0, 0, 101 }, { 20, 20, 20 }, { 0, 0, 0 } };
    for (uint64_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        memory_backend_reset();
        memory_backend.bytes_max = 10 * ROW_BYTES;
        run(i + 1, 3, gather_large, (void *)rows[i]);
    }
}

static void add_in_any_order(gw_scope *s, int rank, void *context) {
    (void)context;
    gw_group *m = open_over_memory(s, true);
    gw_tensor *sum = gw_all_reduce(s, m, gw_full(s, GW_F32, rank + 1, 5), GW_AVG, .factor = 2);
    assert_int_equal((int)gw_item(s, gw_max(s, sum)), 4);
    gw_tensor *whole = gw_all_reduce(s, m, gw_full(s, GW_I64, rank + 1, 5), GW_SUM);
    assert_int_equal(gw_item_int(s, gw_max(s, whole)), 6);
}

static void a_backend_may_add_in_its_own_order(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 10; seed++) {
        run_over_memory(seed, 3, add_in_any_order, NULL);
        assert_int_equal(memory_backend_counts.begun,
                         3 + 3 * 2);  // sums that it does not support are moved by it
    }
}

static void add_with_bits(gw_scope *s, int rank, void *context) {
    (void)context;
    gw_group *m = open_over_memory(s, false), *g = gw_group_world(s);
    gw_tensor *x = numbers(s, rank, 301, GW_F32);
    expect_same(s, gw_all_reduce(s, m, x, GW_SUM), gw_all_reduce(s, g, x, GW_SUM));
    expect_same(s, gw_all_reduce(s, m, x, GW_AVG), gw_all_reduce(s, g, x, GW_AVG));
}

static void a_backend_with_the_bits_of_sums_makes_them(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 10; seed++) {
        memory_backend_reset();
        memory_backend.guarantees |= BACKEND_BITS;
        run(seed, 3, add_with_bits, NULL);
        assert_int_equal(memory_backend_counts.begun, 3 + 3 * 2);  // a mean is computed here
    }
}

// ---- Missing operations -------------------------------------------------------------------------

static void missing_operations_are_composed_or_use_sessions(void **state) {
    (void)state;
    static const operation all[] = { OPERATION_ALL_TO_ALL, OPERATION_ALL_GATHER, OPERATION_GATHER,
                                     OPERATION_BROADCAST, OPERATION_ALL_REDUCE };
    enum { COUNT = sizeof all / sizeof *all };
    for (unsigned subset = 0; subset < 1u << COUNT; subset++) {
        memory_backend_reset();
        memory_backend.operations = 0;
        for (int i = 0; i < COUNT; i++)
            if (subset & 1u << i) memory_backend.operations |= 1u << all[i];
        run(subset, 3, try_all, NULL);  // the backend asserts that it supports each call
        bool can = subset & 1 || subset & 2 || subset & 8;  // alone, a gather has no sizes
        assert_int_equal(memory_backend_counts.begun > 0, can);
    }
}

static void tensors_on_other_devices_use_sessions(void **state) {
    (void)state;
    memory_backend_reset();
    memory_backend.devices = 1u << (GW_CPU + 1);
    run(1, 3, try_all, NULL);
    assert_int_equal(memory_backend_counts.begun, 0);
}

static void add_what_it_cannot(gw_scope *s, int rank, void *context) {
    (void)context;
    gw_group *m = open_over_memory(s, true), *g = gw_group_world(s);
    for (int i = 0; i < 2; i++) {
        gw_tensor *x = numbers(s, rank, 30, i ? GW_F64 : GW_F32);
        gw_reduce_op op = i ? GW_SUM : GW_PRODUCT;
        expect_same(s, gw_all_reduce(s, m, x, op), gw_all_reduce(s, g, x, op));
    }
}

static void missing_types_and_sums_are_computed_here(void **state) {
    (void)state;
    run_over_memory(1, 3, add_what_it_cannot, NULL);
    assert_int_equal(memory_backend_counts.begun, 2 * 3 * 2);
}

// Members start calls with a key in their own orders.
static void start_by_key(gw_scope *s, int rank, void *context) {
    (void)context;
    enum { MANY = 20 };
    gw_future *fs[MANY];
    gw_group *m = open_over_memory(s, false);
    for (int k = 0; k < MANY; k++) {
        int i = (k * 7 + rank * 5) % MANY;
        fs[i] = gw_all_reduce_async(s, m, gw_full(s, GW_I64, rank + i, 3), GW_SUM,
                                    .key = (uint64_t)(1 + i));
    }
    for (int i = 0; i < MANY; i++) {
        gw_tensor *out = gw_tensor_of(s, gw_wait(s, fs[i]));
        if (!gw_ok(s)) fail_msg("%d: %s", i, gw_scope_error(s)->text);
        assert_int_equal(((const int64_t *)gw_data(out))[2], 3 * i + 3);
    }
}

static void a_backend_with_keys_needs_no_order(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 10; seed++) {
        memory_backend_reset();
        memory_backend.guarantees |= BACKEND_KEYS;
        run(seed, 3, start_by_key, NULL);
        assert_int_equal(memory_backend_counts.begun, 20 * 2 * 3);
        run_over_memory(seed, 3, start_by_key, NULL);
        assert_int_equal(memory_backend_counts.begun, 0);
    }
}

// ---- Order --------------------------------------------------------------------------------------

static void start_many(gw_scope *s, int rank, void *context) {
    (void)context;
    enum { MANY = 90 };
    gw_future *fs[MANY];
    gw_group *m = open_over_memory(s, false);
    for (int i = 0; i < MANY; i++) {
        gw_tensor *x = gw_full(s, GW_I64, rank + i, 3);
        fs[i] = i % 5 == 2
                    ? gw_all_reduce_async(s, m, x, GW_SUM, .key = (uint64_t)(1 + (i + rank) % 2))
                : i % 5 == 3 ? gw_all_gather_async(s, m, x)
                             : gw_all_reduce_async(s, m, x, GW_SUM);
    }
    for (int i = 0; i < MANY; i++) {
        gw_tensor *out = gw_tensor_of(s, gw_wait(s, fs[i]));
        if (!gw_ok(s)) fail_msg("%d: %s", i, gw_scope_error(s)->text);
        if (i % 5 == 3)
            assert_int_equal(((const int64_t *)gw_data(out))[3], 1 + i);
        else if (i % 5 != 2)
            assert_int_equal(((const int64_t *)gw_data(out))[2], 3 * i + 3);
    }
}

static void start_many_by_seed(uint64_t seed, void *context) {
    run_over_memory(seed, 3, start_many, context);
}

static void calls_are_started_in_one_order(void **state) {
    (void)state;
    testing_for_seeds(10, start_many_by_seed, NULL);
}

// ---- Concurrency --------------------------------------------------------------------------------

// The first call ends only when the next one has begun.
static void start_two(gw_scope *s, int rank, void *context) {
    (void)context;
    gw_group *m = open_over_memory(s, false);
    gw_future *fs[2];
    for (int i = 0; i < 2; i++)
        fs[i] = gw_all_gather_async(s, m, gw_full(s, GW_F32, rank + i, 2), .timeout_ms = 20000);
    for (int i = 0; i < 2; i++) gw_wait(s, fs[i]);
    if (!gw_ok(s)) fail_msg("%s", gw_scope_error(s)->text);
}

static void two_collectives_are_under_way_at_once(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        memory_backend_reset();
        memory_backend_faults.held = 0;
        run(seed, 3, start_two, NULL);
        assert_true(memory_backend_counts.side_by_side >= 2);
    }
}

enum { LEAVES = 4 };

static gw_tensor *no_forward(gw_scope *s, gw_module *m, gw_tensor *x) {
    (void)s, (void)m;
    return x;
}

// Each leaf is a bucket.
static void train(gw_scope *s, gw_group *g, int rank, gw_tensor *out[LEAVES]) {
    gw_module *m = gw_module_open(s, "leaves", no_forward, NULL);
    for (int i = 0; i < LEAVES; i++) {
        out[i] = gw_requires_grad(s, gw_full(s, GW_F32, i + 1, 5));
        gw_module_register_parameter(s, m, gw_format(s, "x%d", i), out[i]);
    }
    gw_ddp_open(s, m, .group = g, .first_bucket_bytes = 1, .bucket_bytes = 1);
    for (int step = 0; step < 3; step++) {
        gw_tensor *loss = gw_zeros(s, GW_F32, 5);
        for (int i = 0; i < LEAVES; i++)
            loss =
                gw_add(s, loss, gw_mul(s, out[i], gw_full(s, GW_F32, 0.1 * (rank + i + step), 5)));
        gw_backward(s, gw_sum(s, loss));
        if (!gw_ok(s)) fail_msg("%s", gw_scope_error(s)->text);
    }
}

static void train_over_both(gw_scope *s, int rank, void *context) {
    (void)context;
    gw_tensor *a[LEAVES], *b[LEAVES];
    gw_scope *t = gw_scope_open(s), *u = gw_scope_open(s);
    train(t, open_over_memory(t, false), rank, a);
    train(u, gw_group_world(u), rank, b);
    for (int i = 0; i < LEAVES; i++)
        assert_memory_equal(gw_data(gw_grad(t, a[i])), gw_data(gw_grad(u, b[i])),
                            5 * sizeof(float));
    gw_scope_close_up(u);
    gw_scope_close_up(t);
}

static void buckets_are_under_way_side_by_side(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        memory_backend_reset();
        memory_backend_faults.held = 0;
        run(seed, 3, train_over_both, NULL);
        assert_true(memory_backend_counts.side_by_side >= 2);
    }
}

// ---- Ends ---------------------------------------------------------------------------------------

static void expect_sum(gw_scope *s, gw_group *m) {
    int n = gw_group_size(m);
    gw_tensor *sum = gw_all_reduce(s, m, gw_full(s, GW_F32, gw_group_rank(m) + 1, 7), GW_SUM);
    if (!gw_ok(s)) fail_msg("%s", gw_scope_error(s)->text);
    assert_int_equal((int)gw_item(s, gw_max(s, sum)), n * (n + 1) / 2);
}

// Member 1 cancels at a time that the seed determines: before the call begins anywhere, while some members have begun
// it, or when it is done.
static void cancel_midway(gw_scope *s, int rank, void *context) {
    const uint64_t *seed = context;
    gw_group *m = open_over_memory(s, false), *g = gw_group_world(s);
    for (int i = 0; i < 4; i++) {
        gw_future *f = gw_all_gather_async(s, m, gw_full(s, GW_F32, rank, 2));
        if (rank == 1) {
            cluster_sleep_ms(s, 1 + (int)(*seed * 7 + (uint64_t)i * 11) % 40);
            gw_cancel(s, f);
        }
        gw_wait(s, f);
        if (!gw_ok(s)) assert_int_equal(gw_scope_error(s)->status, GW_CANCELLED);
        gw_scope_clear(s);
        cluster_sleep_ms(s, 500);  // an abort ends calls made before it arrives
        gw_barrier(s, g);
        expect_sum(s, m);
    }
}

static void cancel_midway_by_seed(uint64_t seed, void *context) {
    (void)context;
    run_over_memory(seed, 3, cancel_midway, &seed);
}

static void a_begun_call_is_not_paired_with_a_later_one(void **state) {
    (void)state;
    testing_for_seeds(200, cancel_midway_by_seed, NULL);
}

// Members begin several calls, one member is late with some of them, and one cancels a call at any time. A call that
// has succeeded is the same on all.
enum { ROUNDS = 4, AT_ONCE = 6 };

static int choose(uint64_t seed, int number, int below) {
    return (int)(hash_u64(seed * 1000 + (uint64_t)number) % (uint64_t)below);
}

static void expect_cancelled(gw_scope *s) {
    if (gw_scope_error(s)->status != GW_CANCELLED) fail_msg("%s", gw_scope_error(s)->text);
    gw_scope_clear(s);
}

// Returns how many calls it has begun: a call that fails with the abort is the last.
static int begin_some(gw_scope *s, gw_group *m, int rank, uint64_t x, gw_future *fs[AT_ONCE]) {
    int late = choose(x, 1, 4), late_at = choose(x, 2, AT_ONCE), i = 0;
    for (; i < AT_ONCE; i++) {
        if (rank == late && i == late_at) cluster_sleep_ms(s, 1 + choose(x, 3, 60));
        gw_tensor *own = gw_full(s, GW_I64, 100 * rank + i, 2);
        fs[i] = choose(x, 10 + i, 3) ? gw_all_gather_async(s, m, own)
                                     : gw_all_reduce_async(s, m, own, GW_SUM);
        if (gw_ok(s)) continue;
        expect_cancelled(s);
        break;
    }
    return i;
}

static void expect_result(gw_scope *s, gw_value v, uint64_t x, int i) {
    if (!gw_ok(s)) {
        expect_cancelled(s);
        return;
    }
    const int64_t *at = gw_data(gw_tensor_of(s, v));
    bool gathers = choose(x, 10 + i, 3) != 0;
    for (int k = 0; gathers && k < 3; k++) assert_int_equal(at[(ptrdiff_t)2 * k + 1], 100 * k + i);
    if (!gathers) assert_int_equal(at[1], 300 + 3 * i);
}

static void end_some(gw_scope *root, int rank, void *context) {
    const uint64_t *seed = context;
    gw_group *m = open_over_memory(root, false), *g = gw_group_world(root);
    for (int round = 0; round < ROUNDS; round++) {
        uint64_t x = *seed * ROUNDS + (uint64_t)round;
        gw_future *fs[AT_ONCE];
        gw_scope *s = gw_scope_open(root);
        int begun = begin_some(s, m, rank, x, fs);
        if (begun && rank == choose(x, 4, 3)) {
            cluster_sleep_ms(s, 1 + choose(x, 5, 60));
            gw_cancel(s, fs[choose(x, 6, begun)]);
        }
        for (int i = 0; i < begun; i++) expect_result(s, gw_wait(s, fs[i]), x, i);
        gw_scope_close_up(s);
        cluster_sleep_ms(root, 3000);  // an abort ends calls made before it arrives
        gw_barrier(root, g);
        for (int i = 0; i < 4; i++) expect_sum(root, m);
    }
}

static void end_some_by_seed(uint64_t seed, void *context) {
    (void)context;
    cluster_options o = { .world_size = 3, .network = sim_varied(seed, 0) };
    if (o.network.delay_max_us > 20000) o.network.delay_max_us = 20000;
    memory_backend_reset();
    cluster_run(seed, o, end_some, &seed);
    assert_int_equal(memory_backend_counts.under_way, 0);
}

static void all_members_begin_the_same_calls_whenever_one_is_cancelled(void **state) {
    (void)state;
    testing_for_seeds(100, end_some_by_seed, NULL);
}

static void differ(gw_scope *s, int rank, void *context) {
    (void)context;
    gw_group *m = open_over_memory(s, false);
    expect_sum(s, m);
    gw_all_reduce(s, m, gw_ones(s, GW_F32, rank == 1 ? 3 : 4), GW_SUM);
    assert_int_equal(gw_scope_error(s)->status, GW_MISMATCH);
    assert_non_null(
        strstr(gw_scope_error(s)->text, "w1 does all_reduce sum f32 3, by its backend"));
    gw_scope_clear(s);
    if (rank == 2) cluster_sleep_ms(s, 3000);
    gw_broadcast(s, m, rank ? NULL : gw_ones(s, GW_F32, 4), 0, .timeout_ms = 1000);
    assert_int_equal(gw_scope_error(s)->status, GW_TIMEOUT);
    gw_scope_clear(s);
    expect_sum(s, m);
}

static void aborts_are_those_of_any_group(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 50; seed++) run_over_memory(seed, 3, differ, NULL);
}

static void leave_the_job(gw_scope *s, int rank, void *context) {
    (void)context;
    gw_group *m = open_over_memory(s, false);
    expect_sum(s, m);
    gw_barrier(s, m);
    if (rank == 1) {
        gw_rpc_leave(s);
        return;
    }
    gw_all_reduce(s, m, gw_ones(s, GW_F32, 4), GW_SUM);
    assert_int_equal(gw_scope_error(s)->status, GW_DISCONNECTED);
    gw_scope_clear(s);
}

static void a_member_that_leaves_breaks_the_group(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 30; seed++) run_over_memory(seed, 3, leave_the_job, NULL);
}

// One member has failed before it calls: no member begins a call that this one does not enter.
static void fail_before(gw_scope *s, int rank, void *context) {
    (void)context;
    gw_group *m = open_over_memory(s, false);
    for (int i = 0; i < 3; i++) {
        int begun = memory_backend_counts.begun;
        if (rank == i % 3) gw_fail(s, GW_INVALID, "no data");
        gw_all_gather(s, m, gw_full(s, GW_F32, rank, 2));
        assert_int_equal(gw_scope_error(s)->status, GW_INVALID);
        assert_non_null(strstr(gw_scope_error(s)->text, "no data"));
        assert_int_equal(memory_backend_counts.begun, begun);
        gw_scope_clear(s);
        gw_barrier(s, m);
        expect_sum(s, m);
        gw_barrier(s, m);
    }
}

static void fail_before_by_seed(uint64_t seed, void *context) {
    run_over_memory(seed, 3, fail_before, context);
    assert_int_equal(memory_backend_counts.aborted, 0);
}

static void a_scope_that_has_failed_begins_nothing(void **state) {
    (void)state;
    testing_for_seeds(30, fail_before_by_seed, NULL);
}

// The backend ends the first call only after all deadlines. On other channels the group continues, and on this one when
// the call has ended.
static void wait_too_short(gw_scope *s, int rank, void *context) {
    (void)context;
    gw_group *m = open_over_memory(s, false);
    gw_all_gather(s, m, gw_full(s, GW_F32, rank, 2), .timeout_ms = 1000);
    assert_int_equal(gw_scope_error(s)->status, GW_TIMEOUT);
    gw_scope_clear(s);
    gw_barrier(s, m);
    for (int i = 0; i < 6; i++) expect_sum(s, m);
}

static void a_deadline_holds_while_the_backend_works(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 8; seed++) {
        memory_backend_reset();
        memory_backend_faults.late = 0;
        memory_backend_faults.late_ms = 5000;
        run(seed, 3, wait_too_short, NULL);
        assert_int_equal(memory_backend_counts.aborted, 0);
    }
}

// Shutdown waits for a call that has timed out but still runs in the backend, so that no member leaves the others in
// it.
static void shut_down_with_a_call(gw_scope *s, int rank, void *context) {
    (void)context;
    gw_group *m = open_over_memory(s, false);
    gw_all_gather(s, m, gw_full(s, GW_F32, rank, 2), .timeout_ms = 1000);
    assert_int_equal(gw_scope_error(s)->status, GW_TIMEOUT);
    gw_scope_clear(s);
}

static void shutdown_waits_for_detached_completion(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 8; seed++) {
        memory_backend_reset();
        memory_backend_faults.late = 0;
        memory_backend_faults.late_ms = 8000;
        run(seed, 3, shut_down_with_a_call, NULL);
        assert_int_equal(memory_backend_counts.aborted, 0);
    }
}

// Other members have begun the call that fails in the backend of one: the group is broken.
static void fail_in_the_backend(gw_scope *s, int rank, void *context) {
    (void)context;
    gw_group *m = open_over_memory(s, false), *g = gw_group_world(s);
    expect_sum(s, m);
    gw_all_gather(s, m, gw_full(s, GW_F32, rank, 2));
    gw_scope_clear(s);
    gw_barrier(s, g);
    for (int i = 0; i < 2; i++) {
        gw_all_gather(s, m, gw_full(s, GW_F32, rank, 2));
        assert_int_equal(gw_scope_error(s)->status, GW_REMOTE);
        assert_non_null(strstr(gw_scope_error(s)->text, "w1: memory: a fault"));
        gw_scope_clear(s);
        cluster_sleep_ms(s, 100);
    }
}

static void a_fault_of_the_backend_breaks_the_group(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 30; seed++) {
        memory_backend_reset();
        memory_backend_faults.failing = 2;
        memory_backend_faults.failing_at = 1;
        run(seed, 3, fail_in_the_backend, NULL);
    }
}

static void crash_last(sim *s, void *context) {
    (void)context;
    sim_crash(s, 2);
}

static void plan_crash(sim *s, void *context) {
    (void)context;
    assert_true(sim_at(s, 20 * SIM_SECOND, crash_last, NULL));
}

static void open_after_a_loss(gw_scope *s, int rank, void *context) {
    (void)context;
    gw_group *m = open_over_memory(s, false);
    expect_sum(s, m);
    if (rank == 2) {
        cluster_sleep_ms(s, 60000);  // it has ended before that
        return;
    }
    gw_all_reduce(s, m, gw_ones(s, GW_F32, 4), GW_SUM);
    assert_int_equal(gw_scope_error(s)->status, GW_DISCONNECTED);
    gw_scope_clear(s);
    const int left[] = { 0, 1 };
    gw_group_of(s, m, left, 2, .name = "n", .backend = memory_backend_at(s));
    bool survives = memory_backend.guarantees & BACKEND_SURVIVES_LOSS;
    assert_int_equal(gw_scope_error(s)->status, survives ? GW_OK : GW_DISCONNECTED);
    if (!survives)
        assert_string_equal(gw_scope_error(s)->text,
                            "backend \"memory\" cannot continue without w2");
    gw_scope_clear(s);
}

static void a_backend_that_survives_no_loss_opens_nothing_after_one(void **state) {
    (void)state;
    for (int survives = 0; survives < 2; survives++) {
        memory_backend_reset();
        if (survives) memory_backend.guarantees |= BACKEND_SURVIVES_LOSS;
        cluster_options o = { .world_size = 3, .fails = true, .direct = plan_crash };
        cluster_run(1, o, open_after_a_loss, NULL);
    }
}

static void refuse(gw_scope *s, int rank, void *context) {
    (void)rank, (void)context;
    gw_group_world(s, .backend = "nccl");
    assert_int_equal(gw_scope_error(s)->status, GW_INVALID);
    assert_string_equal(gw_scope_error(s)->text,
                        "there is no backend \"nccl\"; there are session and mpi");
    gw_scope_clear(s);
    gw_group_world(s, .backend = "sesion");
    assert_non_null(strstr(gw_scope_error(s)->text, "; did you mean \"session\"?"));
    gw_scope_clear(s);
    gw_group *g = gw_group_world(s, .backend = "session");
    expect_sum(s, g);
    gw_group_world(s, .name = "never", .backend = "mpi");  // the tests are not started by mpirun
    gw_status status = gw_scope_error(s)->status;
    assert_true(status == GW_WRONG_STATE || status == GW_UNSUPPORTED);
    assert_non_null(strstr(gw_scope_error(s)->text, "backend \"mpi\""));
    gw_scope_clear(s);
}

static void unknown_backends_are_refused(void **state) {
    (void)state;
    run_over_memory(1, 2, refuse, NULL);
}

GW_TESTS(backend_sim, a_backend_gives_the_bits_of_sessions,
         large_operations_are_split_into_several_calls, pieces_may_have_any_size,
         a_backend_may_add_in_its_own_order, a_backend_with_the_bits_of_sums_makes_them,
         missing_operations_are_composed_or_use_sessions, tensors_on_other_devices_use_sessions,
         missing_types_and_sums_are_computed_here, a_backend_with_keys_needs_no_order,
         calls_are_started_in_one_order, two_collectives_are_under_way_at_once,
         buckets_are_under_way_side_by_side, a_begun_call_is_not_paired_with_a_later_one,
         all_members_begin_the_same_calls_whenever_one_is_cancelled, aborts_are_those_of_any_group,
         a_member_that_leaves_breaks_the_group, a_scope_that_has_failed_begins_nothing,
         a_deadline_holds_while_the_backend_works, shutdown_waits_for_detached_completion,
         a_fault_of_the_backend_breaks_the_group,
         a_backend_that_survives_no_loss_opens_nothing_after_one, unknown_backends_are_refused);
