// Sharded optimizers of replicated models, in the simulator: gradients that only the member with the
// state keeps, clipping, scaling.
#include "testing/cluster.h"
#include "testing/testing.h"

#include <gradwire.h>
#include <math.h>
#include <string.h>

enum { IN = 6, HIDDEN = 5, OUT = 3, BATCH = 12, STEPS = 4, WEIGHTS = 4 };

typedef struct net {
    gw_module *model;
    gw_tensor *weights[WEIGHTS];
} net;

static gw_tensor *forward(gw_scope *s, gw_module *m, gw_tensor *x) {
    gw_module *const *layers = gw_module_state(m);
    return gw_module_call(s, layers[1], gw_relu(s, gw_module_call(s, layers[0], x)));
}

static void open_net(gw_scope *root, net *n) {
    gw_scope *s = gw_scope_open(root);
    gw_seed(s, 7);
    gw_module **layers = gw_alloc(root, 2 * sizeof *layers);
    layers[0] = gw_keep(root, gw_nn_linear(s, IN, HIDDEN));
    layers[1] = gw_keep(root, gw_nn_linear(s, HIDDEN, OUT));
    n->model = gw_module_open(root, "net", forward, layers);
    gw_module_register_module(root, n->model, "a", layers[0]);
    gw_module_register_module(root, n->model, "b", layers[1]);
    gw_scope_close_up(s);
    for (int i = 0; i < WEIGHTS; i++) n->weights[i] = gw_module_parameter_at(root, n->model, i);
}

static gw_tensor *batch(gw_scope *s, int rank, int step) {
    gw_scope *seeded = gw_scope_open(s);
    gw_seed(seeded, (uint64_t)(rank * 100 + step));
    gw_tensor *x = gw_keep(s, gw_randn(seeded, GW_F32, BATCH, IN));
    gw_scope_close_up(seeded);
    return x;
}

static gw_tensor *loss_of(gw_scope *s, const net *n, gw_tensor *x) {
    gw_tensor *y = gw_module_call(s, n->model, x);
    return gw_mean(s, gw_mul(s, y, y));
}

static void expect_same(gw_scope *s, const net *a, const net *b) {
    if (!gw_ok(s)) fail_msg("%s", gw_scope_error(s)->text);
    for (int i = 0; i < WEIGHTS; i++) assert_true(gw_equal(s, a->weights[i], b->weights[i]));
}

static void expect_close(gw_scope *s, const net *a, const net *b) {
    if (!gw_ok(s)) fail_msg("%s", gw_scope_error(s)->text);
    for (int i = 0; i < WEIGHTS; i++) {
        gw_scope *t = gw_scope_open(s);
        gw_no_grad(t);
        gw_tensor *d = gw_sub(t, a->weights[i], b->weights[i]);
        assert_true(gw_item(t, gw_max(t, gw_abs(t, d))) < 1e-5);
        gw_scope_close_up(t);
    }
}

static void expect_error(gw_scope *s, gw_status status, const char *text) {
    if (gw_scope_error(s)->status != status || !strstr(gw_scope_error(s)->text, text))
        fail_msg("%s: %s", gw_status_name(gw_scope_error(s)->status), gw_scope_error(s)->text);
    gw_scope_clear(s);
}

// How many gradients of |n| this member has; with those of all members, each once.
static void expect_shared_out(gw_scope *s, const net *n) {
    int64_t own = 0;
    for (int i = 0; i < WEIGHTS; i++) own += gw_grad_find(s, n->weights[i]) != NULL;
    gw_tensor *all =
        gw_all_reduce(s, gw_group_world(s, .name = "counting"), gw_from(s, &own, 1), GW_SUM);
    assert_int_equal(gw_item_int(s, all), WEIGHTS);
}

// ---- The same weights ---------------------------------------------------------------------------

static struct variant {
    int64_t bucket_bytes;
    bool has_hook, clips, accumulates, overlaps, is_flat;
} now;

static double train_step(gw_scope *root, const net *n, gw_optimizer *opt, int rank, int step,
                         bool is_shared_out) {
    gw_scope *s = gw_scope_open(root);
    if (now.accumulates) {
        gw_ddp_no_sync(s);
        gw_backward(s, loss_of(s, n, batch(s, rank, step + 50)));
        gw_ddp_sync(s);
    }
    gw_backward(s, loss_of(s, n, batch(s, rank, step)));
    if (is_shared_out && !now.is_flat) expect_shared_out(s, n);
    double norm = now.clips ? gw_clip_grad_norm(s, gw_parameters(s, n->model), 0.05) : 0;
    gw_optimizer_step(s, opt);
    gw_scope_close_up(s);
    return norm;
}

