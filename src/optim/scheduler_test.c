#include "testing/testing.h"

#include <gradwire/ops.h>
#include <gradwire/optim.h>

#include <string.h>

static gw_list *one_parameter(gw_scope *s) {
    gw_list *params = gw_list_open(s);
    gw_list_add(s, params, gw_requires_grad(s, gw_ones(s, GW_F32, 1)));
    return params;
}

static gw_optimizer *open_sgd(gw_scope *s) {
    return gw_sgd(s, one_parameter(s), .lr = 0.5);
}

static void assert_fails(gw_scope *s, gw_status status, const char *words) {
    gw_error e = gw_scope_close(s);
    assert_int_equal(e.status, status);
    if (!strstr(e.text, words)) fail_msg("\"%s\" does not contain \"%s\"", e.text, words);
}

#define assert_refuses(make, words)                                                                \
    do {                                                                                           \
        gw_scope *s = gw_scope_open(NULL);                                                         \
        gw_optimizer *opt = open_sgd(s);                                                           \
        gw_scheduler_step(s, make);                                                                \
        assert_float_equal(gw_optimizer_lr(opt), 0.5, 0);                                          \
        assert_fails(s, GW_INVALID, words);                                                        \
    } while (0)

static void options_out_of_range_are_refused(void **state) {
    (void)state;
    assert_refuses(gw_step_lr(s, opt), "gw_step_lr: step_size is 0");
    assert_refuses(gw_multi_step_lr(s, opt, .milestone_count = 3),
                   "gw_multi_step_lr: 3 milestones");
    assert_refuses(gw_exponential_lr(s, opt), "gamma is 0");
    assert_refuses(gw_cosine_annealing_lr(s, opt), "t_max is 0");
    assert_refuses(gw_linear_lr(s, opt, .start_factor = 2), "gw_linear_lr: start_factor is 2");
    assert_refuses(gw_linear_lr(s, opt, .start_factor = 0), "start_factor is 0");
    assert_refuses(gw_one_cycle_lr(s, opt, .max_lr = 1), "gw_one_cycle_lr: total_steps is 0");
    assert_refuses(gw_reduce_lr_on_plateau(s, opt, .factor = 1),
                   "gw_reduce_lr_on_plateau: factor is 1");
}

static void a_cycle_needs_momentum_to_cycle(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_optimizer *opt = gw_adagrad(s, one_parameter(s));
    gw_one_cycle_lr(s, opt, .max_lr = 1, .total_steps = 10, .cycle_momentum = false);
    assert_true(gw_ok(s));
    gw_one_cycle_lr(s, opt, .max_lr = 1, .total_steps = 10);
    assert_fails(s, GW_INVALID, "gw_one_cycle_lr: gw_adagrad has no momentum");
}

static void a_rate_goes_down_to_0_and_not_below(void **state) {
    (void)state;
    for (int iters = 1; iters <= 100; iters++) {
        gw_scope *s = gw_scope_open(NULL);
        gw_optimizer *opt = gw_sgd(s, one_parameter(s), .lr = 0.1);
        gw_scheduler *c =
            gw_linear_lr(s, opt, .start_factor = 1, .end_factor = 0, .total_iters = iters);
        for (int i = 0; i < iters; i++) {
            assert_true(gw_optimizer_lr(opt) > 0);
            gw_scheduler_step(s, c);
        }
        assert_float_equal(gw_optimizer_lr(opt), 0, 0);
        gw_optimizer_load_state_dict(s, opt, gw_optimizer_state_dict(s, opt));
        assert_int_equal(gw_scope_close(s).status, GW_OK);
    }
}

static void schedules_together_do_not_lead_below_0(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_optimizer *opt = open_sgd(s);
    gw_scheduler *waves = gw_cosine_annealing_lr(s, opt, .t_max = 3, .eta_min = 0.2);
    gw_scheduler *down = gw_exponential_lr(s, opt, .gamma = 0.5);
    for (int i = 0; i < 12; i++) {
        gw_scheduler_step(s, waves);
        gw_scheduler_step(s, down);
        assert_true(gw_optimizer_lr(opt) >= 0);
    }
    assert_int_equal(gw_scope_close(s).status, GW_OK);
}

