// Steps over several owners of which one, or the trainer, crashes at any event: the remaining owners
// are at the same step, or the error names those that are ahead.
#include "testing/cluster.h"
#include "testing/testing.h"

#include "base/scope.h"
#include <gradwire.h>

#include <stdio.h>
#include <string.h>

enum { WORKERS = 4, SEEDS = 300, STEPS = 6, SENDS = 260 };

// By rank: the trainer's own, and one of each owner. The gradient is 1 and so is the rate.
static gw_tensor *weights[WORKERS];

GW_FUNCTION(fault_weight, GW_INLINE) {
    return gw_value_of(gw_rref_open(s, weights[gw_rpc_self(s).rank]));
}
GW_FUNCTION(fault_forward, GW_INLINE, "tensor") {
    return gw_value_of(gw_add(s, weights[gw_rpc_self(s).rank], gw_arg_tensor(s, a, 0)));
}

typedef struct run {
    uint64_t seed;
    int world_size;
    int victim;
    int steps[WORKERS];  // that the parameters have seen, in the end
    int trainer_steps;   // as the optimizer counts
    char error[GW_ERROR_TEXT_MAX];
} run;

typedef struct tally {
    int whole, unchanged, ahead, unexplained;
} tally;

static void pause_s(gw_scope *s, int64_t seconds) {
    cluster_sleep_ms(s, seconds * 1000);
}

static void train(gw_scope *root, run *r) {
    gw_list *params = gw_list_open(root);
    gw_list_add(root, params, weights[0]);
    for (int i = 1; i < r->world_size; i++)
        gw_list_add_with(root, params, gw_rpc_sync(root, i, "fault_weight"));
    gw_optimizer *opt = gw_sgd(root, params, .lr = 1);
    for (int step = 0; step < STEPS && gw_ok(root); step++) {
        gw_scope *s = gw_scope_open(root);
        gw_tensor *x = weights[0];
        for (int i = 1; i < r->world_size; i++)
            x = gw_tensor_of(s, gw_rpc_sync(s, i, "fault_forward", x));
        gw_backward(s, gw_sum(s, x));
        gw_optimizer_step(s, opt);
        gw_scope_close_up(s);
    }
    r->trainer_steps = (int)gw_optimizer_steps(opt);
    snprintf(r->error, sizeof r->error, "%s", gw_scope_error(root)->text);
    gw_scope_clear(root);
}

static void play(gw_scope *root, int rank, void *context) {
    run *r = context;
    weights[rank] = gw_requires_grad(root, gw_zeros(root, GW_F32, 1));
    gw_worker all[WORKERS];
    for (int i = 0; i < r->world_size; i++) all[i] = gw_rpc_worker(root, i);
    gw_rpc_barrier(root, all, r->world_size);
    if (rank == 0 && gw_ok(root)) train(root, r);
    gw_scope_clear(root);  // the barrier fails if a worker has crashed
    pause_s(root, 40);
    if (!sim_is_ghost(root->env)) r->steps[rank] = (int)-*(const float *)gw_data(weights[rank]);
}

static void crash(sim *s, void *arg) {
    sim_crash(s, ((run *)arg)->victim);
}

static void plan(sim *s, void *context) {
    run *r = context;
    assert_true(sim_at_send(s, 1 + r->seed * 7919 % SENDS, crash, r));
}

static void check(const run *r, const cluster_outcome *o, tally *t) {
    int least = STEPS, most = 0;
    for (int i = 0; i < r->world_size; i++) {
        if (o->crashed[i]) continue;
        if (r->steps[i] < least) least = r->steps[i];
        if (r->steps[i] > most) most = r->steps[i];
    }
    bool explains = !o->crashed[0] && strstr(r->error, "be at step") != NULL;
    if (least != most && !explains)
        fail_msg("survivors are at steps %d to %d, and \"%s\"", least, most, r->error);
    t->whole += !r->error[0];
    t->unchanged += strstr(r->error, "nothing has changed") != NULL;
    t->ahead += strstr(r->error, "all others are at step") != NULL;
    t->unexplained += least != most;
    if (!o->crashed[0]) assert_int_equal(r->trainer_steps, r->steps[0]);
}

