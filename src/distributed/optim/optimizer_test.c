// Optimizers whose parameters several workers own, in the simulator.
#include "testing/cluster.h"
#include "testing/testing.h"

#include "base/scope.h"
#include <gradwire.h>

#include <stdio.h>
#include <string.h>

enum { SEEDS = 20, SIZE = 3 };

// ---- Functions: one weight in an object ---------------------------------------------------------
typedef struct optim_layer {
    gw_scope *own;
    gw_tensor *w;
} optim_layer;

GW_CLASS(optim_layer, open_layer, "float");

static void open_layer(gw_scope *own, optim_layer *self, const gw_args *a) {
    self->own = own;
    self->w = gw_requires_grad(own, gw_full(own, GW_F64, gw_arg_float(own, a, 0), SIZE));
}

GW_METHOD(optim_layer, weight, GW_INLINE, "") {
    return gw_value_of(gw_rref_open(s, self->w));
}

GW_METHOD(optim_layer, forward, GW_INLINE, "tensor") {
    return gw_value_of(gw_mul(s, self->w, gw_arg_tensor(s, a, 0)));
}

GW_METHOD(optim_layer, get, GW_INLINE, "") {
    return gw_value_of(gw_detach(s, self->w));
}

GW_FUNCTION(optim_number, GW_INLINE) {
    return gw_value_of(3);
}
GW_FUNCTION(optim_frozen, GW_INLINE) {
    return gw_value_of(gw_ones(s, GW_F32, 2));
}

// ---- A model over workers, and the same in one process ------------------------------------------
enum { LAYERS = 3 };

typedef struct model {
    int remote;  // layers on w1, w2, ...; the others are here
    gw_rref *layers[LAYERS];
    gw_tensor *here[LAYERS];
    gw_list *params;
} model;

static model open_model(gw_scope *s, int remote) {
    model m = { .remote = remote, .params = gw_list_open(s) };
    for (int i = 0; i < LAYERS; i++) {
        double start = 1 + 0.5 * i;
        if (i < remote) {
            m.layers[i] = gw_remote(s, i + 1, "optim_layer", start);
            gw_list_add(s, m.params, gw_rref_of(s, gw_rpc_sync(s, m.layers[i], "weight")));
        } else {
            m.here[i] = gw_requires_grad(s, gw_full(s, GW_F64, start, SIZE));
            gw_list_add(s, m.params, m.here[i]);
        }
    }
    return m;
}

static void backward(gw_scope *s, const model *m) {
    gw_tensor *x = gw_from(s, ((double[]){ 0.5, -1, 2 }), SIZE);
    for (int i = 0; i < LAYERS; i++)
        x = m->here[i] ? gw_mul(s, m->here[i], x)
                       : gw_tensor_of(s, gw_rpc_sync(s, m->layers[i], "forward", x));
    gw_backward(s, gw_sum(s, gw_mul(s, x, x)));
}

static double value_of(gw_scope *s, const model *m, int layer, int at) {
    gw_tensor *w =
        m->here[layer] ? m->here[layer] : gw_tensor_of(s, gw_rpc_sync(s, m->layers[layer], "get"));
    return gw_ok(s) ? ((const double *)gw_data(w))[at] : 0;
}

static void assert_equal(gw_scope *root, const model *a, const model *b) {
    gw_scope *s = gw_scope_open(root);
    for (int i = 0; i < LAYERS; i++)
        for (int k = 0; k < SIZE; k++)
            assert_float_equal(value_of(s, a, i, k), value_of(s, b, i, k), 0);
    gw_scope_close_up(s);
    assert_true(gw_ok(root));
}

static gw_optimizer *open_rule(gw_scope *s, int rule, gw_list *params) {
    switch (rule % 4) {
    case 0: return gw_sgd(s, params, .lr = 0.01, .momentum = 0.5);
    case 1: return gw_adam(s, params, .lr = 0.1, .amsgrad = true);
    case 2: return gw_adagrad(s, params, .weight_decay = 0.1);
    default: return gw_rprop(s, params, .lr = 0.01);
    }
}