static gw_ddp *open_replica(gw_scope *root, net *n) {
    open_net(root, n);
    gw_ddp *d = gw_ddp_open(root, n->model, .bucket_bytes = now.bucket_bytes,
                            .first_bucket_bytes = now.bucket_bytes);
    if (now.has_hook) gw_ddp_set_hook(root, d, gw_hook_all_reduce, NULL);
    return d;
}

// On one member, all state of the optimizer, as the plain one has it.
static void compare_states(gw_scope *root, gw_optimizer *plain, gw_optimizer *shared, int rank) {
    int to = gw_rpc_world_size(root) - 1;
    gw_map *want = gw_optimizer_state_dict(root, plain);
    gw_map *got = gw_optimizer_consolidate(root, shared, to);
    if (!gw_ok(root)) fail_msg("%s", gw_scope_error(root)->text);
    assert_int_equal(gw_map_count(got), rank == to ? gw_map_count(want) : 0);
    for (int i = 0; i < gw_map_count(got); i++) {
        const char *key = gw_map_key(root, want, i);
        gw_value a = gw_map_find(want, key), b = gw_map_find(got, key);
        if (a.kind == GW_TENSOR && !gw_equal(root, a.as.tensor, b.as.tensor)) fail_msg("%s", key);
    }
}

// torch: test_zero_redundancy_optimizer.test_local_optimizer_parity, and more cases of the same kind
static void compare_with_plain(gw_scope *root, int rank, void *context) {
    (void)context;
    net plain, shared;
    open_replica(root, &plain);
    open_replica(root, &shared);
    gw_optimizer *a = gw_adam(root, gw_parameters(root, plain.model), .lr = 0.01);
    gw_optimizer *b = gw_adam(root, gw_parameters(root, shared.model), .lr = 0.01);
    gw_optimizer_shard(root, b, .gradients = GW_SHARDED, .overlap = now.overlaps,
                       .flat = now.is_flat);
    for (int step = 0; step < STEPS; step++) {
        if (step == 2) {
            gw_optimizer_set_lr(root, a, 0.02);
            gw_optimizer_set_lr(root, b, 0.02);
        }
        double one = train_step(root, &plain, a, rank, step, false);
        double two = train_step(root, &shared, b, rank, step, true);
        // The squares of a parameter's ranges are summed separately.
        bool is_exact = !now.is_flat || !now.clips;
        assert_true(is_exact ? one == two : fabs(one - two) < 1e-6 * one);
        if (is_exact)
            expect_same(root, &plain, &shared);
        else
            expect_close(root, &plain, &shared);
    }
    if (!now.is_flat || !now.clips) compare_states(root, a, b, rank);
}

enum { MEMBERS_MAX = 4, VARIANTS = 64 };

static void compare_by_seed(uint64_t seed, void *context) {
    unsigned variant = seed / MEMBERS_MAX % VARIANTS;
    now = (struct variant){ .bucket_bytes = variant & 1 ? 1 : 1 << 20,
                            .has_hook = variant & 2,
                            .clips = variant & 4,
                            .accumulates = variant & 8,
                            .overlaps = variant & 16,
                            .is_flat = variant & 32 };
    cluster_run(seed, (cluster_options){ .world_size = 1 + (int)(seed % MEMBERS_MAX) },
                compare_with_plain, context);
}

static void sharded_gradients_give_the_same_weights(void **state) {
    (void)state;
    testing_for_seeds(MEMBERS_MAX * VARIANTS, compare_by_seed, NULL);
}

// ---- Rows, and members without a gradient -------------------------------------------------------

static void use_rows(gw_scope *root, int rank, void *context) {
    (void)context;
    gw_module *table = gw_nn_embedding(root, 20, 4, .sparse = true);
    gw_module *again = gw_nn_embedding(root, 20, 4, .sparse = true);
    gw_tensor *w = gw_module_parameter_at(root, table, 0);
    gw_tensor *v = gw_module_parameter_at(root, again, 0);
    gw_ddp *d = gw_ddp_open(root, table);
    gw_ddp *e = gw_ddp_open(root, again);
    gw_optimizer *a = gw_sgd(root, gw_parameters(root, table), .lr = 0.5);
    gw_optimizer *b = gw_sgd(root, gw_parameters(root, again), .lr = 0.5);
    gw_optimizer_shard(root, b, .gradients = GW_SHARDED);
    gw_scope *s = gw_scope_open(root);
    gw_no_grad(s);
    gw_copy_(s, v, w);
    gw_enable_grad(s);
    int64_t rows[] = { rank, 7, 19 };
    if (rank == 1) {  // has no batch
        gw_ddp_skip(s, d);
        gw_ddp_skip(s, e);
    } else {
        gw_backward(s, gw_sum(s, gw_module_call(s, table, gw_from(s, rows, 3))));
        gw_backward(s, gw_sum(s, gw_module_call(s, again, gw_from(s, rows, 3))));
    }
    gw_optimizer_step(s, a);
    gw_optimizer_step(s, b);
    assert_true(gw_equal(s, w, v));
    gw_scope_close_up(s);
    assert_true(gw_ok(root));
}

