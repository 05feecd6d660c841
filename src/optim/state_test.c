#include "testing/testing.h"

#include <gradwire/ops.h>
#include <gradwire/optim.h>

#include <math.h>
#include <string.h>

enum { RULES = 8 };

typedef struct model {
    gw_tensor *w, *b;
    gw_optimizer *opt;
    gw_scheduler *schedule;
} model;

static gw_optimizer *open_rule(gw_scope *s, int number, gw_list *params) {
    switch (number) {
    case 0: return gw_sgd(s, params, .lr = 0.1, .momentum = 0.9);
    case 1: return gw_adam(s, params, .lr = 0.1, .amsgrad = true);
    case 2: return gw_adamw(s, params, .lr = 0.1);
    case 3: return gw_adamax(s, params, .lr = 0.1);
    case 4: return gw_adagrad(s, params, .lr_decay = 0.5);
    case 5: return gw_adadelta(s, params, .rho = 0.5);
    case 6: return gw_rmsprop(s, params, .momentum = 0.5, .centered = true);
    default: return gw_rprop(s, params, .lr = 0.1);
    }
}

static model open_model(gw_scope *s, int rule) {
    model m;
    m.w = gw_requires_grad(s, gw_from(s, ((double[]){ 1, -2, 3, -4, 5, -6 }), 2, 3));
    m.b = gw_requires_grad(s, gw_from(s, ((float[]){ 0.5f, 0.25f }), 2));
    gw_list *params = gw_list_open(s);
    gw_list_add(s, params, m.w);
    gw_list_add(s, params, m.b);
    m.opt = open_rule(s, rule, params);
    m.schedule = gw_linear_lr(s, m.opt, .total_iters = 10);
    return m;
}

static void train(gw_scope *s, model m, int steps) {
    for (int i = 0; i < steps; i++) {
        gw_scope *t = gw_scope_open(s);
        gw_tensor *loss = gw_add(t, gw_sum(t, gw_mul(t, m.w, m.w)), gw_sum(t, gw_exp(t, m.b)));
        gw_backward(t, loss);
        gw_optimizer_step(t, m.opt);
        gw_scheduler_step(t, m.schedule);
        gw_scope_close_up(t);
    }
}

static void a_loaded_optimizer_continues_as_the_saved_one(void **state) {
    (void)state;
    for (int rule = 0; rule < RULES; rule++) {
        gw_scope *s = gw_scope_open(NULL);
        model a = open_model(s, rule);
        train(s, a, 3);
        gw_map *saved = gw_optimizer_state_dict(s, a.opt);
        gw_map *schedule = gw_scheduler_state_dict(s, a.schedule);
        gw_tensor *w = gw_clone(s, gw_detach(s, a.w)), *b = gw_clone(s, gw_detach(s, a.b));
        train(s, a, 4);

        model fresh = open_model(s, rule);
        gw_scope *t = gw_scope_open(s);
        gw_no_grad(t);
        gw_copy_(t, fresh.w, w);
        gw_copy_(t, fresh.b, b);
        gw_scope_close_up(t);
        gw_optimizer_load_state_dict(s, fresh.opt, saved);  // as it was when it was saved
        gw_scheduler_load_state_dict(s, fresh.schedule, schedule);
        assert_int_equal(gw_optimizer_steps(fresh.opt), 3);
        train(s, fresh, 4);
        if (!gw_ok(s)) fail_msg("rule %d: %s", rule, gw_scope_error(s)->text);
        assert_true(gw_equal(s, a.w, fresh.w));
        assert_true(gw_equal(s, a.b, fresh.b));
        assert_float_equal(gw_optimizer_lr(a.opt), gw_optimizer_lr(fresh.opt), 0);
        assert_int_equal(gw_scope_close(s).status, GW_OK);
    }
}

