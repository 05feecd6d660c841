// DistributedDataParallel in one pass after another, in simulated jobs: its results, and its errors.
#include "parallel/ddp/ddp.h"

#include "testing/cluster.h"
#include "testing/testing.h"
#include <gradwire.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { IN = 6, HIDDEN = 5, OUT = 3, BATCH = 8, STEPS = 4 };

// Small integers, whose sums and quotients by powers of two are exact.
static gw_tensor *integers(gw_scope *s, int64_t rows, int64_t columns, int seed) {
    float *x = gw_alloc(s, (size_t)(rows * columns) * sizeof *x);
    for (int i = 0; i < rows * columns; i++) x[i] = (float)((i * 7 + seed * 13) % 9 - 4);
    return gw_from(s, x, rows, columns);
}

typedef struct net {
    gw_module *a, *b;
} net;

static gw_tensor *forward_net(gw_scope *s, gw_module *m, gw_tensor *x) {
    net *n = gw_module_state(m);
    return gw_module_call(s, n->b, gw_relu(s, gw_module_call(s, n->a, x)));
}

static gw_module *open_net(gw_scope *s, net *n, int seed) {
    n->a = gw_nn_linear(s, IN, HIDDEN);
    n->b = gw_nn_linear(s, HIDDEN, OUT);
    gw_module *m = gw_module_open(s, "net", forward_net, n);
    gw_module_register_module(s, m, "a", n->a);
    gw_module_register_module(s, m, "b", n->b);
    gw_scope *t = gw_scope_open(s);
    gw_no_grad(t);
    gw_copy_(t, gw_module_parameter_get(t, m, "a.weight"), integers(t, HIDDEN, IN, seed));
    gw_copy_(t, gw_module_parameter_get(t, m, "b.weight"), integers(t, OUT, HIDDEN, seed + 1));
    gw_zero_(t, gw_module_parameter_get(t, m, "a.bias"));
    gw_zero_(t, gw_module_parameter_get(t, m, "b.bias"));
    gw_scope_close_up(t);
    return m;
}

static gw_tensor *loss_of(gw_scope *s, gw_module *m, gw_tensor *x) {
    gw_tensor *y = gw_module_call(s, m, x);
    return gw_div(s, gw_sum(s, gw_mul(s, y, y)), (double)gw_size(x, 0));
}

static void expect_same(gw_scope *s, gw_tensor *a, gw_tensor *b) {
    if (!gw_ok(s)) fail_msg("%s", gw_scope_error(s)->text);
    assert_true(gw_equal(s, a, b));
}

static void expect_error(gw_scope *s, gw_status status, const char *text) {
    if (gw_scope_error(s)->status != status || !strstr(gw_scope_error(s)->text, text))
        fail_msg("%s: %s", gw_status_name(gw_scope_error(s)->status), gw_scope_error(s)->text);
    gw_scope_clear(s);
}

static gw_tensor *share(gw_scope *s, gw_tensor *x, int rank, int count) {
    int64_t rows = gw_size(x, 0) / count;
    return gw_slice(s, x, 0, rank * rows, (rank + 1) * rows, 1);
}

static void run(int world_size, cluster_main *main, void *context) {
    for (uint64_t seed = 1; seed <= (uint64_t)testing_scaled(3); seed++)
        cluster_run(seed, (cluster_options){ .world_size = world_size }, main, context);
}

// ---- Results ------------------------------------------------------------------------------

// Steps with gradients of the own share are those with gradients of the whole batch, bit for bit.
static void train(gw_scope *root, int rank, void *context) {
    const gw_ddp_options *options = context;
    int n = gw_rpc_world_size(root);
    net parts, whole;
    gw_module *m = open_net(root, &parts, rank), *reference = open_net(root, &whole, 0);
    gw_ddp *ddp = gw_ddp_open_with(root, m, *options);
    gw_list *all = gw_parameters(root, m), *others = gw_parameters(root, reference);
    for (int step = 0; step < STEPS; step++) {
        gw_scope *s = gw_scope_open(root);
        gw_tensor *x = integers(s, BATCH, IN, 100 + step);
        gw_backward(s, loss_of(s, m, share(s, x, rank, n)));
        gw_backward(s, loss_of(s, reference, x));
        for (int i = 0; i < gw_list_count(all); i++) {
            gw_tensor *p = gw_tensor_of(s, gw_list_get(s, all, i));
            gw_tensor *q = gw_tensor_of(s, gw_list_get(s, others, i));
            expect_same(s, p, q);
            expect_same(s, gw_grad(s, p), gw_grad(s, q));
            gw_no_grad(s);
            gw_copy_(s, p, gw_round(s, gw_sub(s, p, gw_mul(s, gw_grad(s, p), 1.0 / 1024))));
            gw_copy_(s, q, gw_round(s, gw_sub(s, q, gw_mul(s, gw_grad(s, q), 1.0 / 1024))));
            gw_enable_grad(s);
        }
        gw_ddp_check(s, ddp);
        gw_scope_close_up(s);
    }
    gw_ddp_stats stats = gw_ddp_get_stats(ddp);
    assert_true(stats.world_size == n && stats.rank == rank && stats.parameters == 4);
    assert_true(stats.passes == STEPS && stats.reduced == STEPS && stats.unused == 0);
    bool many = options->first_bucket_bytes < 100 && n > 1;
    assert_true(stats.buckets == (options->first_bucket_bytes < 100 ? 4 : 1));
    assert_true(stats.rebuilt == many);
}