static void rows_and_skipped_passes_are_sharded(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 5; seed++)
        cluster_run(seed, (cluster_options){ .world_size = 3 }, use_rows, NULL);
}

enum { TABLE_ROWS = 4000, TABLE_BYTES = TABLE_ROWS * 8 * 4 };

typedef struct tables {
    gw_module *modules[2];
    gw_tensor *weights[2];
    gw_optimizer *optimizer;
} tables;

static gw_optimizer *open_rule(gw_scope *s, int rule, gw_list *params) {
    if (rule == 0) return gw_adagrad(s, params, .lr = 0.1);
    if (rule == 1) return gw_sparse_adam(s, params, .lr = 0.1);
    return gw_sgd(s, params, .lr = 0.1, .momentum = 0.5);  // changes all rows
}

// Two, so that members have one each.
static void open_tables(gw_scope *root, tables *t, int rule, bool is_sharded, bool is_shared_out) {
    gw_list *params = gw_list_open(root);
    gw_scope *s = gw_scope_open(root);
    gw_no_grad(s);
    for (int i = 0; i < 2; i++) {
        t->modules[i] = gw_nn_embedding(root, TABLE_ROWS, 8, .sparse = true);
        t->weights[i] = gw_module_parameter_at(root, t->modules[i], 0);
        gw_fill_(s, t->weights[i], i + 1);
        gw_ddp_open(root, t->modules[i]);
        gw_list_add(root, params, t->weights[i]);
    }
    gw_scope_close_up(s);
    t->optimizer = open_rule(root, rule, params);
    if (is_sharded)
        gw_optimizer_shard(root, t->optimizer, .gradients = is_shared_out ? GW_SHARDED : GW_WHOLE);
}

// Returns the bytes that this member has sent in the step. In one step no member uses the second table.
static int64_t step_tables(gw_scope *root, const tables *t, int rank, int step) {
    gw_scope *s = gw_scope_open(root);
    int64_t rows[] = { rank, 7 + step, TABLE_ROWS - 1, 7 + step };
    for (int i = 0; i < 2 - (step == 1); i++)
        gw_backward(s, gw_sum(s, gw_module_call(s, t->modules[i], gw_from(s, rows, 4))));
    gw_barrier(s, gw_group_world(s, .name = "steps"));
    int64_t before = (int64_t)gw_rpc_get_stats(s).bytes_sent;
    gw_optimizer_step(s, t->optimizer);
    int64_t bytes = (int64_t)gw_rpc_get_stats(s).bytes_sent - before;
    gw_scope_close_up(s);
    return bytes;
}

static void share_tables(gw_scope *root, int rank, void *context) {
    (void)context;
    for (int kind = 0; kind < 6; kind++) {
        tables plain, shared;
        open_tables(root, &plain, kind % 3, false, false);
        open_tables(root, &shared, kind % 3, true, kind >= 3);
        for (int step = 0; step < STEPS && gw_ok(root); step++) {
            step_tables(root, &plain, rank, step);
            int64_t bytes = step_tables(root, &shared, rank, step);
            if (kind % 3 != 2 && bytes > TABLE_BYTES / 10)
                fail_msg("%lld bytes for a few rows", (long long)bytes);
            for (int i = 0; i < 2; i++)
                if (!gw_equal(root, plain.weights[i], shared.weights[i]))
                    fail_msg("kind %d, step %d: table %d differs", kind, step, i);
        }
        if (!gw_ok(root)) fail_msg("kind %d: %s", kind, gw_scope_error(root)->text);
    }
}

static void only_changed_rows_of_tables_are_sent(void **state) {
    (void)state;
    for (int n = 1; n <= 3; n++)
        cluster_run((uint64_t)n, (cluster_options){ .world_size = n }, share_tables, NULL);
}

// ---- Refusals -----------------------------------------------------------------------------------

