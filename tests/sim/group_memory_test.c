// Groups, collectives, replicas and sharded optimizers with each allocation failing in turn: all
// calls end, on both members, and no memory leaks.
#include "runtime/runtime.h"
#include "testing/cluster.h"
#include "testing/testing.h"

#include <gradwire.h>

enum { MEMBERS = 2, TIMEOUT_MS = 2000, LARGE = 20000 };

typedef void scenario(gw_scope *s, gw_group *g);

// ---- Scenarios ----------------------------------------------------------------------------------

static void reduce(gw_scope *s, gw_group *g) {
    gw_tensor *small = gw_ones(s, GW_F32, 4), *large = gw_ones(s, GW_F32, LARGE);
    gw_future *f = gw_all_reduce_async(s, g, small, GW_SUM);
    gw_all_reduce(s, g, large, GW_AVG);
    gw_scope_clear(s);
    gw_wait(s, f);
    gw_scope_clear(s);
    gw_reduce_scatter(s, g, gw_ones(s, GW_BF16, 2, 3), GW_SUM);
    gw_scope_clear(s);
    gw_barrier(s, g);
}

static void gather(gw_scope *s, gw_group *g) {
    int self = gw_group_rank(g);
    gw_tensor *x = gw_ones(s, GW_F32, 1 + self, 2);
    gw_all_gather(s, g, x, .key = 3);
    gw_scope_clear(s);
    gw_all_gather_list(s, g, x);
    gw_scope_clear(s);
    gw_all_gather_value(s, g, self);
    gw_scope_clear(s);
    gw_broadcast(s, g, self ? NULL : gw_ones(s, GW_F32, LARGE), 0);
    gw_scope_clear(s);
    gw_all_to_all(s, g, gw_ones(s, GW_I64, 2, 2));
}

static void exchange_messages(gw_scope *s, gw_group *g) {
    if (gw_group_rank(g))
        gw_recv(s, g, 0);
    else
        gw_send(s, g, gw_ones(s, GW_F32, 4), 1);
    gw_scope_clear(s);
    gw_group *half = gw_group_split(s, g, 0, -gw_group_rank(g));
    gw_barrier(s, half);
}

// Members call different collectives, and continue after the abort.
static void disagree(gw_scope *s, gw_group *g) {
    if (gw_group_rank(g))
        gw_all_reduce(s, g, gw_ones(s, GW_F32, 4), GW_SUM);
    else
        gw_all_reduce(s, g, gw_ones(s, GW_F32, 5), GW_SUM);
    gw_scope_clear(s);
    gw_future *f = gw_barrier_async(s, g);
    gw_cancel(s, f);
    gw_wait(s, f);
    gw_scope_clear(s);
    gw_barrier(s, g);
    gw_scope_clear(s);
    if (gw_group_rank(g)) cluster_pause_ms(s, 200);
    gw_barrier(s, g, .timeout_ms = 50);  // rank 0 requests the activity of rank 1
    gw_scope_clear(s);
    gw_barrier(s, g);
}

// The leader opens the group when the call of the other member has timed out, and both continue.
static void open_late(gw_scope *s, gw_group *g) {
    if (!gw_group_rank(g)) cluster_pause_ms(s, 500);
    gw_scope_clear(s);
    gw_worker all[2];
    for (int i = 0; i < 2; i++) all[i] = gw_group_worker(s, g, i);
    gw_group *late = gw_group_open(s, all, 2, .name = "late", .timeout_ms = TIMEOUT_MS);
    gw_barrier(s, late, .timeout_ms = 50);  // the leader gets this timeout later
    gw_scope_clear(s);
    gw_barrier(s, late);
}

// They agree in a group, and again once it is broken, and continue as the next generation.
static void agree(gw_scope *s, gw_group *g) {
    gw_group_agree(s, g, 3);
    gw_scope_clear(s);
    gw_group_fail(s, g, GW_INVALID, "this is wrong on purpose");
    gw_group_agree(s, g, 1);
    gw_scope_clear(s);
    gw_group *next = gw_group_reform(s, g);
    gw_scope_clear(s);
    gw_barrier(s, next);
}

static void admit(gw_scope *s, gw_group *g) {
    if (gw_group_rank(g) == 1) {
        gw_barrier(s, gw_group_join(s, "own", .timeout_ms = TIMEOUT_MS));
        return;
    }
    gw_worker self = gw_group_worker(s, g, 0);
    gw_group *own = gw_group_open(s, &self, 1, .name = "own", .timeout_ms = TIMEOUT_MS);
    gw_barrier(s, gw_group_reform(s, own, .min = 2));
}

static void differentiate(gw_scope *s, gw_group *g) {
    gw_tensor *x = gw_requires_grad(s, gw_ones(s, GW_F32, 4));
    gw_backward(s, gw_sum(s, gw_all_reduce(s, g, x, GW_SUM)));
}

static void replicate(gw_scope *s, gw_group *g) {
    gw_module *m = gw_nn_linear(s, 2, 2);
    gw_ddp_open(s, m, .group = g, .first_bucket_bytes = 1);
    gw_backward(s, gw_sum(s, gw_module_call(s, m, gw_ones(s, GW_F32, 1, 2))));
}

static void share(gw_scope *s, gw_group *g) {
    gw_module *m = gw_nn_linear(s, 2, 2);
    gw_optimizer *opt = gw_adam(s, gw_parameters(s, m), .lr = 0.1);
    gw_optimizer_shard(s, opt, .group = g);
    gw_backward(s, gw_sum(s, gw_module_call(s, m, gw_ones(s, GW_F32, 1, 2))));
    gw_optimizer_step(s, opt);
}

