#include "testing/testing.h"

#include <gradwire/ops.h>
#include <gradwire/optim.h>

#include <string.h>

static gw_list *one_parameter(gw_scope *s) {
    gw_list *params = gw_list_open(s);
    gw_list_add(s, params, gw_requires_grad(s, gw_ones(s, GW_F32, 2)));
    return params;
}

static void assert_fails(gw_scope *s, const char *words) {
    gw_error e = gw_scope_close(s);
    assert_int_equal(e.status, GW_INVALID);
    if (!strstr(e.text, words)) fail_msg("\"%s\" does not contain \"%s\"", e.text, words);
}

#define assert_refuses(make, words)                                                                \
    do {                                                                                           \
        gw_scope *s = gw_scope_open(NULL);                                                         \
        gw_optimizer *opt = make;                                                                  \
        gw_optimizer_step(s, opt);                                                                 \
        assert_fails(s, words);                                                                    \
    } while (0)

static void options_have_pytorchs_defaults(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_list *params = one_parameter(s);
    assert_float_equal(gw_optimizer_lr(gw_sgd(s, params)), 1e-3, 0);
    assert_float_equal(gw_optimizer_lr(gw_adam(s, params)), 1e-3, 0);
    assert_float_equal(gw_optimizer_lr(gw_adamw(s, params, .lr = 0)), 0, 0);
    assert_int_equal(gw_scope_close(s).status, GW_OK);
}

static void each_rule_has_the_rate_of_pytorch(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_list *params = one_parameter(s);
    assert_float_equal(gw_optimizer_lr(gw_sparse_adam(s, params)), 1e-3, 0);
    assert_float_equal(gw_optimizer_lr(gw_adamax(s, params)), 2e-3, 0);
    assert_float_equal(gw_optimizer_lr(gw_adagrad(s, params)), 1e-2, 0);
    assert_float_equal(gw_optimizer_lr(gw_adadelta(s, params)), 1, 0);
    assert_float_equal(gw_optimizer_lr(gw_rmsprop(s, params)), 1e-2, 0);
    assert_float_equal(gw_optimizer_lr(gw_rprop(s, params)), 1e-2, 0);
    assert_int_equal(gw_scope_close(s).status, GW_OK);
}

static void options_out_of_range_are_refused(void **state) {
    (void)state;
    assert_refuses(gw_sgd(s, one_parameter(s), .lr = -0.5), "gw_sgd: lr is -0.5");
    assert_refuses(gw_sgd(s, one_parameter(s), .lr = 1.0 / 0.0), "lr is inf");
    assert_refuses(gw_sgd(s, one_parameter(s), .momentum = -2), "momentum");
    assert_refuses(gw_sgd(s, one_parameter(s), .nesterov = true), "nesterov");
    assert_refuses(gw_sgd(s, one_parameter(s), .dampening = 0.0 / 0.0), "dampening");
    assert_refuses(gw_adam(s, one_parameter(s), .beta1 = 1), "gw_adam: beta1");
    assert_refuses(gw_adamw(s, one_parameter(s), .beta2 = 1.5), "gw_adamw: beta2");
    assert_refuses(gw_adam(s, one_parameter(s), .eps = 0.0 / 0.0), "eps");
    assert_refuses(gw_adadelta(s, one_parameter(s), .rho = 1.5), "gw_adadelta: rho is above 1");
    assert_refuses(gw_rprop(s, one_parameter(s), .eta_plus = 0.9),
                   "gw_rprop: 0 < eta_minus < 1 < eta_plus");
    assert_refuses(gw_rmsprop(s, one_parameter(s), .alpha = -0.5), "gw_rmsprop: alpha is -0.5");
}

GW_TESTS(optim_rule, options_have_pytorchs_defaults, each_rule_has_the_rate_of_pytorch,
         options_out_of_range_are_refused);
