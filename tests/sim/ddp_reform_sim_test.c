// Replicas that continue after a loss, in the simulator, with the results of a run without losses.
#include "testing/cluster.h"
#include "testing/testing.h"

#include <gradwire.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STEPS = 8, TRAINERS = 3, SEEDS = 120 };

typedef struct scene {
    sim *sim;
    uint64_t seed;
    int victim;
    int64_t after_ns;  // after the event of the test
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

// All members have the same batch, so that the mean over any of them equals that of one.
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
    return cluster_open_group(s, first, count, first ? "alone" : "trainers", 0);
}

// Waits until the joining member's request is pending.
static void wait_for_request(gw_scope *s, const gw_group *g) {
    while (!gw_group_pending(g) && gw_ok(s)) cluster_sleep_ms(s, 5);
}

static void die(sim *s, void *context) {
    sim_crash(s, ((scene *)context)->victim);
}

static void train(gw_scope *s, int rank, void *context) {
    scene *c = context;
    bool is_new = rank == TRAINERS;
    gw_group *g = is_new ? gw_group_join(s, "trainers") : open_trainers(s, 0, TRAINERS);
    learner l = open_learner(s);
    if (is_new) fill(s, l.model, 9);
    gw_ddp *ddp = gw_ddp_open(s, l.model, .group = g, .joining = is_new);
    if (is_new)
        gw_ddp_reform(s, ddp, l.opt, g);
    else
        wait_for_request(s, g);
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

static void replicas_continue_with_a_joining_member_at_the_same_step(void **state) {
    (void)state;
    int finished = 0;
    testing_for_seeds(SEEDS, train_with_seed, &finished);
    printf("%d members have finished\n", finished);
    if (!getenv("SEED")) assert_true(finished > 0);
}

// ---- Losses while they re-form ------------------------------------------------------------------
// Member 0 is a step ahead, and the first or the second is lost while it sends the others its state.

static void go_ahead(gw_scope *outer, const learner *l, int step) {
    gw_scope *s = gw_scope_open(outer);
    gw_ddp_no_sync(s);
    float x[4] = { (float)(step % 3), 1, -1, (float)(step % 2) };
    gw_tensor *out = gw_module_call(s, l->model, gw_reshape(s, gw_from(s, x, 4), 1, 4));
    gw_backward(s, gw_sum(s, gw_mul(s, out, out)));
    gw_optimizer_step(s, l->opt);
    gw_error e = gw_scope_close(s);
    assert_string_equal(e.text, "");
}

// Repeats until no member is lost meanwhile.
static void reform_all(gw_scope *s, const scene *c, const learner *l, int rank, gw_ddp *ddp,
                       gw_group **at) {
    int tries = 0;
    gw_ddp_reform(s, ddp, l->opt, *at);
    while (!gw_ok(s) && !is_dead(c, rank)) {
        gw_error e = *gw_scope_error(s);
        gw_scope_clear(s);
        if (e.status != GW_DISCONNECTED || ++tries == 4) fail_msg("w%d: %s", rank, e.text);
        *at = gw_group_reform(s, *at);
        gw_ddp_reform(s, ddp, l->opt, *at);
    }
}

static void lose_one_while_they_reform(gw_scope *s, int rank, void *context) {
    scene *c = context;
    gw_group *g = open_trainers(s, 0, TRAINERS);
    learner l = open_learner(s);
    gw_ddp *ddp = gw_ddp_open(s, l.model, .group = g);
    for (int step = 0; step < 3; step++) assert_int_equal(take_step(s, &l, step).status, GW_OK);
    if (rank == 0) go_ahead(s, &l, 3);
    gw_barrier(s, g);
    if (rank == 0) assert_true(sim_at(c->sim, sim_now_ns(c->sim) + c->after_ns, die, c));
    reform_all(s, c, &l, rank, ddp, &g);
    if (is_dead(c, rank)) {
        gw_scope_clear(s);
        return;
    }
    for (int step = steps_of(s, l.opt); step < STEPS && !is_dead(c, rank);) {
        gw_error e = take_step(s, &l, step);
        if (is_dead(c, rank)) break;
        if (e.status) {
            g = gw_group_reform(s, g);
            reform_all(s, c, &l, rank, ddp, &g);
        }
        step = steps_of(s, l.opt);
    }
    if (!is_dead(c, rank) && gw_ok(s)) {
        expect_same(s, &l);
        c->finished++;
    }
    if (!is_dead(c, rank) && !gw_ok(s)) fail_msg("w%d: %s", rank, gw_scope_error(s)->text);
    gw_scope_clear(s);
}

static void lose_at(uint64_t seed, void *context) {
    int *finished = context;
    for (int victim = 0; victim < TRAINERS; victim++) {
        scene c = { .victim = victim, .after_ns = (int64_t)seed * 25000 };
        cluster_run(seed,
                    (cluster_options){ .world_size = TRAINERS, .fails = true, .direct = direct },
                    lose_one_while_they_reform, &c);
        assert_in_range(c.finished, TRAINERS - 1, TRAINERS);
        *finished += c.finished;
    }
}

static void a_loss_during_reforming_leaves_equal_states(void **state) {
    (void)state;
    int finished = 0;
    testing_for_seeds(SEEDS, lose_at, &finished);
    printf("%d members have finished\n", finished);
}

static void join_untrained(gw_scope *s, int rank, void *context) {
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

// A member that has taken as many steps, none here, may still have other weights.
static void members_without_steps_get_equal_weights(void **state) {
    (void)state;
    cluster_run(1, (cluster_options){ .world_size = TRAINERS }, join_untrained, NULL);
}

// ---- State of hooks -----------------------------------------------------------------------------
// Two members train; a third one joins.

typedef struct counted {
    int64_t calls;
    bool was_behind;
} counted;

static gw_future *count_call(gw_scope *s, gw_bucket *b, void *context) {
    ((counted *)context)->calls++;
    return gw_hook_all_reduce(s, b, NULL);
}

static gw_map *save_count(gw_scope *s, void *context) {
    gw_map *map = gw_map_open(s);
    gw_map_put(s, map, "calls", ((counted *)context)->calls);
    return map;
}

static void load_count(gw_scope *s, void *context, gw_map *state, bool is_behind) {
    counted *c = context;
    c->calls = gw_int_of(s, gw_map_get(s, state, "calls"));
    c->was_behind = is_behind;
}

typedef struct hooked {
    learner learner;
    gw_ddp *ddp;
    gw_power_sgd *low;  // NULL: |counted| is the hook's
    counted counted;
} hooked;

// Each member has batches of its own.
static void step_hooked(gw_scope *root, const hooked *h, int rank, int step) {
    gw_scope *s = gw_scope_open(root);
    float x[4] = { (float)(step % 3 + rank), 1, (float)-rank, (float)(step % 2) };
    gw_tensor *out = gw_module_call(s, h->learner.model, gw_reshape(s, gw_from(s, x, 4), 1, 4));
    float weights[2] = { 1, (float)(rank + 2) };
    gw_tensor *by = gw_from(s, weights, 2);
    gw_backward(s, gw_sum(s, gw_mul(s, gw_mul(s, out, out), by)));
    gw_optimizer_step(s, h->learner.opt);
    gw_scope_close_up(s);
    if (!gw_ok(root)) fail_msg("w%d, step %d: %s", rank, step, gw_scope_error(root)->text);
}

static void expect_hook_state(gw_scope *s, const hooked *h, gw_group *g, gw_map *before,
                              bool is_new) {
    if (!h->low) {
        assert_int_equal(h->counted.calls, 4);
        assert_true(h->counted.was_behind == is_new);
        return;
    }
    gw_map *now = gw_power_sgd_state_dict(s, h->low);
    gw_value q = gw_map_find(now, "0.q"), error = gw_map_find(now, "0.error");
    gw_value all = gw_value_of(gw_all_gather(s, g, gw_tensor_of(s, q)));
    const float *numbers = gw_data(gw_tensor_of(s, all));
    int64_t count = gw_numel(gw_tensor_of(s, q));
    for (int64_t i = 0; gw_ok(s) && i < gw_numel(gw_tensor_of(s, all)); i++)
        assert_true(numbers[i] == numbers[i % count]);
    assert_true((error.kind == GW_NONE) == is_new);
    if (is_new || !gw_ok(s)) return;
    gw_tensor *old = gw_tensor_of(s, gw_map_get(s, before, "0.error"));
    assert_memory_equal(gw_data(gw_tensor_of(s, error)), gw_data(old),
                        (size_t)gw_numel(old) * sizeof(float));
}

static void train_hooked(gw_scope *root, int rank, void *context) {
    bool is_new = rank == 2;
    hooked h = { .learner = open_learner(root) };
    gw_group *g = is_new ? open_trainers(root, 2, 1) : open_trainers(root, 0, 2);
    h.ddp = gw_ddp_open(root, h.learner.model, .group = g);
    if (*(const bool *)context) {
        h.low = gw_power_sgd_open(root, .start = 2, .min_rate = 1);
        gw_ddp_set_hook(root, h.ddp, gw_hook_power_sgd, h.low);
    } else {
        gw_ddp_set_hook(root, h.ddp, count_call, &h.counted);
        gw_ddp_set_hook_state(root, h.ddp, save_count, load_count);
    }
    for (int step = 0; step < 4 && !is_new; step++) step_hooked(root, &h, rank, step);
    gw_map *before = h.low ? gw_power_sgd_state_dict(root, h.low) : NULL;
    if (!is_new) wait_for_request(root, g);
    g = is_new ? gw_group_join(root, "trainers") : gw_group_reform(root, g, .min = 3);
    gw_ddp_reform(root, h.ddp, h.learner.opt, g);
    if (!gw_ok(root)) fail_msg("w%d: %s", rank, gw_scope_error(root)->text);
    expect_hook_state(root, &h, g, before, is_new);
    for (int step = 4; step < 7; step++) step_hooked(root, &h, rank, step);
    gw_ddp_check(root, h.ddp);
    if (!gw_ok(root)) fail_msg("w%d: %s", rank, gw_scope_error(root)->text);
    if (h.low) assert_int_equal(gw_power_sgd_get_stats(h.low).passes, 7);
}

static void hooks_get_the_state_of_the_furthest_member(void **state) {
    (void)state;
    for (int i = 0; i < 10; i++) {
        bool is_low = i % 2;
        cluster_run((uint64_t)i + 1, (cluster_options){ .world_size = 3 }, train_hooked, &is_low);
    }
}

// ---- A pass that one member has skipped ---------------------------------------------------------

// The member stays behind, until all continue from one step in the same group.
static void leave_out(gw_scope *s, int rank, void *context) {
    (void)context;
    gw_group *g = gw_group_world(s, .timeout_ms = 2000);
    gw_group *meeting = gw_group_world(s, .name = "meeting");
    learner l = open_learner(s);
    gw_ddp *ddp = gw_ddp_open(s, l.model, .group = g);
    for (int step = 0; step < 3; step++) {
        gw_error e = { 0 };
        if (step != 1 || rank != 1) e = take_step(s, &l, step);
        gw_scope *t =
            gw_scope_open(s);  // all wait here for the members whose pass fails by its deadline
        gw_scope_set_timeout(t, 60000);
        gw_group_agree(t, meeting, 0);
        gw_scope_close_up(t);
        if (!gw_ok(s)) fail_msg("%s", gw_scope_error(s)->text);
        if (step == 0 || (step == 1 && rank == 1)) assert_int_equal(e.status, GW_OK);
        if (step == 0 || (step == 1 && rank == 1)) continue;
        assert_int_equal(e.status, GW_TIMEOUT);
        if (!strstr(e.text, ", 1 behind")) fail_msg("%s", e.text);
    }
    gw_ddp_reform(s, ddp, NULL, g);
    gw_error e = take_step(s, &l, 3);
    if (e.status || !gw_ok(s)) fail_msg("%s", e.status ? e.text : gw_scope_error(s)->text);
    gw_ddp_check(s, ddp);
    assert_true(gw_ok(s));
    assert_int_equal(gw_ddp_get_stats(ddp).completed, 2);
}

static void a_member_that_skipped_a_pass_is_in_step_again(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= (uint64_t)testing_scaled(4); seed++)
        cluster_run(seed, (cluster_options){ .world_size = TRAINERS }, leave_out, NULL);
}

GW_TESTS(ddp_reform_sim, a_member_that_skipped_a_pass_is_in_step_again,
         members_without_steps_get_equal_weights, hooks_get_the_state_of_the_furthest_member,
         replicas_continue_with_a_joining_member_at_the_same_step,
         a_loss_during_reforming_leaves_equal_states);
