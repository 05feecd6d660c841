// Sharded optimizers and averages of weights, in the simulator.
#include "testing/cluster.h"
#include "testing/testing.h"

#include <gradwire.h>
#include <string.h>

enum { PARAMETERS = 5, STEPS = 6 };

// The same weights, and the same gradients in each step, wherever they are made.
static gw_list *make_weights(gw_scope *s, gw_tensor **out) {
    const int64_t sizes[PARAMETERS] = { 7, 100, 3, 1, 40 };
    gw_list *list = gw_list_open(s);
    for (int i = 0; i < PARAMETERS; i++) {
        gw_dtype dtype = i == 2 ? GW_F64 : GW_F32;
        gw_tensor *x = gw_full(s, dtype, 0.1 * (i + 1), sizes[i]);
        out[i] = gw_requires_grad(s, x);
        gw_list_add(s, list, out[i]);
    }
    return list;
}

static void set_gradients(gw_scope *s, gw_tensor **weights, int step) {
    for (int i = 0; i < PARAMETERS; i++)
        if (i != 3 || step % 2)  // one has none at times
            gw_set_grad(
                s, weights[i],
                gw_full(s, gw_dtype_of(weights[i]), 0.3 * i - 0.1 * step, gw_size(weights[i], 0)));
}

static void step_once(gw_scope *root, gw_optimizer *opt, gw_tensor **weights, int step) {
    gw_scope *s = gw_scope_open(root);
    set_gradients(s, weights, step);
    gw_optimizer_step(s, opt);
    gw_scope_close_up(s);
}

static void expect_same(gw_scope *s, gw_tensor **a, gw_tensor **b) {
    if (!gw_ok(s)) fail_msg("%s", gw_scope_error(s)->text);
    for (int i = 0; i < PARAMETERS; i++)
        assert_memory_equal(gw_data(a[i]), gw_data(b[i]),
                            (size_t)gw_numel(a[i]) * gw_dtype_size(gw_dtype_of(a[i])));
}

static void compare_with_plain(gw_scope *root, int rank, void *context) {
    (void)rank, (void)context;
    gw_tensor *plain[PARAMETERS], *shared[PARAMETERS], *again[PARAMETERS];
    gw_optimizer *a = gw_adam(root, make_weights(root, plain), .lr = 0.01);
    gw_optimizer *b = gw_adam(root, make_weights(root, shared), .lr = 0.01);
    gw_optimizer_shard(root, b);
    for (int step = 0; step < STEPS; step++) {
        step_once(root, a, plain, step);
        step_once(root, b, shared, step);
        expect_same(root, plain, shared);
    }
    int n = gw_rpc_world_size(root);
    int64_t whole = gw_optimizer_state_bytes(a), part = gw_optimizer_state_bytes(b);
    assert_true(n == 1 ? part == whole : part < whole);
    // The whole state goes over to one that is not sharded.
    gw_optimizer *c = gw_adam(root, make_weights(root, again), .lr = 0.5);
    gw_optimizer_load_state_dict(root, c, gw_optimizer_state_dict(root, b));
    for (int i = 0; i < PARAMETERS; i++) {
        gw_scope *s = gw_scope_open(root);
        gw_no_grad(s);
        gw_copy_(s, again[i], plain[i]);
        gw_scope_close_up(s);
    }
    step_once(root, a, plain, STEPS);
    step_once(root, c, again, STEPS);
    expect_same(root, plain, again);
    // And the other way.
    gw_tensor *last[PARAMETERS];
    gw_optimizer *d = gw_adam(root, make_weights(root, last), .lr = 0.5);
    gw_optimizer_shard(root, d);
    gw_optimizer_load_state_dict(root, d, gw_optimizer_state_dict(root, a));
    for (int i = 0; i < PARAMETERS; i++) {
        gw_scope *s = gw_scope_open(root);
        gw_no_grad(s);
        gw_copy_(s, last[i], plain[i]);
        gw_scope_close_up(s);
    }
    step_once(root, a, plain, STEPS + 1);
    step_once(root, d, last, STEPS + 1);
    expect_same(root, plain, last);
}

static void a_sharded_optimizer_takes_the_steps_of_a_plain_one(void **state) {
    (void)state;
    for (int n = 1; n <= 4; n++)
        for (uint64_t seed = 1; seed <= 5; seed++)
            cluster_run(seed, (cluster_options){ .world_size = n }, compare_with_plain, NULL);
}

static void fail_on_one(gw_scope *root, int rank, void *context) {
    (void)context;
    gw_tensor *weights[PARAMETERS], *before[PARAMETERS];
    gw_optimizer *opt = gw_adam(root, make_weights(root, weights), .lr = 0.01);
    make_weights(root, before);
    gw_optimizer_shard(root, opt);
    gw_scope *s = gw_scope_open(root);
    set_gradients(s, weights, 1);
    if (rank == 1) gw_matmul(s, gw_ones(s, GW_F32, 2, 3), gw_ones(s, GW_F32, 2, 3));
    gw_optimizer_step(s, opt);
    gw_error e = gw_scope_close(s);
    assert_int_equal(e.status, GW_INVALID);
    assert_non_null(strstr(e.text, "gw.matmul"));
    expect_same(root, weights, before);
    gw_optimizer_shard(root, opt);
    assert_int_equal(gw_scope_error(root)->status, GW_WRONG_STATE);
    gw_scope_clear(root);
    gw_optimizer *other =
        gw_sgd(root, rank ? make_weights(root, weights) : make_weights(root, before));
    gw_list *one = gw_list_open(root);
    gw_list_add(root, one, gw_requires_grad(root, gw_ones(root, GW_F32, 2 + rank)));
    gw_optimizer_add_group(root, other, one, .lr = 0.5);
    gw_optimizer_shard(root, other);
    assert_int_equal(gw_scope_error(root)->status, GW_MISMATCH);
    gw_scope_clear(root);
}

static void a_step_that_fails_on_one_changes_nothing(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++)
        cluster_run(seed, (cluster_options){ .world_size = 3 }, fail_on_one, NULL);
}

static void average(gw_scope *root, int rank, void *context) {
    (void)context;
    gw_group *all = gw_group_world(root), *pair = gw_group_blocks(root, all, 2);
    gw_tensor *w = gw_requires_grad(root, gw_full(root, GW_F32, rank, 3));
    gw_list *params = gw_list_open(root);
    gw_list_add(root, params, w);
    gw_averager a = { .levels = { { 2, pair }, { 4, all } }, .warmup = 1 };
    const bool averages[] = { false, true, false, true, false, true };
    for (int step = 0; step < 6; step++)
        assert_int_equal(gw_averager_step(root, &a, params), averages[step]);
    assert_true(gw_ok(root));
    assert_int_equal(a.step, 6);
    assert_true(((const float *)gw_data(w))[1] == 1.5f);
}

static void weights_are_averaged_by_the_largest_period_that_is_due(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 5; seed++)
        cluster_run(seed, (cluster_options){ .world_size = 4 }, average, NULL);
}

GW_TESTS(shard_sim, a_sharded_optimizer_takes_the_steps_of_a_plain_one,
         a_step_that_fails_on_one_changes_nothing,
         weights_are_averaged_by_the_largest_period_that_is_due);
