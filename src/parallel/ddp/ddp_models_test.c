// DistributedDataParallel over models of several kinds: of several dtypes, with parameters that are ignored, with
// outputs that no loss uses, and forwards without a backward pass.
#include "parallel/ddp/ddp.h"

#include "autograd/node.h"
#include "base/mem.h"
#include "testing/cluster.h"
#include "testing/testing.h"
#include <gradwire.h>

#include <string.h>

enum { SIZE = 4, LEAVES = 6 };

typedef struct leaves {
    gw_tensor *x[LEAVES];
    gw_module *m;
} leaves;

static gw_tensor *same(gw_scope *s, gw_module *m, gw_tensor *x) {
    (void)s, (void)m;
    return x;
}

static void open_leaves(gw_scope *s, leaves *l, const gw_dtype *dtypes) {
    l->m = gw_module_open(s, "leaves", same, l);
    for (int i = 0; i < LEAVES; i++) {
        l->x[i] = gw_requires_grad(s, gw_full(s, dtypes ? dtypes[i] : GW_F32, i + 1, SIZE));
        gw_module_register_parameter(s, l->m, gw_format(s, "x%d", i), l->x[i]);
    }
}

static gw_tensor *weigh(gw_scope *s, const leaves *l, int i, double by) {
    return gw_sum(s, gw_to_dtype(s, gw_mul(s, l->x[i], by), GW_F64));
}

static double grad_of(gw_scope *s, gw_tensor *x) {
    gw_tensor *g = gw_grad_find(s, x);
    if (!gw_ok(s)) fail_msg("%s", gw_scope_error(s)->text);
    return g ? gw_item(s, gw_slice(s, g, 0, 0, 1, 1)) : 0;
}

static void run(int members, cluster_main *main) {
    for (uint64_t seed = 1; seed <= (uint64_t)testing_scaled(3); seed++)
        cluster_run(seed, (cluster_options){ .world_size = members }, main, NULL);
}

// ---- Dtypes -------------------------------------------------------------------------------------
// torch's ReducerTest: test_single_dtype_single_bucket, test_multi_dtype_single_bucket,
// test_multi_dtype_multi_bucket.

static void step_in_dtypes(gw_scope *root, int rank, const gw_dtype *dtypes, int64_t bytes,
                           int buckets) {
    leaves l;
    open_leaves(root, &l, dtypes);
    gw_ddp *ddp = gw_ddp_open(root, l.m, .first_bucket_bytes = bytes, .bucket_bytes = bytes);
    for (int step = 0; step < 3; step++) {
        gw_scope *s = gw_scope_open(root);
        gw_tensor *sum = weigh(s, &l, 0, rank + 1);
        for (int i = 1; i < LEAVES; i++)
            sum = gw_add(s, sum, weigh(s, &l, i, (rank + 1) * (i + 1)));
        gw_backward(s, sum);
        for (int i = 0; i < LEAVES; i++) {
            assert_true(grad_of(s, l.x[i]) == 1.5 * (i + 1));
            assert_int_equal(gw_dtype_of(gw_grad(s, l.x[i])), dtypes ? dtypes[i] : GW_F32);
        }
        assert_int_equal(gw_ddp_get_stats(ddp).buckets, buckets);
        gw_scope_close_up(s);
    }
}

static void use_dtypes(gw_scope *root, int rank, void *context) {
    (void)context;
    static const gw_dtype three[] = { GW_F32, GW_F64, GW_F32, GW_F16, GW_F64, GW_BF16 };
    step_in_dtypes(root, rank, NULL, 1 << 20, 1);
    step_in_dtypes(root, rank, three, 1 << 20, 4);
    step_in_dtypes(root, rank, three, 1, LEAVES);
    step_in_dtypes(root, rank, NULL, 2 * SIZE * 4, 3);
}

static void buckets_are_of_one_dtype(void **state) {
    (void)state;
    run(2, use_dtypes);
}

// ---- Ignored parameters -------------------------------------------------------------------------

