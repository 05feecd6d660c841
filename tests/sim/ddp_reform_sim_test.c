// Replicas that go on after a loss, in the simulator: as if nothing had happened.
#include "testing/cluster.h"
#include "testing/testing.h"

#include <gradwire.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { STEPS = 8, TRAINERS = 3, SEEDS = 120 };

typedef struct scene {
    sim *sim;
    uint64_t seed;
    int victim;
    int finished;
} scene;

typedef struct learner {
    gw_module *model;
    gw_optimizer *opt;
} learner;

static void fill(gw_scope *s, gw_module *model, double value) {
    gw_scope *t = gw_scope_open(s);
    gw_no_grad(t);
    for (int i = 0; i < gw_module_parameter_count(model); i++)
        gw_fill_(t, gw_module_parameter_at(t, model, i), value);
    gw_scope_close_up(t);
}

static learner open_learner(gw_scope *s) {
    learner l = { .model = gw_nn_linear(s, 4, 2) };
    fill(s, l.model, 0.5);
    l.opt = gw_sgd(s, gw_parameters(s, l.model), .lr = 0.1, .momentum = 0.9);
    return l;
}

// All members have the same batch, so that the mean over any of them is what one has.
static gw_error take_step(gw_scope *outer, const learner *l, int step) {
    gw_scope *s = gw_scope_open(outer);
    float x[4] = { (float)(step % 3), 1, -1, (float)(step % 2) };
    gw_tensor *out = gw_module_call(s, l->model, gw_reshape(s, gw_from(s, x, 4), 1, 4));
    gw_backward(s, gw_sum(s, gw_mul(s, out, out)));
    gw_optimizer_step(s, l->opt);
    return gw_scope_close(s);
}

static int steps_of(gw_scope *s, gw_optimizer *opt) {
    return (int)gw_int_of(s, gw_map_get(s, gw_optimizer_state_dict(s, opt), "steps"));
}

static void expect_same(gw_scope *s, const learner *l) {
    learner alone = open_learner(s);
    for (int step = 0; step < STEPS; step++) {
        gw_error e = take_step(s, &alone, step);
        assert_string_equal(e.text, "");
    }
    for (int i = 0; i < gw_module_parameter_count(l->model); i++) {
        gw_tensor *x = gw_module_parameter_at(s, l->model, i);
        const float *a = gw_data(x), *b = gw_data(gw_module_parameter_at(s, alone.model, i));
        for (int64_t j = 0; gw_ok(s) && j < gw_numel(x); j++)
            if (fabsf(a[j] - b[j]) > 1e-5F) fail_msg("parameter %d: %g, not %g", i, a[j], b[j]);
    }
}

static bool is_dead(const scene *c, int rank) {
    return rank == c->victim && sim_is_crashed(c->sim, rank);
}

static gw_group *open_trainers(gw_scope *s, int first, int count) {
    gw_worker workers[TRAINERS];
    char name[8];
    for (int i = 0; i < count; i++) {
        snprintf(name, sizeof name, "w%d", first + i);
        workers[i] = gw_rpc_worker(s, name);
    }
    return gw_group_open(s, workers, count, .name = first ? "alone" : "trainers");
}

// Until the newcomer knocks.
static void wait_for_knock(gw_scope *s, const gw_group *g) {
    while (!gw_group_knocking(g) && gw_ok(s)) {
        gw_scope *t = gw_scope_open(s);
        gw_scope_set_timeout(t, 5);
        gw_wait(t, gw_future_open(t));
        gw_error late = gw_scope_close(t);
        assert_int_equal(late.status, GW_TIMEOUT);
    }
}

static void die(sim *s, void *context) {
    sim_crash(s, ((scene *)context)->victim);
}

static void train(gw_scope *s, int rank, void *context) {
    scene *c = context;
    bool is_new = rank == TRAINERS;
    gw_group *g = is_new ? open_trainers(s, rank, 1) : open_trainers(s, 0, TRAINERS);
    learner l = open_learner(s);
    if (is_new) fill(s, l.model, 9);
    gw_ddp *ddp = gw_ddp_open(s, l.model, .group = g);
    if (!is_new) wait_for_knock(s, g);
    if (is_new) {
        g = gw_group_knock(s, "trainers");
        gw_ddp_reform(s, ddp, l.opt, g);
    }
    if (!is_dead(c, rank) && !gw_ok(s)) fail_msg("w%d: %s", rank, gw_scope_error(s)->text);
    for (int step = steps_of(s, l.opt); step < STEPS && !is_dead(c, rank);) {
        int64_t soon_ns = sim_now_ns(c->sim) + (int64_t)(c->seed * 7919 % 400000);
        if (rank == c->victim && step == 2) assert_true(sim_at(c->sim, soon_ns, die, c));
        gw_error e = take_step(s, &l, step);
        if (is_dead(c, rank)) break;
        step++;
        if (!e.status) continue;
        if (e.status != GW_DISCONNECTED) fail_msg("w%d: %s", rank, e.text);
        g = gw_group_reform(s, g, .min = TRAINERS);
        gw_ddp_reform(s, ddp, l.opt, g);
        if (is_dead(c, rank)) break;
        if (!gw_ok(s)) fail_msg("w%d: %s", rank, gw_scope_error(s)->text);
        step = steps_of(s, l.opt);
    }
    if (!is_dead(c, rank) && gw_ok(s)) {
        assert_int_equal(gw_group_generation(g), 1);
        assert_int_equal(gw_ddp_get_stats(ddp).world_size, TRAINERS);
        gw_ddp_check(s, ddp);
        expect_same(s, &l);
        if (!gw_ok(s)) fail_msg("w%d: %s", rank, gw_scope_error(s)->text);
        c->finished++;
    }
    gw_scope_clear(s);
}

static void direct(sim *s, void *context) {
    ((scene *)context)->sim = s;
}

static void train_with_seed(uint64_t seed, void *context) {
    int *finished = context;
    scene c = { .seed = seed, .victim = (int)(seed % TRAINERS) };
    cluster_run(seed,
                (cluster_options){ .world_size = TRAINERS + 1, .fails = true, .direct = direct },
                train, &c);
    assert_int_equal(c.finished, TRAINERS);
    *finished += c.finished;
}

static void they_go_on_with_a_newcomer_where_they_were(void **state) {
    (void)state;
    int finished = 0;
    testing_for_seeds(SEEDS, train_with_seed, &finished);
    printf("%d members have finished\n", finished);
    if (!getenv("SEED")) assert_true(finished > 0);
}

static void meet_untrained(gw_scope *s, int rank, void *context) {
    (void)context;
    gw_worker self = gw_rpc_self(s);
    learner l = open_learner(s);
    fill(s, l.model, rank + 1);
    gw_ddp *ddp = gw_ddp_open(s, l.model, .group = gw_group_open(s, &self, 1, .name = "alone"));
    gw_ddp_reform(s, ddp, l.opt, gw_group_world(s));
    gw_ddp_check(s, ddp);
    if (!gw_ok(s)) fail_msg("w%d: %s", rank, gw_scope_error(s)->text);
    assert_float_equal(*(const float *)gw_data(gw_module_parameter_at(s, l.model, 0)), 1, 0);
}

// Who has made as many steps, none here, may have other weights all the same.
static void members_that_have_not_begun_become_alike(void **state) {
    (void)state;
    cluster_run(1, (cluster_options){ .world_size = TRAINERS }, meet_untrained, NULL);
}

GW_TESTS(ddp_reform_sim, members_that_have_not_begun_become_alike,
         they_go_on_with_a_newcomer_where_they_were);