static void gradients_are_those_of_the_whole_batch(void **state) {
    (void)state;
    gw_ddp_options options = GW_OPTIONS(gw_ddp_options);
    for (int n = 1; n <= 4; n *= 2) run(n, train, &options);
}

static void buckets_change_nothing(void **state) {
    (void)state;
    gw_ddp_options options = GW_OPTIONS(gw_ddp_options, .first_bucket_bytes = 1, .bucket_bytes = 1);
    run(2, train, &options);
    run(4, train, &options);
    options.copy_gradients = true;
    run(2, train, &options);
}

// ---- Used and unused parameters --------------------------------------------------------------------------------

// Three numbers, used or not as in |uses|: bit 2 i + j, that member i uses number j.
typedef struct choice {
    gw_tensor *x[3];
} choice;

static gw_module *open_choice(gw_scope *s, choice *c) {
    static const char *const names[] = { "p", "q", "r" };
    gw_module *m = gw_module_open(s, "choice", forward_net, c);
    for (int i = 0; i < 3; i++) {
        c->x[i] = gw_requires_grad(s, gw_full(s, GW_F32, i + 1, 1));
        gw_module_register_parameter(s, m, names[i], c->x[i]);
    }
    return m;
}

static gw_tensor *use(gw_scope *s, choice *c, int i, double by) {
    return gw_mul(s, c->x[i], by);
}

static double grad_of(gw_scope *s, gw_tensor *x) {
    return gw_item(s, gw_grad(s, x));
}

// p is used by all, q by member 1 alone, r by no member.
static void use_some(gw_scope *root, int rank, void *context) {
    (void)context;
    choice c;
    gw_ddp *ddp =
        gw_ddp_open(root, open_choice(root, &c), .first_bucket_bytes = 1, .bucket_bytes = 1);
    for (int step = 0; step < 3; step++) {
        gw_scope *s = gw_scope_open(root);
        gw_tensor *loss = use(s, &c, 0, rank + 1);
        if (rank) loss = gw_add(s, loss, use(s, &c, 1, 8));
        gw_backward(s, loss);
        assert_true(grad_of(s, c.x[0]) == 1.5 && grad_of(s, c.x[1]) == 4 && gw_ok(s));
        assert_null(gw_grad_find(s, c.x[2]));
        assert_int_equal(gw_ddp_get_stats(ddp).unused, 1);
        gw_scope_close_up(s);
    }
}

static void a_parameter_that_no_member_uses_has_no_gradient(void **state) {
    (void)state;
    run(2, use_some, NULL);
}

// Member 0 has nothing to walk in the second step; no member has a pass with inputs.
static void skip_one(gw_scope *root, int rank, void *context) {
    (void)context;
    choice c;
    gw_ddp *ddp = gw_ddp_open(root, open_choice(root, &c));
    gw_scope *s = gw_scope_open(root);
    gw_backward(s, use(s, &c, 0, 2), .inputs = c.x, .input_count = 1);
    assert_true(grad_of(s, c.x[0]) == 2);
    gw_scope_close_up(s);
    s = gw_scope_open(root);
    gw_tensor *loss = use(s, &c, 0, 6);
    if (rank)
        gw_backward(s, loss);
    else
        gw_ddp_skip(s, ddp);
    assert_true(grad_of(s, c.x[0]) == 3 && gw_ok(s));
    assert_null(gw_grad_find(s, c.x[1]));
    gw_scope_close_up(s);
}

static void a_member_may_skip_a_pass(void **state) {
    (void)state;
    run(2, skip_one, NULL);
}

// ---- Accumulating -------------------------------------------------------------------------------

