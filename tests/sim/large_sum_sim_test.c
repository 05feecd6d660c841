// Sums in several pieces, in the simulator: the numbers are those of one collective, and an error is reported to all
// once.
#include "collective/api/requests.h"
#include "testing/cluster.h"
#include "testing/testing.h"

#include <gradwire.h>
#include <string.h>

enum { SEEDS = 12, MEMBERS = 3, COUNT = 5003, PIECE_BYTES = 1024, ONE_BYTES = 1 << 20 };

static void expect_ok(gw_scope *s) {
    if (!gw_ok(s)) fail_msg("%s", gw_scope_error(s)->text);
}

static void expect(gw_scope *s, gw_status status, const char *part) {
    const gw_error *e = gw_scope_error(s);
    if (e->status != status || !strstr(e->text, part))
        fail_msg("\"%s\" (%d) instead of \"%s\"", e->text, e->status, part);
    gw_scope_clear(s);
}

static void for_seeds(cluster_main *main) {
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        testing_note("seed %d", (int)seed);
        large_sum_set_piece(PIECE_BYTES);
        cluster_run(seed, (cluster_options){ .world_size = MEMBERS }, main, NULL);
    }
    large_sum_set_piece(ONE_BYTES << 4);
}

static void expect_same(const gw_tensor *a, const gw_tensor *b) {
    assert_int_equal(gw_numel(a), gw_numel(b));
    assert_memory_equal(gw_data(a), gw_data(b),
                        (size_t)gw_numel(a) * gw_dtype_size(gw_dtype_of(a)));
}

// The same sum of slices that are small enough for one piece.
static gw_tensor *sum_as_one(gw_scope *s, gw_group *g, gw_tensor *x, gw_reduce_op op) {
    gw_tensor *parts[COUNT / 100 + 1];
    int count = 0;
    gw_tensor *flat = gw_reshape(s, x, -1);
    for (int64_t at = 0; at < gw_numel(x); at += 100, count++) {
        int64_t end = at + 100 < gw_numel(x) ? at + 100 : gw_numel(x);
        parts[count] = gw_all_reduce(s, g, gw_slice(s, flat, 0, at, end, 1), op);
    }
    return gw_cat(s, parts, count, 0);
}

static void compare(gw_scope *s, int rank, void *context) {
    (void)rank, (void)context;
    gw_group *g = gw_group_world(s);
    static const gw_dtype dtypes[] = { GW_F32, GW_F64, GW_BF16, GW_I32 };
    for (int i = 0; i < 4; i++) {
        gw_tensor *x = gw_to_dtype(s, gw_mul(s, gw_rand(s, GW_F32, COUNT), 1000.0), dtypes[i]);
        gw_tensor *sum = gw_all_reduce(s, g, x, GW_SUM);
        expect_ok(s);
        expect_same(sum, sum_as_one(s, g, x, GW_SUM));
        gw_tensor *same = gw_all_reduce(s, g, x, GW_SUM, .into = x);
        expect_ok(s);
        assert_true(same == x);
        expect_same(x, sum);
    }
    gw_tensor *turned = gw_transpose(s, gw_rand(s, GW_F32, 60, 80), 0, 1);
    gw_tensor *most = gw_all_reduce(s, g, turned, GW_MAX);
    expect_ok(s);
    assert_int_equal(gw_size(most, 0), 80);
    expect_same(gw_reshape(s, most, -1), sum_as_one(s, g, turned, GW_MAX));
}

static void pieces_give_the_bits_of_one(void **state) {
    (void)state;
    for_seeds(compare);
}

static void differ(gw_scope *s, int rank, void *context) {
    (void)context;
    gw_group *g = gw_group_world(s);
    gw_tensor *x = gw_ones(s, GW_F32, COUNT + (rank == 1));
    gw_all_reduce(s, g, x, GW_SUM, .into = x);
    expect(s, GW_MISMATCH, "a piece of 500");
    assert_true(gw_item(s, gw_sum(s, x)) == COUNT + (rank == 1));
    gw_all_reduce(s, g, gw_ones(s, GW_I32, COUNT), rank == 2 ? GW_MAX : GW_SUM);
    expect(s, GW_MISMATCH, "all_reduce");
    gw_barrier(s, g);
    expect_ok(s);
}

static void members_that_differ_get_an_error_and_keep_their_tensors(void **state) {
    (void)state;
    for_seeds(differ);
}

static void stay_away(gw_scope *s, int rank, void *context) {
    (void)context;
    gw_group *g = gw_group_world(s, .timeout_ms = 2000);
    gw_tensor *x = gw_ones(s, GW_F32, COUNT);
    if (rank == 1) gw_fail(s, GW_INVALID, "no more data");
    gw_all_reduce(s, g, x, GW_SUM, .into = x);
    expect(s, GW_INVALID, "no more data");
    if (rank == 2) cluster_pause_ms(s, 5000);
    gw_scope_clear(s);
    gw_all_reduce(s, g, x, GW_SUM, .into = x);
    expect(s, GW_TIMEOUT, "has passed");
    assert_true(gw_item(s, gw_sum(s, x)) == COUNT);
    gw_all_reduce(s, g, x, GW_SUM, .into = x, .timeout_ms = 20000);
    expect_ok(s);
    assert_true(gw_item(s, gw_sum(s, x)) == 3 * COUNT);
}

static void one_that_fails_or_is_late_fails_it_for_all_once(void **state) {
    (void)state;
    for_seeds(stay_away);
}

GW_TESTS(large_sum_sim, pieces_give_the_bits_of_one,
         members_that_differ_get_an_error_and_keep_their_tensors,
         one_that_fails_or_is_late_fails_it_for_all_once);