// torch's test_ddp_ignore_params_arg.
static void ignore_some(gw_scope *root, int rank, void *context) {
    (void)context;
    leaves l;
    static const char *const ignored[] = { "x1", "b" };
    open_leaves(root, &l, NULL);
    gw_tensor *b = gw_full(root, GW_F32, rank, 1);
    gw_module_register_buffer(root, l.m, "b", b);
    gw_scope *t = gw_scope_open(root);
    gw_no_grad(t);
    gw_copy_(t, l.x[0], gw_full(t, GW_F32, 10 * rank, SIZE));
    gw_copy_(t, l.x[1], gw_full(t, GW_F32, 10 * rank, SIZE));
    gw_scope_close_up(t);
    gw_ddp *ddp = gw_ddp_open(root, l.m, .ignore = ignored, .ignore_count = 2);
    assert_true(gw_item(root, gw_slice(root, l.x[0], 0, 0, 1, 1)) == 0);
    assert_true(gw_item(root, gw_slice(root, l.x[1], 0, 0, 1, 1)) == 10 * rank);
    gw_scope *s = gw_scope_open(root);
    gw_tensor *zero = gw_sum(s, gw_module_call(s, l.m, gw_zeros(s, GW_F64, SIZE)));
    gw_tensor *sum = gw_add(s, weigh(s, &l, 0, rank + 1), weigh(s, &l, 1, rank + 1));
    gw_backward(s, gw_add(s, sum, zero));
    assert_true(grad_of(s, l.x[0]) == 1.5 && grad_of(s, l.x[1]) == rank + 1);
    assert_true(gw_item(s, b) == rank && gw_ddp_get_stats(ddp).parameters == LEAVES - 1);
    gw_ddp_check(s, ddp);
    assert_true(gw_ok(s));
    gw_scope_close_up(s);
}

static void ignored_parameters_stay_the_members_own(void **state) {
    (void)state;
    run(2, ignore_some);
}

// torch's test_ignored_output, test_ignored_output_with_unused_parameters: one member computes outputs without a loss,
// any number of times.
static void look_alone(gw_scope *root, int rank, void *context) {
    (void)context;
    leaves l;
    open_leaves(root, &l, NULL);
    gw_ddp_open(root, l.m);
    for (int step = 0; step < 3; step++) {
        for (int i = 0; i < 3 * rank; i++) {
            gw_scope *t = gw_scope_open(root);
            gw_module_call(t, l.m, gw_mul(t, l.x[0], 2));
            gw_scope_close_up(t);
        }
        gw_scope *s = gw_scope_open(root);
        gw_backward(s, weigh(s, &l, step, rank + 1));
        assert_true(grad_of(s, l.x[step]) == 1.5);
        gw_scope_close_up(s);
    }
}

static void a_forward_without_backward_communicates_nothing(void **state) {
    (void)state;
    run(2, look_alone);
}

// torch's test_output_unused_in_loss_dict_module, test_ddp_control_flow_same_across_ranks,
// test_ddp_control_flow_different_across_ranks, test_different_graph_across_ranks: which outputs count
// differs by step, and by member.
static void use_outputs(gw_scope *root, int rank, void *context) {
    (void)context;
    leaves l;
    open_leaves(root, &l, NULL);
    gw_ddp *ddp = gw_ddp_open(root, l.m, .first_bucket_bytes = 1, .bucket_bytes = 1);
    for (int step = 0; step < 6; step++) {
        gw_scope *s = gw_scope_open(root);
        gw_tensor *outputs[LEAVES];
        for (int i = 0; i < LEAVES; i++) outputs[i] = weigh(s, &l, i, rank + 1);
        bool differs = step >= 3;
        int used = differs ? (step + rank) % LEAVES : step % 2;
        gw_backward(s, outputs[used]);
        for (int i = 0; i < LEAVES; i++) {
            double want = 0;
            for (int member = 0; member < 2; member++)
                if ((differs ? (step + member) % LEAVES : step % 2) == i)
                    want += (member + 1) / 2.0;
            assert_true(grad_of(s, l.x[i]) == want);
            assert_true((want > 0) == (gw_grad_find(s, l.x[i]) != NULL));
        }
        assert_int_equal(gw_ddp_get_stats(ddp).unused, LEAVES - (differs ? 2 : 1));
        gw_scope_close_up(s);
    }
}