static void accumulate(gw_scope *root, int rank, void *context) {
    (void)context;
    choice c;
    gw_ddp *ddp = gw_ddp_open(root, open_choice(root, &c));
    gw_scope *s = gw_scope_open(root);
    gw_ddp_no_sync(s);
    gw_backward(s, use(s, &c, 0, rank + 1));
    if (rank) gw_backward(s, use(s, &c, 1, 10));  // the others have no pass for it
    assert_true(grad_of(s, c.x[0]) == rank + 1);
    assert_int_equal(gw_ddp_get_stats(ddp).passes, 0);
    gw_ddp_sync(s);
    gw_backward(s, use(s, &c, 0, 2 * rank + 4));
    assert_true(grad_of(s, c.x[0]) == (1 + 2 + 4 + 6) / 2.0 && grad_of(s, c.x[1]) == 5);
    gw_backward(s, use(s, &c, 0, 2 + 2 * rank));  // adds the mean, 3
    assert_true(grad_of(s, c.x[0]) == 6.5 + 3 && grad_of(s, c.x[1]) == 5 && gw_ok(s));
    gw_scope_close_up(s);
}

static void a_synchronised_pass_includes_accumulated_gradients(void **state) {
    (void)state;
    run(2, accumulate, NULL);
}

// ---- Hooks --------------------------------------------------------------------------------------

static gw_future *take_thrice(gw_scope *s, gw_bucket *b, void *context) {
    ++*(int *)context;
    assert_int_equal(gw_bucket_parameter_count(b), 1);
    assert_true(gw_bucket_is_last(b) == (gw_bucket_index(b) == gw_bucket_count(b) - 1));
    gw_tensor *g = gw_bucket_gradient(s, b, 0);
    return gw_all_reduce_async(s, gw_bucket_group(b), gw_mul(s, g, 3), GW_SUM);
}

static gw_future *give_less(gw_scope *s, gw_bucket *b, void *context) {
    (void)b, (void)context;
    gw_future *f = gw_future_open(s);
    gw_future_set(s, f, gw_zeros(s, GW_F32, 7));
    return f;
}

static void hook(gw_scope *root, int rank, void *context) {
    (void)context;
    choice c;
    int calls = 0;
    gw_ddp *ddp =
        gw_ddp_open(root, open_choice(root, &c), .first_bucket_bytes = 1, .bucket_bytes = 1);
    gw_ddp_set_hook(root, ddp, take_thrice, &calls);
    gw_scope *s = gw_scope_open(root);
    gw_tensor *loss = use(s, &c, 0, rank + 1);
    if (rank) loss = gw_add(s, loss, use(s, &c, 1, 8));
    gw_backward(s, loss);
    assert_true(grad_of(s, c.x[0]) == 9 && grad_of(s, c.x[1]) == 24 && gw_ok(s) && calls == 3);
    assert_null(gw_grad_find(s, c.x[2]));
    gw_ddp_set_hook(s, ddp, gw_hook_f16, NULL);
    expect_error(s, GW_WRONG_STATE, "once, before the first");
    gw_scope_close_up(s);
}

static void round_halves(gw_scope *root, int rank, void *context) {
    (void)context;
    static gw_comm_hook *const hooks[] = { gw_hook_all_reduce, gw_hook_f16, gw_hook_bf16,
                                           gw_hook_none };
    static const double results[] = { 2049, 2048, 2048, 2049 };  // 2049 needs 12 bits
    for (int i = 0; i < 4; i++) {
        choice c;
        gw_ddp *ddp = gw_ddp_open(root, open_choice(root, &c));
        gw_ddp_set_hook(root, ddp, hooks[i], NULL);
        gw_scope *s = gw_scope_open(root);
        gw_backward(s, use(s, &c, 0, 2049));
        assert_true(grad_of(s, c.x[0]) == results[i] && gw_ok(s));
        (void)rank;
        gw_scope_close_up(s);
    }
}

static gw_future *wait_inside(gw_scope *s, gw_bucket *b, void *context) {
    (void)context;
    gw_barrier(s, gw_bucket_group(b));
    return gw_hook_all_reduce(s, b, NULL);
}

static void hook_and_wait(gw_scope *root, int rank, void *context) {
    (void)context, (void)rank;
    choice c;
    gw_ddp *ddp = gw_ddp_open(root, open_choice(root, &c));
    gw_ddp_set_hook(root, ddp, wait_inside, NULL);
    gw_scope *s = gw_scope_open(root);
    gw_backward(s, use(s, &c, 0, 1));
    expect_error(s, GW_WOULD_BLOCK, "gw_barrier: a wait in a function that must not block");
    gw_scope_close_up(s);
}