// ---- Steps --------------------------------------------------------------------------------------
static void train_concurrently(gw_scope *root, int rank, void *context) {
    int remote = *(int *)context;
    if (rank) return;
    model spread = open_model(root, remote), whole = open_model(root, 0);
    int rule = remote;
    gw_optimizer *a = open_rule(root, rule, spread.params),
                 *b = open_rule(root, rule, whole.params);
    gw_scheduler *fall = gw_exponential_lr(root, a, .gamma = 0.9);
    gw_scheduler *same = gw_exponential_lr(root, b, .gamma = 0.9);
    for (int step = 0; step < 5; step++) {
        gw_scope *s = gw_scope_open(root);
        backward(s, &spread);
        gw_optimizer_step(s, a);
        gw_scheduler_step(s, fall);
        gw_scope_close_up(s);
        s = gw_scope_open(root);
        backward(s, &whole);
        gw_optimizer_step(s, b);
        gw_scheduler_step(s, same);
        gw_scope_close_up(s);
        if (!gw_ok(root)) fail_msg("%s", gw_scope_error(root)->text);
    }
    assert_equal(root, &spread, &whole);
    assert_int_equal(gw_optimizer_steps(a), 5);
}

static void its_numbers_are_those_of_one_process(void **state) {
    (void)state;
    for (int remote = 1; remote <= LAYERS; remote++)
        for (uint64_t seed = 1; seed <= (uint64_t)testing_scaled(SEEDS); seed++)
            cluster_run(seed, (cluster_options){ .world_size = remote + 1 }, train_concurrently,
                        &remote);
}

// ---- Groups, clipping, state --------------------------------------------------------------------
static gw_list *list_of(gw_scope *s, gw_value v) {
    gw_list *list = gw_list_open(s);
    gw_list_add_with(s, list, v);
    return list;
}

static void step(gw_scope *root, const model *m, gw_optimizer *opt, double max_norm) {
    gw_scope *s = gw_scope_open(root);
    backward(s, m);
    if (max_norm) gw_clip_grad_norm(s, m->params, max_norm);
    gw_optimizer_step(s, opt);
    gw_scope_close_up(s);
    if (!gw_ok(root)) fail_msg("%s", gw_scope_error(root)->text);
}

static void group_and_clip(gw_scope *root, int rank, void *context) {
    (void)context;
    if (rank) return;
    model models[] = { open_model(root, 2), open_model(root, 0) };
    for (int i = 0; i < 2; i++) {
        gw_list *params = models[i].params;
        gw_optimizer *opt = gw_adamw(root, list_of(root, gw_list_get(root, params, 2)), .lr = 0.1);
        gw_optimizer_add_parameter_group(root, opt, list_of(root, gw_list_get(root, params, 0)),
                                         .weight_decay = 0);
        gw_optimizer_add_parameter_group(root, opt, list_of(root, gw_list_get(root, params, 1)),
                                         .lr = 0.2);
        assert_int_equal(gw_optimizer_parameter_group_count(opt), 3);
        step(root, &models[i], opt, 0.5);
        gw_optimizer_set_parameter_group_lr(root, opt, 1, 0.5);
        step(root, &models[i], opt, 0.5);
    }
    assert_equal(root, &models[0], &models[1]);
}

static void groups_and_clipping_reach_every_owner(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= (uint64_t)testing_scaled(SEEDS); seed++)
        cluster_run(seed, (cluster_options){ .world_size = 3 }, group_and_clip, NULL);
}

static void clip_alone(gw_scope *root, int rank, void *context) {
    (void)context;
    if (rank) return;
    model m = open_model(root, 2);
    gw_scope *s = gw_scope_open(root);
    backward(s, &m);
    double norm = gw_clip_grad_norm(s, m.params, 1);
    assert_true(norm > 1);
    assert_float_equal(gw_clip_grad_norm(s, m.params, 1), 1, 1e-5);
    double sum = 0;
    for (int i = 0; i < LAYERS; i++) {
        gw_value v = gw_list_get(s, m.params, i);
        gw_tensor *g = v.kind == GW_RREF ? gw_rref_grad(s, v.as.rref) : gw_grad(s, v.as.tensor);
        sum += gw_item(s, gw_sum(s, gw_mul(s, g, g)));
    }
    assert_float_equal(sum, 1, 1e-5);
    gw_scope_close_up(s);
}

static void a_norm_is_that_of_all_owners_together(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= (uint64_t)testing_scaled(SEEDS); seed++)
        cluster_run(seed, (cluster_options){ .world_size = 3 }, clip_alone, NULL);
}

static gw_map *without(gw_scope *s, gw_map *map, const char *key) {
    gw_map *other = gw_map_open(s);
    for (int i = 0; i < gw_map_count(map); i++)
        if (strcmp(gw_map_key(s, map, i), key) != 0)
            gw_map_put_with(s, other, gw_map_key(s, map, i),
                            gw_map_get(s, map, gw_map_key(s, map, i)));
    return other;
}