static void outputs_may_be_unused_in_any_way(void **state) {
    (void)state;
    run(2, use_outputs);
}

// ---- Derivatives without a gradient ----------------------------------------------------------------
// torch's test_undefined_grad_parity_unused_parameters: a parameter that a pass reaches without a gradient has none, as
// without replicas, unless another member has one.

typedef struct shy_node {
    node base;
    edge edge;
} shy_node;

static const char *name_shy(const node *n) {
    (void)n;
    return "shy";
}

static void give_nothing(node *n, node_run *r) {
    (void)n, (void)r;
}

static bool forget_shy(node *n) {
    (void)n;
    return true;
}

static void destroy_shy(node *n) {
    mem_give(n, sizeof(shy_node));
}

static const node_class shy_class = {
    .name = name_shy, .run = give_nothing, .forget = forget_shy, .destroy = destroy_shy
};

// |x|, whose gradient does not pass through here.
static gw_tensor *shy(gw_scope *s, gw_tensor *x) {
    shy_node *n = mem_take(sizeof *n);
    *n = (shy_node){ .base = { .class = &shy_class, .output_count = 1, .edge_count = 1 } };
    atomic_init(&n->base.count, 1);
    n->edge = edge_retain(edge_to(x));
    n->base.edges = &n->edge;
    gw_no_grad(s);
    gw_tensor *y = gw_mul(s, x, 1);
    gw_enable_grad(s);
    node_make(&n->base, 0, y);
    node_release(&n->base);
    return y;
}

static void reach_in_vain(gw_scope *root, int rank, void *context) {
    (void)context;
    leaves l, alone;
    open_leaves(root, &l, NULL);
    open_leaves(root, &alone, NULL);
    gw_ddp *ddp = gw_ddp_open(root, l.m, .first_bucket_bytes = 1, .bucket_bytes = 1);
    for (int step = 0; step < 3; step++) {
        gw_scope *s = gw_scope_open(root);
        leaves *both[] = { &l, &alone };
        for (int i = 0; i < 2; i++) {
            gw_tensor **x = both[i]->x;
            gw_tensor *sum = gw_add(s, gw_mul(s, x[0], rank + 1), shy(s, x[1]));
            sum = gw_add(s, sum, rank ? gw_mul(s, x[2], 4) : shy(s, x[2]));
            gw_backward(s, gw_sum(s, sum));
        }
        assert_true(grad_of(s, l.x[0]) == 1.5 && grad_of(s, l.x[2]) == 2);
        assert_true(!gw_grad_find(s, l.x[1]) && !gw_grad_find(s, alone.x[1]));
        assert_true((gw_grad_find(s, alone.x[2]) != NULL) == (rank == 1));
        assert_int_equal(gw_ddp_get_stats(ddp).unused, LEAVES - 2);
        gw_scope_close_up(s);
    }
}

static void a_parameter_without_gradient_counts_as_unused(void **state) {
    (void)state;
    run(2, reach_in_vain);
}

// ---- Passes inside hooks --------------------------------------------------------------------------
// torch's test_checkpointing_*: a part of the model is computed again in the pass, and walked there.

typedef struct piece {
    gw_scope *scope;  // of the pass
    leaves *leaves;
    double input;
} piece;

// x1, x2 and x3, of which the model uses x3 elsewhere, too.
static gw_tensor *forward_segment(gw_scope *s, const piece *at) {
    gw_tensor *y = gw_mul(s, at->leaves->x[1], at->input);
    return gw_add(s, gw_mul(s, y, 2), gw_add(s, at->leaves->x[2], gw_mul(s, at->leaves->x[3], 4)));
}

