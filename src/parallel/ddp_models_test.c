// DistributedDataParallel over models of several kinds: of several dtypes, with parameters that are left
// alone, with outputs that nobody uses, and forwards that nothing follows.
#include "parallel/ddp.h"

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

// ---- What is left alone -------------------------------------------------------------------------

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

// torch's test_ignored_output, test_ignored_output_with_unused_parameters: one member looks at outputs,
// as often as it likes.
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

static void a_forward_alone_needs_nobody(void **state) {
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

GW_TESTS(parallel_ddp_models, buckets_are_of_one_dtype, ignored_parameters_stay_the_members_own,
         a_forward_alone_needs_nobody, outputs_may_be_unused_in_any_way);