static void refuse(gw_scope *root, int rank, void *context) {
    (void)context;
    now = (struct variant){ .bucket_bytes = 1 };
    net n, later;
    open_replica(root, &n);
    gw_optimizer *opt = gw_sgd(root, gw_parameters(root, n.model), .lr = 0.1);
    gw_optimizer_shard(root, opt, .gradients = GW_SHARDED);
    gw_scope *s = gw_scope_open(root);
    gw_backward(s, loss_of(s, &n, batch(s, rank, 1)));
    gw_ddp_no_sync(s);
    gw_backward(s, loss_of(s, &n, batch(s, rank, 2)));
    expect_error(s, GW_WRONG_STATE,
                 "a pass that is not synchronised cannot be made in a scope that has the mean over "
                 "replicas: its gradients would be added to the mean");
    gw_scope_close_up(s);
    train_step(root, &n, opt, rank, 3, true);  // and it continues
    assert_true(gw_ok(root));
    open_replica(root, &later);
    s = gw_scope_open(root);
    gw_backward(s, loss_of(s, &later, batch(s, rank, 1)));
    gw_scope_close_up(s);
    gw_optimizer_shard(root, gw_sgd(root, gw_parameters(root, later.model)),
                       .gradients = GW_SHARDED);
    expect_error(root, GW_WRONG_STATE, "before the first backward pass");
    gw_list *some = gw_list_open(root);
    net third;
    open_replica(root, &third);
    gw_list_add(root, some, third.weights[0]);
    gw_optimizer_shard(root, gw_sgd(root, some), .gradients = GW_SHARDED);
    expect_error(root, GW_INVALID,
                 "gw_optimizer_shard: gradients cannot be sharded, because a parameter of the "
                 "replicated model is not in the optimizer");
    gw_module *table = gw_nn_embedding(root, 20, 4, .sparse = true);
    gw_ddp_open(root, table);
    gw_optimizer_shard(root, gw_sgd(root, gw_parameters(root, table)), .gradients = GW_SHARDED,
                       .flat = true);
    expect_error(root, GW_INVALID,
                 "in ranges (.flat), because those of \"weight\" are sparse by rows");
}

// A member that fails before it clips does not leave the others waiting there.
static void fail_before_clipping(gw_scope *root, int rank, void *context) {
    now = (struct variant){ .bucket_bytes = 1, .clips = true };
    net n;
    open_replica(root, &n);
    gw_optimizer *opt = gw_sgd(root, gw_parameters(root, n.model), .lr = 0.1);
    gw_optimizer_shard(root, opt, .gradients = GW_SHARDED, .flat = context != NULL);
    for (int step = 0; step < STEPS; step++) {
        gw_scope *s = gw_scope_open(root);
        gw_backward(s, loss_of(s, &n, batch(s, rank, step)));
        if (step % 2 && rank == 1) gw_fail(s, GW_INVALID, "out of range");
        gw_clip_grad_norm(s, gw_parameters(s, n.model), 0.05);
        gw_optimizer_step(s, opt);
        if (step % 2) expect_error(s, GW_INVALID, "out of range");
        gw_scope_close_up(s);
    }
    if (!gw_ok(root)) fail_msg("%s", gw_scope_error(root)->text);
    assert_int_equal(gw_optimizer_steps(opt), STEPS / 2);
}

static void a_failure_before_clipping_fails_on_all(void **state) {
    (void)state;
    int is_flat;
    for (uint64_t seed = 1; seed <= 10; seed++) {
        cluster_run(seed, (cluster_options){ .world_size = 3 }, fail_before_clipping, NULL);
        cluster_run(seed, (cluster_options){ .world_size = 3 }, fail_before_clipping, &is_flat);
    }
}

static void ambiguous_gradients_are_refused(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 5; seed++)
        cluster_run(seed, (cluster_options){ .world_size = 3 }, refuse, NULL);
}

// ---- Scaling ------------------------------------------------------------------------------------