static void save_and_load(gw_scope *root, int rank, void *context) {
    (void)context;
    if (rank) return;
    // An optimizer over other owners continues from the saved state.
    model spread = open_model(root, 2), whole = open_model(root, 0);
    gw_optimizer *a = open_rule(root, 1, spread.params), *b = open_rule(root, 1, whole.params);
    step(root, &spread, a, 0);
    step(root, &whole, b, 0);
    step(root, &whole, b, 0);
    gw_map *saved = gw_optimizer_state_dict(root, a);
    assert_int_equal(gw_int_of(root, gw_map_get(root, saved, "0.step")), 1);
    assert_int_equal(gw_size(gw_tensor_of(root, gw_map_get(root, saved, "1.exp_avg")), 0), SIZE);

    const char *missing[] = { "0.exp_avg", "2.exp_avg_sq", "1.step", "group.0.beta1" };
    for (int i = 0; i < 4; i++) {
        gw_optimizer_load_state_dict(root, a,
                                     without(root, gw_optimizer_state_dict(root, b), missing[i]));
        const gw_error *e = gw_scope_error(root);
        char words[64];
        snprintf(words, sizeof words, "gw_optimizer_load_state_dict: \"%s\" is missing",
                 missing[i]);
        if (!strstr(e->text, words)) fail_msg("\"%s\" does not contain \"%s\"", e->text, words);
        gw_scope_clear(root);
        assert_int_equal(
            gw_int_of(root, gw_map_get(root, gw_optimizer_state_dict(root, a), "0.step")), 1);
    }
    step(root, &spread, a, 0);
    assert_equal(root, &spread, &whole);

    gw_optimizer_load_state_dict(root, b, saved);
    gw_optimizer_load_state_dict(root, a, saved);
    assert_int_equal(gw_optimizer_steps(a), 1);
    step(root, &spread, a, 0);
    step(root, &whole, b, 0);
    assert_equal(root, &spread, &whole);
}

static void state_is_that_of_all_owners_together(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= (uint64_t)testing_scaled(SEEDS); seed++)
        cluster_run(seed, (cluster_options){ .world_size = 3 }, save_and_load, NULL);
}

// ---- Bad input ----------------------------------------------------------------------------------
static void assert_error(gw_scope *s, gw_status status, const char *words) {
    const gw_error *e = gw_scope_error(s);
    if (!strstr(e->text, words)) fail_msg("\"%s\" does not contain \"%s\"", e->text, words);
    assert_int_equal(e->status, status);
    gw_scope_clear(s);
}

static void refuse(gw_scope *root, int rank, void *context) {
    (void)context;
    if (rank) return;
    model m = open_model(root, 1);
    gw_value remote = gw_list_get(root, m.params, 0);
    const struct {
        gw_value v;
        gw_status status;
        const char *words;
    } bad[] = {
        { remote, GW_INVALID, "w1: gw.optimizer: gw_sgd: parameter 4 is listed twice" },
        { gw_list_get(root, m.params, 1), GW_INVALID, "gw_sgd: parameter 4 is listed twice" },
        { gw_value_of(m.layers[0]), GW_INVALID, "w1: gw.optimizer: " },
        { gw_value_of(gw_remote(root, 1, "optim_number")), GW_INVALID,
          "w1: gw.optimizer: gw_sgd: parameter 4 is no tensor" },
        { gw_value_of(gw_remote(root, 2, "optim_frozen")), GW_INVALID,
          "w2: gw.optimizer: gw_sgd: parameter 4 does not require a gradient" },
        { gw_value_of(gw_rref_open(root, 3)), GW_INVALID, "gw_sgd: parameter 4 is no tensor" },
        { gw_value_of(gw_remote(root, 1, "optim_nothing")), GW_NOT_FOUND, "no function" },
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        gw_scope *s = gw_scope_open(root);
        gw_list *params = gw_list_open(s);
        for (int k = 0; k < 3; k++) gw_list_add_with(s, params, gw_list_get(s, m.params, k));
        gw_list_add(s, params, gw_requires_grad(s, gw_ones(s, GW_F32, 1)));
        gw_list_add_with(s, params, bad[i].v);
        gw_optimizer *opt = gw_sgd(s, params);
        gw_optimizer_step(s, opt);
        assert_null(strstr(gw_scope_error(s)->text, "group_count"));
        assert_error(s, bad[i].status, bad[i].words);
        // Refused as a second group, it leaves the optimizer as it was.
        opt = gw_sgd(s, m.params, .lr = 0.1);
        gw_optimizer_add_parameter_group(s, opt, params, .lr = 0.3);
        assert_false(gw_ok(s));
        gw_scope_clear(s);
        assert_int_equal(gw_optimizer_parameter_group_count(opt), 1);
        step(s, &m, opt, 0);
        assert_int_equal(gw_optimizer_steps(opt), 1);
        gw_scope_close_up(s);
    }
}