static void run_seed(uint64_t seed, int world_size, int victim, tally *t) {
    run r = { .seed = seed, .world_size = world_size, .victim = victim };
    testing_note("seed %llu, %d workers, w%d crashes", (unsigned long long)seed, world_size,
                 victim);
    cluster_outcome o = cluster_run(
        seed, (cluster_options){ .world_size = world_size, .fails = true, .direct = plan }, play,
        &r);
    check(&r, &o, t);
}

static void the_remaining_owners_have_the_steps_of_the_trainer(void **state) {
    (void)state;
    tally t = { 0 };
    for (uint64_t seed = 1; seed <= (uint64_t)testing_scaled(SEEDS); seed++)
        run_seed(seed, 2 + seed % 3, 1 + (int)(seed % (1 + seed % 3)), &t);
    testing_note("%d whole, %d unchanged, %d ahead", t.whole, t.unchanged, t.ahead);
    if (SEEDS == testing_scaled(SEEDS)) assert_true(t.whole && t.unchanged && t.ahead);
    assert_int_equal(t.unexplained, 0);
}

static void owners_agree_when_the_trainer_is_gone(void **state) {
    (void)state;
    tally t = { 0 };
    for (uint64_t seed = 1; seed <= (uint64_t)testing_scaled(SEEDS); seed++)
        run_seed(seed, 3 + seed % 2, 0, &t);
}

// ---- Two trainers over the same parameters ------------------------------------------------------
enum { TRAINERS = 2, RACES = 40, RACE_STEPS = 5 };

static void race(gw_scope *root, int rank, void *context) {
    const bool *concurrent = context;
    weights[rank] = gw_requires_grad(root, gw_zeros(root, GW_F32, 1));
    gw_worker all[WORKERS];
    for (int i = 0; i < WORKERS; i++) all[i] = gw_rpc_worker(root, i);
    gw_rpc_barrier(root, all, WORKERS);
    if (rank < TRAINERS) {
        gw_list *params = gw_list_open(root);
        for (int i = TRAINERS; i < WORKERS; i++)
            gw_list_add_with(root, params, gw_rpc_sync(root, i, "fault_weight"));
        gw_optimizer *opt = gw_sgd(root, params, .lr = 1, .concurrent = *concurrent);
        for (int step = 0; step < RACE_STEPS && gw_ok(root); step++) {
            gw_scope *s = gw_scope_open(root);
            gw_tensor *x = gw_zeros(s, GW_F32, 1);
            for (int i = TRAINERS; i < WORKERS; i++)
                x = gw_tensor_of(s, gw_rpc_sync(s, i, "fault_forward", x));
            gw_backward(s, gw_sum(s, x));
            gw_optimizer_step(s, opt);
            gw_scope_close_up(s);
        }
        if (!gw_ok(root)) fail_msg("%s", gw_scope_error(root)->text);
    }
    gw_rpc_barrier(root, all, WORKERS);
    if (rank >= TRAINERS)
        assert_float_equal(*(const float *)gw_data(weights[rank]), -TRAINERS * RACE_STEPS, 0);
}

static void steps_of_several_trainers_are_all_taken(void **state) {
    (void)state;
    for (int i = 0; i < 2; i++)
        for (uint64_t seed = 1; seed <= (uint64_t)testing_scaled(RACES); seed++)
            cluster_run(seed, (cluster_options){ .world_size = WORKERS }, race, &(bool){ i });
}

GW_TESTS(distributed_optimizer_fault, the_remaining_owners_have_the_steps_of_the_trainer,
         owners_agree_when_the_trainer_is_gone, steps_of_several_trainers_are_all_taken);
