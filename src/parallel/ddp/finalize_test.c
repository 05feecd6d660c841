// The pass from which members use what their first passes agreed on: REPL-2. Passes that fail on some members are in
// tests/sim/ddp_sim_test.c.
#include "parallel/ddp/ddp.h"

#include "testing/cluster.h"
#include "testing/testing.h"
#include <gradwire.h>

enum { LEAVES = 3, MEMBERS = 3 };

typedef struct job {
    bool is_small, is_static, is_upwards;
    int finished;
} job;

static gw_tensor *same(gw_scope *s, gw_module *m, gw_tensor *x) {
    (void)s, (void)m;
    return x;
}

static gw_ddp *open_job(gw_scope *s, const job *j, gw_tensor **x) {
    static const char *const names[] = { "p", "q", "r" };
    gw_module *m = gw_module_open(s, "leaves", same, NULL);
    for (int i = 0; i < LEAVES; i++) {
        x[i] = gw_requires_grad(s, gw_full(s, GW_F32, i + 1, 2));
        gw_module_register_parameter(s, m, names[i], x[i]);
    }
    int64_t bytes = j->is_small ? 1 : 1 << 20;
    return gw_ddp_open(s, m, .static_graph = j->is_static, .first_bucket_bytes = bytes,
                       .bucket_bytes = bytes);
}

// Gradients arrive from the last leaf to the first, as buckets are in the beginning, or upwards.
static void walk(gw_scope *root, gw_tensor **x, bool is_upwards) {
    gw_scope *s = gw_scope_open(root);
    gw_tensor *sum = NULL;
    for (int k = 0; k < LEAVES; k++) {
        gw_tensor *part = x[is_upwards ? LEAVES - 1 - k : k];
        sum = sum ? gw_add(s, sum, part) : part;
    }
    gw_backward(s, gw_sum(s, sum));
    gw_scope_close_up(s);
    if (!gw_ok(root)) fail_msg("%s", gw_scope_error(root)->text);
}

static void step(gw_scope *root, int rank, void *context) {
    (void)rank;
    job *j = context;
    gw_tensor *x[LEAVES];
    gw_ddp *d = open_job(root, j, x);
    const ddp_agreed *a = &d->agreed;
    bool several = j->is_small && gw_rpc_world_size(root) > 1, agrees = several || j->is_static;
    walk(root, x, j->is_upwards);
    bool is_alone = gw_rpc_world_size(root) == 1;
    assert_true(a->is_known == agrees && a->is_final == (agrees && is_alone));
    assert_false(gw_ddp_get_stats(d).rebuilt);
    walk(root, x, !j->is_upwards);
    assert_true(a->is_known == agrees && a->is_final == agrees);
    assert_true(gw_ddp_get_stats(d).rebuilt == several && d->first.is_final == j->is_static);
    int first = several ? a->ordered->buckets[0].leaves[0] : -1;
    assert_int_equal(first, !several ? -1 : j->is_upwards ? 0 : LEAVES - 1);
    walk(root, x, j->is_upwards);
    j->finished++;
}

// The order is that of the first pass, and the third one has it.
static void the_order_of_the_first_pass_is_used_from_the_third(void **state) {
    (void)state;
    for (int i = 0; i < 8; i++) {
        job j = { .is_small = i & 1, .is_static = i & 2, .is_upwards = i & 4 };
        for (int n = 1; n <= MEMBERS; n++)
            cluster_run((uint64_t)i + 1, (cluster_options){ .world_size = n }, step, &j);
        assert_int_equal(j.finished, 1 + 2 + 3);
    }
}

GW_TESTS(parallel_finalize, the_order_of_the_first_pass_is_used_from_the_third);
