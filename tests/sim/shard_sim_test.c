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

// The weights of |from| go to |to|.
static void copy_weights(gw_scope *root, gw_tensor **to, gw_tensor **from) {
    gw_scope *s = gw_scope_open(root);
    gw_no_grad(s);
    for (int i = 0; i < PARAMETERS; i++) gw_copy_(s, to[i], from[i]);
    gw_scope_close_up(s);
}

// |context|: whether it is flat.
static void compare_with_plain(gw_scope *root, int rank, void *context) {
    const bool flat = context != NULL;
    gw_tensor *plain[PARAMETERS], *shared[PARAMETERS], *again[PARAMETERS];
    gw_optimizer *a = gw_adam(root, make_weights(root, plain), .lr = 0.01);
    gw_optimizer *b = gw_adam(root, make_weights(root, shared), .lr = 0.01);
    gw_optimizer_shard(root, b, .flat = flat);
    for (int step = 0; step < STEPS; step++) {
        step_once(root, a, plain, step);
        step_once(root, b, shared, step);
        expect_same(root, plain, shared);
    }
    int n = gw_rpc_world_size(root);
    int64_t whole = gw_optimizer_state_bytes(a), part = gw_optimizer_state_bytes(b);
    assert_true(n == 1 ? part == whole : part < whole);
    // The whole state is loaded into an optimizer that is not sharded.
    gw_optimizer *c = gw_adam(root, make_weights(root, again), .lr = 0.5);
    gw_map *whole_state = gw_optimizer_state_dict(root, b);
    gw_optimizer_load_state_dict(root, c, whole_state);
    copy_weights(root, again, plain);
    step_once(root, a, plain, STEPS);
    step_once(root, c, again, STEPS);
    expect_same(root, plain, again);
    // And the other direction.
    gw_tensor *last[PARAMETERS];
    gw_optimizer *d = gw_adam(root, make_weights(root, last), .lr = 0.5);
    gw_optimizer_shard(root, d, .flat = flat);
    gw_optimizer_load_state_dict(root, d, gw_optimizer_state_dict(root, a));
    copy_weights(root, last, plain);
    step_once(root, a, plain, STEPS + 1);
    step_once(root, d, last, STEPS + 1);
    expect_same(root, plain, last);
    // Or to one member only.
    gw_map *there = gw_optimizer_consolidate(root, b, n - 1);
    assert_int_equal(gw_map_count(there), rank == n - 1 ? gw_map_count(whole_state) : 0);
    assert_true(gw_ok(root));
}

static void a_sharded_optimizer_takes_the_steps_of_a_plain_one(void **state) {
    (void)state;
    int flat;
    for (int n = 1; n <= 4; n++) {
        for (uint64_t seed = 1; seed <= 3; seed++) {
            cluster_run(seed, (cluster_options){ .world_size = n }, compare_with_plain, NULL);
            cluster_run(seed, (cluster_options){ .world_size = n }, compare_with_plain, &flat);
        }
    }
}

// ---- Groups and schedules -----------------------------------------------------------------------
// torch: test_zero_redundancy_optimizer.test_multiple_param_groups, test_add_param_group,
// test_lr_scheduler, test_local_optimizer_parity

enum { RULES = 5 };

static gw_optimizer *open_rule(gw_scope *s, int rule, gw_list *params) {
    switch (rule) {
    case 0: return gw_sgd(s, params, .lr = 0.1, .momentum = 0.9, .nesterov = true);
    case 1: return gw_adamw(s, params, .lr = 0.05, .amsgrad = true);
    case 2: return gw_rmsprop(s, params, .lr = 0.02, .centered = true, .momentum = 0.5);
    case 3: return gw_adagrad(s, params, .lr = 0.1);
    default: return gw_rprop(s, params, .lr = 0.01);
    }
}

typedef struct side {
    gw_optimizer *optimizer;
    gw_tensor *first[PARAMETERS], *second[PARAMETERS], *third[PARAMETERS];
    gw_scheduler *schedule;
} side;

static void open_side(gw_scope *root, side *x, int rule, bool is_sharded, bool flat) {
    x->optimizer = open_rule(root, rule, make_weights(root, x->first));
    gw_optimizer_add_parameter_group(root, x->optimizer, make_weights(root, x->second), .lr = 0.03);
    if (is_sharded) gw_optimizer_shard(root, x->optimizer, .flat = flat);
    x->schedule = gw_step_lr(root, x->optimizer, .step_size = 2, .gamma = 0.5);
}

static void step_side(gw_scope *root, side *x, int step) {
    gw_scope *s = gw_scope_open(root);
    set_gradients(s, x->first, step);
    set_gradients(s, x->second, step + 1);
    if (step >= 3) set_gradients(s, x->third, step + 2);
    gw_optimizer_step(s, x->optimizer);
    gw_scheduler_step(s, x->schedule);
    gw_scope_close_up(s);
}