static gw_tensor *walk_segment(gw_scope *s, gw_tensor *grad, void *context) {
    const piece *at = context;
    (void)s;
    gw_backward(at->scope, forward_segment(at->scope, at), .gradient = grad);
    return NULL;
}

static gw_tensor *checkpoint(gw_scope *s, piece *at) {
    gw_no_grad(s);
    gw_tensor *y = gw_clone(s, forward_segment(s, at));
    gw_enable_grad(s);
    gw_requires_grad(s, y);
    gw_register_hook(s, y, walk_segment, at);
    return y;
}

static void walk_in_segments(gw_scope *s, leaves *l, double input, bool is_checkpointed) {
    piece at = { s, l, input };
    gw_tensor *y = is_checkpointed ? checkpoint(s, &at) : forward_segment(s, &at);
    gw_tensor *sum = gw_add(s, gw_mul(s, y, 3), gw_mul(s, l->x[0], input));
    gw_backward(s, gw_sum(s, gw_add(s, sum, l->x[3])));
}

typedef struct segments {
    bool is_static;
    int64_t bytes;
    int plain_steps;  // without passes inside
} segments;

// As without replicas and segments.
static void expect_local_mean(gw_scope *s, const leaves *l, leaves *alone, int step) {
    double mean[LEAVES] = { 0 };
    for (int member = 0; member < 2; member++) {
        gw_scope *t = gw_scope_open(s);
        walk_in_segments(t, alone, member + step + 1, false);
        for (int i = 0; i < LEAVES; i++) mean[i] += grad_of(t, alone->x[i]) / 2;
        gw_scope_close_up(t);
    }
    for (int i = 0; i < LEAVES; i++)
        if (grad_of(s, l->x[i]) != mean[i])
            fail_msg("step %d, x%d: %g, not %g", step, i, grad_of(s, l->x[i]), mean[i]);
}

static void step_in_segments(gw_scope *root, int rank, void *context) {
    const segments *how = context;
    leaves l, alone;
    open_leaves(root, &l, NULL);
    open_leaves(root, &alone, NULL);
    gw_ddp_open(root, l.m, .first_bucket_bytes = how->bytes, .bucket_bytes = how->bytes,
                .static_graph = how->is_static);
    for (int step = 0; step < 4; step++) {
        gw_scope *s = gw_scope_open(root);
        bool is_refused = how->is_static && how->plain_steps && step >= how->plain_steps;
        walk_in_segments(s, &l, rank + step + 1, step >= how->plain_steps);
        if (!is_refused)
            expect_local_mean(s, &l, &alone, step);
        else if (!strstr(gw_scope_error(s)->text, "static_graph: "))
            fail_msg("%s", gw_scope_error(s)->text);
        gw_scope_clear(s);
        gw_scope_close_up(s);
    }
}

static void gradients_of_passes_inside_hooks_are_part_of_the_mean(void **state) {
    (void)state;
    for (int i = 0; i < 8; i++) {
        segments how = { .is_static = i & 1, .bytes = i & 2 ? 1 : 1 << 20, .plain_steps = i & 4 };
        if (how.plain_steps) how.plain_steps = 2;
        cluster_run((uint64_t)i + 1, (cluster_options){ .world_size = 2 }, step_in_segments, &how);
    }
}

// ---- Shards -------------------------------------------------------------------------------------
// Each pass of a step contributes the gradients that passes inside its hooks, and passes that are not synchronised,
// have left before it; a second step in the same scope adds its mean.

enum { SHARDS = 4 };

// Of passes with segments, and of those that are skipped.
static void walk_shard(gw_scope *s, gw_ddp *ddp, leaves *l, int shard, int step) {
    if (step == 1) {
        gw_ddp_no_sync(s);
        walk_in_segments(s, l, shard + 7, true);
        gw_ddp_sync(s);
    }
    if (step < 3 || shard != 2)
        walk_in_segments(s, l, shard + step + 1, step != 2 && step != 4);
    else
        gw_ddp_skip(s, ddp);
}