static void a_cycle_ends(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_scheduler *c = gw_one_cycle_lr(s, open_sgd(s), .max_lr = 1, .total_steps = 2);
    gw_scheduler_step(s, c);
    gw_scheduler_step(s, c);
    assert_true(gw_ok(s));
    gw_scheduler_step(s, c);
    assert_fails(s, GW_WRONG_STATE, "all 2 steps of gw_one_cycle_lr are over");
}

static void momentum_that_a_cycle_adds_starts_with_the_gradient(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_list *params = one_parameter(s);
    gw_tensor *x = gw_tensor_of(s, gw_list_get(s, params, 0));
    gw_optimizer *opt = gw_sgd(s, params, .lr = 1);
    gw_backward(s, gw_sum(s, x));
    gw_optimizer_step(s, opt);  // without momentum
    gw_one_cycle_lr(s, opt, .max_lr = 25, .total_steps = 10);
    gw_optimizer_step(s, opt);
    assert_float_equal(*(const float *)gw_data(x), -1, 1e-6);
    assert_int_equal(gw_scope_close(s).status, GW_OK);
}

static void a_metric_goes_to_the_schedulers_that_need_it(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_optimizer *opt = open_sgd(s);
    gw_scheduler *plateau = gw_reduce_lr_on_plateau(s, opt);
    gw_scheduler *step = gw_step_lr(s, opt, .step_size = 1);
    gw_scheduler_step(s, plateau);
    assert_non_null(strstr(gw_scope_error(s)->text, "needs a metric: call gw_plateau_step"));
    gw_scope_clear(s);
    gw_plateau_step(s, step, 1);
    assert_fails(s, GW_INVALID, "gw_step_lr takes no metric");
}

static void it_holds_its_optimizer(void **state) {
    (void)state;
    gw_scope *root = gw_scope_open(NULL), *inner = gw_scope_open(root);
    gw_scheduler *c = gw_keep(root, gw_exponential_lr(inner, open_sgd(inner), .gamma = 1));
    gw_scope_close_up(inner);
    gw_scheduler_step(root, c);
    assert_int_equal(gw_scope_close(root).status, GW_OK);
}

static void a_group_that_is_added_later_has_its_own_rate(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_optimizer *opt = open_sgd(s);
    gw_scheduler *c = gw_cosine_annealing_lr(s, opt, .t_max = 2, .eta_min = 0.1);
    gw_optimizer_add_parameter_group(s, opt, one_parameter(s), .lr = 0.9);
    gw_scheduler_step(s, c);
    gw_scheduler_step(s, c);
    assert_float_equal(gw_optimizer_parameter_group_lr(opt, 1), 0.1, 1e-12);
    gw_scheduler_step(s, c);
    assert_float_equal(gw_optimizer_parameter_group_lr(opt, 1), 0.5, 1e-12);
    assert_int_equal(gw_scope_close(s).status, GW_OK);
}

static void an_invalid_scheduler_is_an_error(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_scheduler_step(s, NULL);
    assert_fails(s, GW_INVALID, "gw_scheduler_step: no scheduler");
    s = gw_scope_open(NULL);
    gw_plateau_step(s, NULL, 1);
    assert_fails(s, GW_INVALID, "gw_plateau_step: no scheduler");
    s = gw_scope_open(NULL);
    gw_scheduler_state_dict(s, NULL);
    assert_fails(s, GW_INVALID, "gw_scheduler_state_dict: no scheduler");
    s = gw_scope_open(NULL);
    gw_scheduler_load_state_dict(s, NULL, gw_map_open(s));
    assert_fails(s, GW_INVALID, "gw_scheduler_load_state_dict: no scheduler");
    s = gw_scope_open(NULL);
    gw_step_lr(s, NULL, .step_size = 1);
    assert_fails(s, GW_INVALID, "gw_step_lr: no optimizer");
}

GW_TESTS(optim_scheduler, an_invalid_scheduler_is_an_error, options_out_of_range_are_refused,
         a_cycle_needs_momentum_to_cycle, a_rate_goes_down_to_0_and_not_below,
         schedules_together_do_not_lead_below_0, a_cycle_ends,
         momentum_that_a_cycle_adds_starts_with_the_gradient,
         a_metric_goes_to_the_schedulers_that_need_it, it_holds_its_optimizer,
         a_group_that_is_added_later_has_its_own_rate);
