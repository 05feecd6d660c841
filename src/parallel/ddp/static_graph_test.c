// Passes that reach the same parameters each time, as torch's static_graph requires, and the errors of those that do
// not.
#include "parallel/ddp/ddp.h"

#include "testing/cluster.h"
#include "testing/testing.h"
#include <gradwire.h>

#include <string.h>

enum { LEAVES = 3 };

typedef struct leaves {
    gw_tensor *x[LEAVES];
    gw_module *m;
} leaves;

static gw_tensor *same(gw_scope *s, gw_module *m, gw_tensor *x) {
    (void)s, (void)m;
    return x;
}

static void open_leaves(gw_scope *s, leaves *l) {
    static const char *const names[] = { "p", "q", "r" };
    l->m = gw_module_open(s, "leaves", same, l);
    for (int i = 0; i < LEAVES; i++) {
        l->x[i] = gw_requires_grad(s, gw_full(s, GW_F32, i + 1, 2));
        gw_module_register_parameter(s, l->m, names[i], l->x[i]);
    }
}

// p is used by all, q by member 1, and r by no member unless |uses_r|.
static void walk(gw_scope *s, leaves *l, int rank, bool uses_r) {
    gw_tensor *sum = gw_mul(s, gw_module_call(s, l->m, l->x[0]), rank + 1);
    if (rank == 1) sum = gw_add(s, sum, gw_mul(s, l->x[1], 8));
    if (uses_r) sum = gw_add(s, sum, l->x[2]);
    gw_backward(s, gw_sum(s, sum));
}

static void expect_means(gw_scope *s, const leaves *l) {
    if (!gw_ok(s)) fail_msg("%s", gw_scope_error(s)->text);
    double got[] = { gw_item(s, gw_sum(s, gw_grad(s, l->x[0]))),
                     gw_item(s, gw_sum(s, gw_grad(s, l->x[1]))) };
    assert_true(got[0] == 3 && got[1] == 8 && !gw_grad_find(s, l->x[2]));
}

typedef struct choice {
    bool small, hooked;
} choice;

static void train(gw_scope *root, int rank, void *context) {
    const choice *c = context;
    leaves l;
    int64_t bytes = c->small ? 1 : 1 << 20;
    open_leaves(root, &l);
    gw_ddp *ddp = gw_ddp_open(root, l.m, .static_graph = true, .first_bucket_bytes = bytes,
                              .bucket_bytes = bytes);
    if (c->hooked) gw_ddp_set_hook(root, ddp, gw_hook_all_reduce, NULL);
    for (int step = 0; step < 8; step++) {
        gw_scope *s = gw_scope_open(root);
        bool changes = step == 4 && rank == 0;
        walk(s, &l, rank, changes);
        if (step == 4) {
            const char *text = gw_scope_error(s)->text;
            if (!strstr(text, "static_graph: \"r\" was unused in the first pass, but is used now"))
                fail_msg("%d: %s", rank, text);
            gw_scope_clear(s);
        } else {
            expect_means(s, &l);
        }
        gw_scope_close_up(s);
        assert_true(gw_ddp_get_stats(ddp).is_static == (step < 4 || rank));
    }
    assert_int_equal(gw_ddp_get_stats(ddp).unused, 1);
}

static void a_pass_that_reaches_other_parameters_is_an_error_on_all(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= (uint64_t)testing_scaled(20); seed++) {
        choice c = { .small = seed % 2, .hooked = seed % 4 >= 2 };
        cluster_run(seed, (cluster_options){ .world_size = 2 }, train, &c);
    }
}

static void learn(gw_scope *root, int rank, void *context) {
    int *members = context;
    leaves l;
    open_leaves(root, &l);
    gw_ddp *ddp = gw_ddp_open(root, l.m, .static_graph = true);
    gw_scope *s = gw_scope_open(root);
    walk(s, &l, rank, false);
    walk(s, &l, rank, false);
    gw_ddp_check(s, ddp);
    if (!gw_ok(s)) fail_msg("%s", gw_scope_error(s)->text);
    gw_scope_close_up(s);
    assert_true(ddp->first.is_final && ddp->first.used[0] && ddp->first.used[1]);
    assert_false(ddp->first.used[2]);
    ++*members;
}

static void used_parameters_are_recorded_in_the_first_pass(void **state) {
    (void)state;
    int members = 0;
    cluster_run(1, (cluster_options){ .world_size = 3 }, learn, &members);
    assert_int_equal(members, 3);
}

// A model that is not declared static may be: torch's _get_ddp_logging_data reports it, too.
static void read_stats(gw_scope *root, int rank, void *context) {
    (void)context;
    leaves l;
    open_leaves(root, &l);
    gw_ddp *ddp = gw_ddp_open(root, l.m);
    for (int step = 0; step < 3; step++) {
        gw_scope *s = gw_scope_open(root);
        walk(s, &l, rank, step == 2);
        if (!gw_ok(s)) fail_msg("%s", gw_scope_error(s)->text);
        gw_scope_close_up(s);
        assert_true(gw_ddp_get_stats(ddp).is_static == (step < 2));
    }
    gw_ddp_stats stats = gw_ddp_get_stats(ddp);
    assert_string_equal(stats.dtypes, "f32");
    assert_true(!stats.has_hook && stats.error == GW_OK && stats.communication_us >= 0);
    assert_true(stats.forward_us >= 0 && stats.parameter_bytes == (int64_t)(LEAVES * 2 * 4));
}

static void a_static_graph_is_detected(void **state) {
    (void)state;
    cluster_run(1, (cluster_options){ .world_size = 2 }, read_stats, NULL);
}

GW_TESTS(parallel_static_graph, a_pass_that_reaches_other_parameters_is_an_error_on_all,
         used_parameters_are_recorded_in_the_first_pass, a_static_graph_is_detected);