static void names_are_those_of_pytorch(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    model m = open_model(s, 1);
    gw_map *map = gw_optimizer_state_dict(s, m.opt);
    assert_int_equal(gw_map_find(map, "0.exp_avg").kind, GW_NONE);  // no step yet
    train(s, m, 2);
    map = gw_optimizer_state_dict(s, m.opt);
    assert_string_equal(gw_string_of(s, gw_map_get(s, map, "rule")), "adam");
    assert_int_equal(gw_int_of(s, gw_map_get(s, map, "steps")), 2);
    assert_int_equal(gw_int_of(s, gw_map_get(s, map, "1.step")), 2);
    assert_float_equal(gw_float_of(s, gw_map_get(s, map, "group.0.beta2")), 0.999, 0);
    assert_float_equal(gw_float_of(s, gw_map_get(s, map, "group.0.initial_lr")), 0.1, 0);
    assert_int_equal(gw_size(gw_tensor_of(s, gw_map_get(s, map, "0.exp_avg")), 1), 3);
    gw_map_get(s, map, "0.exp_avg_sq");
    gw_map_get(s, map, "1.max_exp_avg_sq");
    assert_int_equal(gw_scope_close(s).status, GW_OK);
}

// A map like |map|, but with another value for |key|; none: without it.
static gw_map *altered(gw_scope *s, const gw_map *map, const char *key, gw_value v) {
    gw_map *other = gw_map_open(s);
    for (int i = 0; i < gw_map_count(map); i++) {
        const char *name = gw_map_key(s, map, i);
        if (strcmp(name, key) != 0) gw_map_put_with(s, other, name, gw_map_get(s, map, name));
    }
    if (v.kind != GW_NONE) gw_map_put_with(s, other, key, v);
    return other;
}

static void mismatched_state_changes_nothing(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    model m = open_model(s, 0);
    train(s, m, 2);
    gw_map *good = gw_optimizer_state_dict(s, m.opt);
    train(s, m, 1);
    gw_value none = gw_none();
    gw_tensor *small = gw_ones(s, GW_F64, 2), *narrow = gw_ones(s, GW_F32, 2, 3);
    const struct {
        const char *key;
        gw_value v;
        const char *words;
    } bad[] = {
        { "rule", gw_value_of("adam"), "\"rule\" is adam, not sgd" },
        { "rule", none, "\"rule\" is missing" },
        { "steps", gw_value_of(-1), "\"steps\" must be a count, but is -1" },
        { "group.0.lr", none, "\"group.0.lr\" is missing" },
        { "group.0.lr", gw_value_of("fast"), "\"group.0.lr\" must be a number, but is string" },
        { "group.0.lr", gw_value_of(-0.5), "\"group.0.lr\" is -0.5" },
        { "0.step", none, "\"0.step\" is missing" },
        { "1.momentum_buffer", none, "\"1.momentum_buffer\" is missing" },
        { "0.momentum_buffer", gw_value_of(3), "\"0.momentum_buffer\" must be a dense tensor" },
        { "0.momentum_buffer", gw_value_of(small),
          "\"0.momentum_buffer\" has f64 2, but its parameter has f64 2x3" },
        { "0.momentum_buffer", gw_value_of(narrow), "has f32 2x3, but its parameter has f64 2x3" },
        { "2.step", gw_value_of(1), "\"2.step\" is unknown" },
        { "0.exp_avg", gw_value_of(small), "\"0.exp_avg\" is unknown" },
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        gw_optimizer_load_state_dict(s, m.opt, altered(s, good, bad[i].key, bad[i].v));
        const gw_error *e = gw_scope_error(s);
        assert_int_equal(e->status, GW_INVALID);
        if (!strstr(e->text, bad[i].words))
            fail_msg("\"%s\" does not contain \"%s\"", e->text, bad[i].words);
        gw_scope_clear(s);
        assert_int_equal(gw_optimizer_steps(m.opt), 3);
    }
    gw_optimizer_load_state_dict(s, m.opt, good);
    assert_int_equal(gw_optimizer_steps(m.opt), 2);
    assert_int_equal(gw_scope_close(s).status, GW_OK);
}

static void numbers_may_be_given_as_tensors(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    model m = open_model(s, 0);
    gw_map *map = gw_optimizer_state_dict(s, m.opt);
    gw_map_put(s, map, "group.0.lr", gw_full(s, GW_F64, 0.75));
    gw_map_put(s, map, "steps", gw_full(s, GW_I64, 7));
    gw_optimizer_load_state_dict(s, m.opt, map);
    assert_float_equal(gw_optimizer_lr(m.opt), 0.75, 0);
    assert_int_equal(gw_optimizer_steps(m.opt), 7);
    assert_int_equal(gw_scope_close(s).status, GW_OK);
}