static void errors_name_the_parameter_and_its_owner(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= (uint64_t)testing_scaled(SEEDS); seed++)
        cluster_run(seed, (cluster_options){ .world_size = 3 }, refuse, NULL);
}

// ---- A lost owner -------------------------------------------------------------------------------
enum { ENDS_AT_S = 30 };

static void crash_w2(sim *s, void *context) {
    (void)context;
    sim_crash(s, 2);
}

static void plan_end(sim *s, void *context) {
    (void)context;
    sim_at(s, ENDS_AT_S * SIM_SECOND, crash_w2, NULL);
}

static void wait_for_end(gw_scope *root) {
    gw_scope *s = gw_scope_open(root);
    gw_scope_set_timeout(s, 2 * ENDS_AT_S * 1000);
    gw_wait(s, gw_future_open(s));
    assert_int_equal(gw_scope_close(s).status, GW_TIMEOUT);
}

static void expect_lost(gw_scope *s) {
    const gw_error *e = gw_scope_error(s);
    if (!strstr(e->text, "w2")) fail_msg("\"%s\" does not name the lost worker", e->text);
    if (e->status != GW_DISCONNECTED && e->status != GW_REF_LOST) fail_msg("%s", e->text);
    gw_scope_clear(s);
}

static void outlive_owner(gw_scope *root, int rank, void *context) {
    (void)context;
    if (rank) {
        if (rank == 2) wait_for_end(root);
        return;
    }
    model m = open_model(root, 2);
    gw_optimizer *opt = open_rule(root, 1, m.params);
    step(root, &m, opt, 0);
    gw_map *saved = gw_optimizer_state_dict(root, opt);
    gw_scope *old = gw_scope_open(root);
    backward(old, &m);
    assert_true(gw_ok(root) && gw_ok(old));
    wait_for_end(root);

    // Stepping with gradients of before, saving and loading, and making another.
    gw_optimizer_step(old, opt);
    expect_lost(old);
    gw_scope_close_up(old);
    gw_optimizer_state_dict(root, opt);
    expect_lost(root);
    gw_optimizer_load_state_dict(root, opt, saved);
    expect_lost(root);
    assert_int_equal(gw_optimizer_steps(opt), 1);
    gw_scope *s = gw_scope_open(root);
    open_rule(s, 0, m.params);
    expect_lost(s);
    gw_scope_close_up(s);

    // The parameters of the other owners can still be trained.
    gw_list *left = gw_list_open(root);
    gw_list_add_with(root, left, gw_list_get(root, m.params, 0));
    gw_list_add_with(root, left, gw_list_get(root, m.params, 2));
    gw_optimizer *other = gw_sgd(root, left, .lr = 1);
    s = gw_scope_open(root);
    double before = value_of(s, &m, 0, 0), by = value_of(s, &m, 2, 0);
    gw_tensor *y = gw_tensor_of(s, gw_rpc_sync(s, m.layers[0], "forward", m.here[2]));
    gw_backward(s, gw_sum(s, y));
    gw_optimizer_step(s, other);
    assert_true(gw_ok(s) && value_of(s, &m, 0, 0) == before - by);
    gw_scope_close_up(s);
    assert_true(gw_ok(root));
}

static void an_optimizer_whose_owner_is_lost_fails(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= (uint64_t)testing_scaled(SEEDS); seed++) {
        cluster_outcome o = cluster_run(
            seed, (cluster_options){ .world_size = 3, .fails = true, .direct = plan_end },
            outlive_owner, NULL);
        assert_true(o.crashed[2] && !o.crashed[0]);
    }
}

GW_TESTS(distributed_optimizer, its_numbers_are_those_of_one_process,
         groups_and_clipping_reach_every_owner, a_norm_is_that_of_all_owners_together,
         state_is_that_of_all_owners_together, errors_name_the_parameter_and_its_owner,
         an_optimizer_whose_owner_is_lost_fails);