static void hook_badly(gw_scope *root, int rank, void *context) {
    (void)context, (void)rank;
    choice c;
    gw_ddp *ddp = gw_ddp_open(root, open_choice(root, &c));
    gw_ddp_set_hook(root, ddp, give_less, NULL);
    gw_scope *s = gw_scope_open(root);
    gw_backward(s, use(s, &c, 0, 1));
    expect_error(s, GW_INVALID, "7 numbers of f32 for a bucket of 3 numbers of f32");
    assert_null(gw_grad_find(s, c.x[0]));
    gw_scope_close_up(s);
}

static void a_hooks_result_replaces_the_mean(void **state) {
    (void)state;
    run(2, hook, NULL);
    run(2, round_halves, NULL);
    run(2, hook_badly, NULL);
    run(2, hook_and_wait, NULL);
}

// ---- Sparse gradients ---------------------------------------------------------------------------

enum { ROWS = 6, WIDTH = 2 };

static void look_up(gw_scope *root, int rank, void *context) {
    (void)context;
    gw_module *m = gw_nn_embedding(root, ROWS, WIDTH, .sparse = true);
    gw_ddp_open(root, m);
    gw_tensor *w = gw_module_parameter_get(root, m, "weight");
    for (int step = 0; step < 3; step++) {
        gw_scope *s = gw_scope_open(root);
        int64_t indices[] = { 1, rank + 2, 1 };
        if (step < 2 || rank) {
            gw_tensor *y = gw_module_call(s, m, gw_from(s, indices, 3));
            gw_backward(s, gw_sum(s, y));
        } else {
            gw_backward(s, gw_mul(s, gw_sum(s, w), 0.0));  // a dense one
        }
        gw_tensor *g = gw_grad(s, w);
        assert_true(gw_ok(s) && gw_layout_of(g) == GW_ROWS);
        const float *d = gw_data(gw_to_dense(s, g));
        float rank0 = step < 2;
        assert_true(d[0] == 0 && d[1 * WIDTH] == 1 + rank0 && d[3 * WIDTH] == 0.5);
        assert_true(d[2 * WIDTH] == 0.5f * rank0);
        gw_scope_close_up(s);
    }
}

static void rows_stay_rows(void **state) {
    (void)state;
    run(2, look_up, NULL);
}

// ---- Buffers ------------------------------------------------------------------------------------

static void keep_statistics(gw_scope *root, int rank, void *context) {
    const bool *left = context;
    gw_module *m = gw_nn_batch_norm1d(root, IN);
    gw_ddp_open(root, m, .buffers = *left ? GW_BUFFERS_LEFT : GW_BUFFERS_BROADCAST);
    gw_tensor *mean = gw_module_buffer_get(root, m, "running_mean");
    for (int step = 0; step < 3; step++) {
        gw_scope *s = gw_scope_open(root);
        gw_tensor *y = gw_module_call(s, m, gw_full(s, GW_F32, rank + 1, 4, IN));
        gw_backward(s, gw_sum(s, y));
        gw_scope_close_up(s);
    }
    // Behind the last forward, the statistics are of rank 0's before and the own batch.
    double own = rank + 1, others = *left ? own : 1, want = 0;
    for (int step = 0; step < 3; step++) want += ((step < 2 ? others : own) - want) * 0.1;
    assert_true(fabs(gw_item(root, gw_slice(root, mean, 0, 0, 1, 1)) - want) < 1e-5);
}

static void buffers_are_those_of_rank_0(void **state) {
    (void)state;
    bool left = false;
    run(2, keep_statistics, &left);
    left = true;
    run(2, keep_statistics, &left);
}

// ---- Shards -------------------------------------------------------------------------------------

enum { SHARDS = 4 };

// Weights after some steps, as one number for all of their bits.
static void train_by_shards(gw_scope *root, int rank, void *context) {
    double *sum = context;
    int n = gw_rpc_world_size(root), each = SHARDS / n;
    gw_seed(root, 5);
    gw_module *m = gw_nn_linear(root, IN, OUT);
    gw_seed(root, 6);
    gw_tensor *data = gw_randn(root, GW_F32, SHARDS * 2, IN);
    gw_ddp *ddp = gw_ddp_open(root, m, .shards = SHARDS);
    gw_optimizer *opt = gw_sgd(root, gw_parameters(root, m), .lr = 0.1);
    for (int step = 0; step < STEPS; step++) {
        gw_scope *s = gw_scope_open(root);
        for (int i = rank * each; i < (rank + 1) * each; i++)
            gw_backward(s, gw_mean(s, gw_tanh(s, gw_module_call(s, m, share(s, data, i, SHARDS)))));
        gw_optimizer_step(s, opt);
        gw_scope_close_up(s);
    }
    gw_tensor *w = gw_module_parameter_get(root, m, "weight");
    if (!rank) *sum = gw_item(root, gw_sum(root, gw_to_dtype(root, w, GW_F64)));
    assert_int_equal(gw_ddp_get_stats(ddp).passes, STEPS);
}