// A map that was written before there was a scheduler: as in PyTorch, whose schedulers keep their
// own base rates.
static void a_scheduler_continues_from_its_own_rate(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_list *params = gw_list_open(s);
    gw_list_add(s, params, gw_requires_grad(s, gw_ones(s, GW_F32, 2)));
    gw_optimizer *plain = gw_sgd(s, params, .lr = 0.1), *opt = gw_sgd(s, params, .lr = 0.4);
    gw_scheduler *cosine = gw_cosine_annealing_lr(s, opt, .t_max = 1);
    gw_map *map = gw_optimizer_state_dict(s, plain);
    assert_int_equal(gw_map_find(map, "group.0.initial_lr").kind, GW_NONE);
    gw_optimizer_load_state_dict(s, opt, map);
    assert_float_equal(gw_optimizer_lr(opt), 0.1, 0);
    for (int i = 0; i < 2; i++) gw_scheduler_step(s, cosine);  // down, and up to its own
    assert_float_equal(gw_optimizer_lr(opt), 0.4, 1e-12);
    gw_map_put(s, map, "group.0.initial_lr", 0.2);
    gw_optimizer_load_state_dict(s, opt, map);
    for (int i = 0; i < 2; i++) gw_scheduler_step(s, cosine);
    assert_float_equal(gw_optimizer_lr(opt), 0.2, 1e-12);
    const double wrong[] = { -1, NAN, INFINITY };
    for (int i = 0; i < 3; i++) {
        gw_map_put(s, map, "group.0.initial_lr", wrong[i]);
        gw_optimizer_load_state_dict(s, opt, map);
        assert_non_null(strstr(gw_scope_error(s)->text, "\"group.0.initial_lr\" is "));
        gw_scope_clear(s);
    }
    gw_cosine_annealing_lr(s, plain, .t_max = 1);  // one that has none begins with its present one
    assert_float_equal(
        gw_float_of(s, gw_map_get(s, gw_optimizer_state_dict(s, plain), "group.0.initial_lr")), 0.1,
        0);
    assert_int_equal(gw_scope_close(s).status, GW_OK);
}

static void a_scheduler_takes_only_its_own_kind(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    model m = open_model(s, 0);
    gw_scheduler *plateau = gw_reduce_lr_on_plateau(s, m.opt, .patience = 0);
    gw_plateau_step(s, plateau, 3);
    gw_map *map = gw_scheduler_state_dict(s, plateau);
    gw_scheduler_load_state_dict(s, plateau, map);
    assert_true(gw_ok(s));
    gw_scheduler_load_state_dict(s, plateau, altered(s, map, "best", gw_none()));
    assert_non_null(
        strstr(gw_scope_error(s)->text, "gw_scheduler_load_state_dict: \"best\" is missing"));
    gw_scope_clear(s);
    gw_scheduler_load_state_dict(s, m.schedule, map);
    assert_non_null(strstr(gw_scope_error(s)->text, "is reduce_lr_on_plateau, not linear_lr"));
    gw_scope_clear(s);
    double before = gw_optimizer_lr(m.opt);
    gw_plateau_step(s, plateau, 4);  // worse than the 3 in its state
    assert_float_equal(gw_optimizer_lr(m.opt), before * 0.1, 1e-12);
    assert_int_equal(gw_scope_close(s).status, GW_OK);
}

static void save_and_load(void *context) {
    (void)context;
    gw_scope *s = gw_scope_open(NULL);
    model m = open_model(s, 1);
    train(s, m, 1);
    gw_optimizer_load_state_dict(s, m.opt, gw_optimizer_state_dict(s, m.opt));
    gw_scheduler_load_state_dict(s, m.schedule, gw_scheduler_state_dict(s, m.schedule));
    train(s, m, 1);
    gw_error e = gw_scope_close(s);
    (void)e;
}

static void it_survives_any_failing_allocation(void **state) {
    (void)state;
    testing_alloc_failure_loop(save_and_load, NULL);
}

GW_TESTS(optim_state, a_loaded_optimizer_continues_as_the_saved_one, names_are_those_of_pytorch,
         mismatched_state_changes_nothing, numbers_may_be_given_as_tensors,
         a_scheduler_takes_only_its_own_kind, a_scheduler_continues_from_its_own_rate,
         it_survives_any_failing_allocation);
