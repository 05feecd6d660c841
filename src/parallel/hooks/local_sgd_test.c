// Local SGD: the group of the mean of a pass, and a near failure that ends it for all.
#include "testing/cluster.h"
#include "testing/given_gradients.h"
#include "testing/testing.h"
#include <gradwire.h>

#include <string.h>

enum { MEMBERS = 4, START = 2, STEPS = 6, FAILING = 4 };

static const int64_t sizes[] = { 3, 4 };
static const gw_shape shapes[] = { { 2, sizes }, { 1, sizes } };

typedef struct job {
    bool has_near, fails;
    int64_t done;
} job;

// Member |rank| contributes its number and a step's, so that all means are exact.
static void walk(gw_scope *s, const given_model *m, int rank, int step) {
    gw_tensor *g[] = { gw_full_with(s, GW_F32, gw_value_of(8 * step + 4 * rank), shapes[0]),
                       gw_full_with(s, GW_F32, gw_value_of(8 * step + 4 * rank), shapes[1]) };
    gw_backward(s, given_loss(s, m, g));
}

static void expect(gw_scope *s, const given_model *m, double number, int step) {
    if (!gw_ok(s)) fail_msg("step %d: %s", step, gw_scope_error(s)->text);
    for (int i = 0; i < 2; i++) {
        double sum = gw_item(s, gw_sum(s, gw_grad(s, m->weights[i])));
        if (sum != number * (double)gw_numel(m->weights[i]))
            fail_msg("step %d: %g, not %g", step, sum / (double)gw_numel(m->weights[i]), number);
    }
}

static gw_tensor *fail_here(gw_scope *s, gw_tensor *grad, void *context) {
    (void)grad, (void)context;
    gw_fail(s, GW_INVALID, "no such gradient");
    return NULL;
}

static void take_steps(gw_scope *root, int rank, void *context) {
    const job *j = context;
    given_model m;
    given_open(root, &m, 2, shapes);
    gw_group *world = gw_group_world(root);
    gw_local_sgd local = { .start = START + j->done, .done = j->done };
    if (j->has_near) local.near = gw_group_blocks(root, world, 2);
    gw_ddp *d = gw_ddp_open(root, m.module, .first_bucket_bytes = 1, .bucket_bytes = 1);
    gw_ddp_set_hook(root, d, gw_hook_local_sgd, &local);
    for (int step = 0; step < STEPS; step++) {
        gw_scope *s = gw_scope_open(root);
        bool fails = j->fails && step == FAILING;
        int hook = fails && rank == 1 ? gw_register_hook(s, m.weights[0], fail_here, NULL) : 0;
        walk(s, &m, rank, step);
        double mean = step < START ? 6 : !j->has_near ? 4 * rank : rank < 2 ? 2 : 10;
        if (!fails)
            expect(s, &m, 8 * step + mean, step);
        else if (!strstr(gw_scope_error(s)->text, "no such gradient"))
            fail_msg("%d: %s", rank, gw_scope_error(s)->text);
        gw_scope_clear(s);
        if (hook) gw_remove_hook(s, m.weights[0], hook);
        gw_scope_close_up(s);
    }
}

static void run_one(uint64_t seed, void *context) {
    cluster_outcome o = cluster_run(
        seed, (cluster_options){ .world_size = MEMBERS, .network = given_network(seed, 200) },
        take_steps, context);
    if (o.took_ns > 60 * SIM_SECOND)
        fail_msg("it took %lld s", (long long)(o.took_ns / SIM_SECOND));
}

static void means_are_global_first_then_near(void **state) {
    (void)state;
    testing_for_seeds(10, run_one, &(job){ .has_near = true });
    testing_for_seeds(3, run_one, &(job){ .has_near = true, .done = 100 });
}

static void means_are_global_first_then_local(void **state) {
    (void)state;
    testing_for_seeds(5, run_one, &(job){ 0 });
}

static void a_failure_of_one_member_fails_all(void **state) {
    (void)state;
    testing_for_seeds(20, run_one, &(job){ .has_near = true, .fails = true });
    testing_for_seeds(5, run_one, &(job){ .fails = true });
}

GW_TESTS(parallel_local_sgd, means_are_global_first_then_near, means_are_global_first_then_local,
         a_failure_of_one_member_fails_all);