static void expect_mean_of_shards(gw_scope *s, const leaves *l, leaves *alone, int step) {
    double mean[LEAVES] = { 0 };
    int rounds = step == 4 ? 2 : 1;
    for (int shard = 0; shard < SHARDS; shard++) {
        gw_scope *t = gw_scope_open(s);
        if (step == 1) walk_in_segments(t, alone, shard + 7, false);
        if (step < 3 || shard != 2) walk_in_segments(t, alone, shard + step + 1, false);
        for (int i = 0; i < LEAVES; i++) mean[i] += rounds * grad_of(t, alone->x[i]) / SHARDS;
        gw_scope_close_up(t);
    }
    for (int i = 0; i < LEAVES; i++)
        if (grad_of(s, l->x[i]) != mean[i])
            fail_msg("step %d, x%d: %g, not %g", step, i, grad_of(s, l->x[i]), mean[i]);
}

static void step_in_shards(gw_scope *root, int rank, void *context) {
    (void)context;
    int each = SHARDS / gw_rpc_world_size(root);
    leaves l, alone;
    open_leaves(root, &l, NULL);
    open_leaves(root, &alone, NULL);
    gw_ddp *ddp = gw_ddp_open(root, l.m, .shards = SHARDS, .first_bucket_bytes = 1);
    for (int step = 0; step < 5; step++) {
        gw_scope *s = gw_scope_open(root);
        for (int rounds = step == 4 ? 2 : 1; rounds; rounds--)
            for (int i = 0; i < each; i++) walk_shard(s, ddp, &l, rank * each + i, step);
        expect_mean_of_shards(s, &l, &alone, step);
        gw_ddp_no_sync(s);
        walk_in_segments(s, &l, 1, false);
        assert_int_equal(gw_scope_error(s)->status, GW_WRONG_STATE);
        gw_scope_clear(s);
        gw_scope_close_up(s);
    }
    assert_int_equal(gw_ddp_get_stats(ddp).passes, 6);
}

static void each_shard_includes_all_gradients_of_its_passes(void **state) {
    (void)state;
    run(1, step_in_shards);
    run(2, step_in_shards);
    run(4, step_in_shards);
}

// ---- Counting -----------------------------------------------------------------------------------

static void count_passes(gw_scope *root, int rank, void *context) {
    (void)context;
    leaves l;
    open_leaves(root, &l, NULL);
    gw_ddp *ddp = gw_ddp_open(root, l.m);
    assert_string_equal(gw_ddp_get_stats(ddp).backend, "session");
    assert_int_equal(gw_ddp_get_stats(ddp).timed_pass, 0);
    for (int pass = 1; pass <= 120; pass++) {
        gw_scope *s = gw_scope_open(root);
        gw_backward(s, weigh(s, &l, 0, rank + 1));
        gw_ddp_stats stats = gw_ddp_get_stats(ddp);
        if (!gw_ok(s)) fail_msg("%s", gw_scope_error(s)->text);
        gw_scope_close_up(s);
        assert_int_equal(stats.timed_pass, pass <= 10 ? pass : pass < 100 ? 10 : 100);
        assert_true(stats.communication_us >= stats.waited_us && stats.waited_us > 0);
    }
}

static void times_are_those_of_some_passes(void **state) {
    (void)state;
    cluster_run(1, (cluster_options){ .world_size = 2 }, count_passes, NULL);
}

GW_TESTS(parallel_ddp_models, buckets_are_of_one_dtype, ignored_parameters_stay_the_members_own,
         a_forward_without_backward_communicates_nothing, outputs_may_be_unused_in_any_way,
         a_parameter_without_gradient_counts_as_unused,
         gradients_of_passes_inside_hooks_are_part_of_the_mean,
         each_shard_includes_all_gradients_of_its_passes, times_are_those_of_some_passes);