// Of gradients that only one member keeps, one is infinite: all skip that step, and no other.
static void scale(gw_scope *root, int rank, void *context) {
    const gw_shard_options *how = context;
    const bool is_shared_out = how->gradients == GW_SHARDED;
    now = (struct variant){ .bucket_bytes = 1 << 20 };
    net n;
    open_replica(root, &n);
    gw_optimizer *opt = gw_adam(root, gw_parameters(root, n.model), .lr = 0.01);
    gw_optimizer_shard_with(root, opt, *how);
    gw_scaler *scaler = gw_scaler_open(root, .init_scale = 1024);
    for (int step = 0; step < STEPS; step++) {
        gw_scope *s = gw_scope_open(root);
        gw_backward(s, gw_scaler_scale(s, scaler, loss_of(s, &n, batch(s, rank, step))));
        // Of ranges, the gradients are those of views.
        gw_tensor *x = is_shared_out && how->flat ? gw_grads_get(s, 0).leaf : n.weights[1];
        gw_tensor *g = gw_grad_find(s, x);
        bool spoils = step == 1 && (is_shared_out && !how->flat ? g != NULL : rank == 1);
        if (spoils) gw_set_grad(s, x, gw_mul(s, g, (double)INFINITY));
        assert_int_equal(gw_scaler_step(s, scaler, opt), step != 1);
        gw_scaler_update(s, scaler);
        gw_scope_close_up(s);
    }
    assert_true(gw_ok(root));
    assert_int_equal(gw_optimizer_steps(opt), STEPS - 1);
    assert_true(gw_scaler_get_scale(scaler) == 512);
    // A member that has failed does not leave the others waiting.
    gw_scope *s = gw_scope_open(root);
    gw_backward(s, gw_requires_grad(s, gw_ones(s, GW_F32)));
    if (rank == 2) gw_fail(s, GW_INVALID, "no batch");
    gw_scaler_step(s, scaler, opt);
    expect_error(s, GW_INVALID, "no batch");
    gw_scope_close_up(s);
}

static void all_members_skip_a_step_or_none(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 5; seed++)
        for (int i = 0; i < 4; i++) {
            gw_shard_options how = { .gradients = i & 1 ? GW_SHARDED : GW_WHOLE, .flat = i & 2 };
            cluster_run(seed, (cluster_options){ .world_size = 3 }, scale, &how);
        }
}

// ---- Scaling, with parameters of other workers --------------------------------------------------

typedef struct far_weight {
    gw_tensor *w;
} far_weight;

GW_CLASS(far_weight, open_far_weight, "");

static void open_far_weight(gw_scope *own, far_weight *self, const gw_args *a) {
    (void)a;
    self->w = gw_requires_grad(own, gw_ones(own, GW_F32, OUT));
}

GW_METHOD(far_weight, weight, GW_INLINE, "") {
    return gw_value_of(gw_rref_open(s, self->w));
}

GW_METHOD(far_weight, times, GW_INLINE, "float") {
    return gw_value_of(gw_mul(s, self->w, gw_arg_float(s, a, 0)));
}

// Each of two replicas has a weight of its own on a third worker. Where one of these gets an infinite gradient, the
// replicated weights stay equal.
static void scale_with_far_weights(gw_scope *root, int rank, void *context) {
    (void)context;
    if (rank == 2) return;
    now = (struct variant){ .bucket_bytes = 1 << 20 };
    gw_worker both[] = { gw_rpc_worker(root, "w0"), gw_rpc_worker(root, "w1") };
    net n;
    open_net(root, &n);
    gw_ddp *ddp = gw_ddp_open(root, n.model, .group = gw_group_open(root, both, 2));
    gw_rref *far = gw_remote(root, 2, "far_weight");
    gw_list *params = gw_parameters(root, n.model);
    gw_list_add(root, params, gw_rref_of(root, gw_rpc_sync(root, far, "weight")));
    gw_optimizer *opt = gw_sgd(root, params, .lr = 0.5);
    gw_scaler *scaler = gw_scaler_open(root);
    for (int step = 0; step < 3; step++) {
        gw_scope *s = gw_scope_open(root);
        double by = step == 1 && rank == 1 ? 1e36 : 0.5;
        gw_tensor *y = gw_tensor_of(s, gw_rpc_sync(s, far, "times", by));
        gw_tensor *loss = gw_add(s, loss_of(s, &n, batch(s, rank, step)), gw_sum(s, y));
        gw_backward(s, gw_scaler_scale(s, scaler, loss));
        assert_int_equal(gw_scaler_step(s, scaler, opt), step != 1);
        gw_scaler_update(s, scaler);
        gw_ddp_check(s, ddp);
        gw_scope_close_up(s);
    }
    if (!gw_ok(root)) fail_msg("%s", gw_scope_error(root)->text);
    assert_true(gw_scaler_get_scale(scaler) == 32768);
}

static void replicas_skip_a_step_that_overflows_on_another_worker(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 5; seed++)
        cluster_run(seed, (cluster_options){ .world_size = 3 }, scale_with_far_weights, NULL);
}

GW_TESTS(shard_gradients_sim, sharded_gradients_give_the_same_weights,
         rows_and_skipped_passes_are_sharded, only_changed_rows_of_tables_are_sent,
         a_failure_before_clipping_fails_on_all, ambiguous_gradients_are_refused,
         all_members_skip_a_step_or_none, replicas_skip_a_step_that_overflows_on_another_worker);