static void step_by_rules(gw_scope *root, int rank, void *context) {
    (void)rank;
    const bool flat = context != NULL;
    for (int rule = 0; rule < RULES; rule++) {
        side a, b;
        open_side(root, &a, rule, false, flat);
        open_side(root, &b, rule, true, flat);
        for (int step = 0; step < STEPS; step++) {
            if (step == 3) {  // a group of its own is added later
                gw_optimizer_add_parameter_group(root, a.optimizer, make_weights(root, a.third),
                                                 .lr = 0.2);
                gw_optimizer_add_parameter_group(root, b.optimizer, make_weights(root, b.third),
                                                 .lr = 0.2);
            }
            step_side(root, &a, step);
            step_side(root, &b, step);
            expect_same(root, a.first, b.first);
            expect_same(root, a.second, b.second);
            if (step >= 3) expect_same(root, a.third, b.third);
        }
    }
}

static void groups_and_schedules_of_each_rule_have_the_same_steps(void **state) {
    (void)state;
    int flat;
    cluster_run(1, (cluster_options){ .world_size = 3 }, step_by_rules, NULL);
    cluster_run(1, (cluster_options){ .world_size = 3 }, step_by_rules, &flat);
}

// ---- Failing ------------------------------------------------------------------------------------

static void fail_on_one(gw_scope *root, int rank, void *context) {
    const bool flat = context != NULL;
    gw_tensor *weights[PARAMETERS], *before[PARAMETERS], *plain[PARAMETERS];
    gw_optimizer *opt = gw_adam(root, make_weights(root, weights), .lr = 0.01);
    make_weights(root, before);
    gw_optimizer_shard(root, opt, .flat = flat);
    gw_scope *s = gw_scope_open(root);
    set_gradients(s, weights, 1);
    if (rank == 1) gw_matmul(s, gw_ones(s, GW_F32, 2, 3), gw_ones(s, GW_F32, 2, 3));
    gw_optimizer_step(s, opt);
    gw_error e = gw_scope_close(s);
    assert_int_equal(e.status, GW_INVALID);
    assert_non_null(strstr(e.text, "gw.matmul"));
    expect_same(root, weights, before);
    // The next step has the results of a run without the failure.
    gw_optimizer *other = gw_adam(root, make_weights(root, plain), .lr = 0.01);
    step_once(root, opt, weights, 2);
    step_once(root, other, plain, 2);
    expect_same(root, weights, plain);
    gw_optimizer_shard(root, opt);
    assert_int_equal(gw_scope_error(root)->status, GW_WRONG_STATE);
    gw_scope_clear(root);
    gw_optimizer_consolidate(root, other, 0);
    assert_int_equal(gw_scope_error(root)->status, GW_INVALID);
    gw_scope_clear(root);
    other = gw_sgd(root, rank ? make_weights(root, weights) : make_weights(root, before));
    gw_list *one = gw_list_open(root);
    gw_list_add(root, one, gw_requires_grad(root, gw_ones(root, GW_F32, 2 + rank)));
    gw_optimizer_add_parameter_group(root, other, one, .lr = 0.5);
    gw_optimizer_shard(root, other);
    assert_int_equal(gw_scope_error(root)->status, GW_MISMATCH);
    gw_scope_clear(root);
    gw_optimizer_shard(root, gw_sgd(root, make_weights(root, before)), .gradients = GW_SHARDED,
                       .flat = flat);
    assert_int_equal(gw_scope_error(root)->status, GW_INVALID);
    gw_scope_clear(root);
}

static void a_step_that_fails_on_one_changes_nothing(void **state) {
    (void)state;
    int flat;
    for (uint64_t seed = 1; seed <= 10; seed++) {
        cluster_run(seed, (cluster_options){ .world_size = 3 }, fail_on_one, NULL);
        cluster_run(seed, (cluster_options){ .world_size = 3 }, fail_on_one, &flat);
    }
}

static void average(gw_scope *root, int rank, void *context) {
    (void)context;
    gw_group *all = gw_group_world(root), *pair = gw_group_blocks(root, all, 2);
    gw_tensor *w = gw_requires_grad(root, gw_full(root, GW_F32, rank, 3));
    gw_list *params = gw_list_open(root);
    gw_list_add(root, params, w);
    gw_averager a = { .levels = { { 2, pair }, { 4, all } }, .warmup = 1 };
    const bool averages[] = { false, false, true, false, true, false };
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
         groups_and_schedules_of_each_rule_have_the_same_steps,
         a_step_that_fails_on_one_changes_nothing,
         weights_are_averaged_by_the_largest_period_that_is_due);