static void the_number_of_members_changes_no_bits_of_shards(void **state) {
    (void)state;
    double sums[3];
    for (int i = 0; i < 3; i++)
        cluster_run(1, (cluster_options){ .world_size = 1 << i }, train_by_shards, &sums[i]);
    assert_true(sums[0] == sums[1] && sums[1] == sums[2] && sums[0] != 0);
}

// ---- Errors ----------------------------------------------------------------------------

static void open_differently(gw_scope *root, int rank, void *context) {
    (void)context;
    gw_module *m = gw_nn_linear(root, IN, rank ? OUT + 1 : OUT);
    gw_ddp_open(root, m);
    expect_error(root, GW_MISMATCH, "parameter 0: w0 \"weight\" f32 3x6, w1 \"weight\" f32 4x6");
    gw_module *plain = gw_nn_relu(root);
    gw_ddp_open(root, plain);
    expect_error(root, GW_INVALID, "gw_ddp_open: no parameter of the model needs a gradient");
    gw_ddp_open(root, gw_nn_linear(root, IN, OUT), .shards = 3);
    expect_error(root, GW_INVALID, ".shards is 3, but must be a power of two");
    static const char *const ignored[] = { "bias", NULL };
    gw_ddp_open(root, gw_nn_linear(root, IN, OUT), .ignore = ignored, .ignore_count = 2);
    expect_error(root, GW_INVALID, "name 1 of the 2 names in .ignore is NULL");
    gw_ddp_open(root, gw_nn_linear(root, IN, OUT), .ignore = &(const char *){ "bais" },
                .ignore_count = 1);
    expect_error(
        root, GW_INVALID,
        "gw_ddp_open: .ignore names \"bais\", which is not a parameter or buffer of the model");
    gw_ddp_open(root, m, .ignore_count = 2);
    expect_error(root, GW_INVALID, "gw_ddp_open: .ignore_count is 2, but .ignore is NULL");
    gw_ddp_open(root, m, .check_every = -3);
    expect_error(root, GW_INVALID,
                 "gw_ddp_open: .check_every is -3 passes, but must not be negative");
    gw_ddp_open(root, m, .bucket_bytes = -1);
    expect_error(root, GW_INVALID,
                 "gw_ddp_open: the size of buckets is -1 bytes, but must be 1 or more");
    gw_ddp_open(root, m, .joining = true);
    expect_error(root, GW_INVALID, "gw_ddp_open: .joining is set, but no group is given");
    gw_module *once = gw_nn_linear(root, IN, OUT);
    gw_ddp_open(root, once);
    gw_ddp_open(root, once);
    expect_error(root, GW_DUPLICATE,
                 "gw_ddp_open: \"weight\" is a parameter of a model that has been opened by "
                 "gw_ddp_open already");
}

static void models_that_differ_are_named(void **state) {
    (void)state;
    run(2, open_differently, NULL);
}

static void drift(gw_scope *root, int rank, void *context) {
    (void)context;
    gw_module *m = gw_nn_linear(root, IN, OUT);
    gw_ddp *ddp = gw_ddp_open(root, m);
    gw_ddp_check(root, ddp);
    assert_true(gw_ok(root));
    gw_scope *s = gw_scope_open(root);
    gw_no_grad(s);
    if (rank == 1) gw_mul_(s, gw_module_parameter_get(s, m, "bias"), 2);
    gw_ddp_check(s, ddp);
    expect_error(s, GW_MISMATCH, "\"bias\" is not the same on w0 and w1");
    gw_ddp_broadcast(s, ddp);
    gw_ddp_check(s, ddp);
    assert_true(gw_ok(s));
    gw_scope_close_up(s);
}

static void replicas_are_compared(void **state) {
    (void)state;
    run(3, drift, NULL);
}

GW_TESTS(parallel_ddp, gradients_are_those_of_the_whole_batch, buckets_change_nothing,
         a_parameter_that_no_member_uses_has_no_gradient, a_member_may_skip_a_pass,
         a_synchronised_pass_includes_accumulated_gradients, a_hooks_result_replaces_the_mean,
         rows_stay_rows, buffers_are_those_of_rank_0,
         the_number_of_members_changes_no_bits_of_shards, models_that_differ_are_named,
         replicas_are_compared);