// Sharded in flat ranges, computed as gradients arrive, and clipped.
static void share_gradients(gw_scope *s, gw_group *g) {
    gw_module *m = gw_nn_linear(s, 2, 3);
    gw_ddp_open(s, m, .group = g);
    gw_optimizer *opt = gw_sgd(s, gw_parameters(s, m), .lr = 0.1, .momentum = 0.5);
    gw_optimizer_shard(s, opt, .group = g, .gradients = GW_SHARDED, .flat = true, .overlap = true);
    gw_backward(s, gw_sum(s, gw_module_call(s, m, gw_ones(s, GW_F32, 1, 2))));
    gw_clip_grad_norm(s, gw_parameters(s, m), 0.5);
    gw_optimizer_step(s, opt);
}

static void reshard(gw_scope *s, gw_group *g) {
    gw_list *params = gw_list_open(s);
    for (int i = 0; i < 3; i++)
        gw_list_add(s, params, gw_requires_grad(s, gw_ones(s, GW_F32, 2 + i)));
    gw_optimizer *opt = gw_adam(s, params, .lr = 0.1);
    gw_worker self = gw_rpc_self(s);
    gw_optimizer_shard(s, opt, .group = gw_group_open(s, &self, 1, .name = "alone"));
    for (int i = 0; i < 3; i++)
        gw_set_grad(s, gw_tensor_of(s, gw_list_get(s, params, i)), gw_ones(s, GW_F32, 2 + i));
    gw_optimizer_step(s, opt);
    gw_optimizer_reform(s, opt, g);
}

// ---- Jobs ---------------------------------------------------------------------------------------

typedef struct worker {
    env *env;
    int rank;
    scenario *run;
} worker;

static void run_member(void *arg) {
    const worker *m = arg;
    gw_scope *root = gw_scope_open(NULL);
    gw_rpc_options o =
        GW_OPTIONS(gw_rpc_options, .join_timeout_ms = 5000, .timeout_ms = TIMEOUT_MS, .threads = 1,
                   .rank = m->rank, .world_size = MEMBERS, .init_method = "tcp://127.0.0.1:29500");
    runtime_open_on(root, m->env, true, o);
    gw_scope *s = gw_scope_open(root);
    gw_scope_set_timeout(s, 4 * TIMEOUT_MS);
    gw_group *g = gw_group_world(s, .timeout_ms = TIMEOUT_MS);
    if (gw_ok(s)) m->run(s, g);
    gw_error ignored = gw_scope_close(s);
    gw_rpc_shutdown(root);
    ignored = gw_scope_close(root);
    (void)ignored;
}

static void run_job(void *context) {
    worker members[MEMBERS];
    sim *s = sim_open(1, (sim_options){ .interleave_per_million = -1, .quiet = true });
    if (!s) return;
    int opened = 0;
    for (; opened < MEMBERS; opened++) {
        members[opened] = (worker){ sim_env(s, opened), opened, *(scenario **)context };
        if (!members[opened].env || !sim_spawn(s, opened, run_member, &members[opened])) break;
    }
    if (opened == MEMBERS) assert_true(sim_run(s, 600 * SIM_SECOND));
    sim_close(s);
}

static void fail_each(scenario *run) {
    testing_alloc_failure_loop(run_job, &run);
}

static void reductions_survive_failing_allocations(void **state) {
    (void)state;
    fail_each(reduce);
}

static void gatherings_survive_failing_allocations(void **state) {
    (void)state;
    fail_each(gather);
}

static void messages_survive_failing_allocations(void **state) {
    (void)state;
    fail_each(exchange_messages);
}

static void aborts_survive_failing_allocations(void **state) {
    (void)state;
    fail_each(disagree);
}

static void groups_that_are_opened_late_survive_failing_allocations(void **state) {
    (void)state;
    fail_each(open_late);
}

static void agreements_survive_failing_allocations(void **state) {
    (void)state;
    fail_each(agree);
}

static void join_requests_survive_failing_allocations(void **state) {
    (void)state;
    fail_each(admit);
}

static void passes_through_collectives_survive_failing_allocations(void **state) {
    (void)state;
    fail_each(differentiate);
}

static void replicas_survive_failing_allocations(void **state) {
    (void)state;
    fail_each(replicate);
}

static void sharded_steps_survive_failing_allocations(void **state) {
    (void)state;
    fail_each(share);
}

static void gradients_sharded_in_ranges_survive_failing_allocations(void **state) {
    (void)state;
    fail_each(share_gradients);
}

static void resharding_survives_failing_allocations(void **state) {
    (void)state;
    fail_each(reshard);
}

GW_TESTS_WITH_LIMIT(group_memory, 120, reductions_survive_failing_allocations,
                    gatherings_survive_failing_allocations, messages_survive_failing_allocations,
                    aborts_survive_failing_allocations,
                    groups_that_are_opened_late_survive_failing_allocations,
                    agreements_survive_failing_allocations,
                    join_requests_survive_failing_allocations,
                    passes_through_collectives_survive_failing_allocations,
                    replicas_survive_failing_allocations, sharded_steps_survive_failing_allocations,
                    gradients_sharded_in_ranges_survive_failing_allocations,
                    resharding_survives_failing_allocations);
