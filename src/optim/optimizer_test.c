#include "testing/testing.h"

#include <gradwire/ops.h>
#include <gradwire/optim.h>

#include <math.h>
#include <string.h>

static void assert_refuses(gw_scope *s, gw_list *params, const char *words) {
    gw_optimizer *opt = gw_sgd(s, params);
    gw_optimizer_step(s, opt);  // safe to pass on
    gw_error e = gw_scope_close(s);
    assert_int_equal(e.status, GW_INVALID);
    if (!strstr(e.text, words)) fail_msg("\"%s\" does not contain \"%s\"", e.text, words);
}

static void parameters_are_required(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    assert_refuses(s, gw_list_open(s), "gw_sgd: no parameters");
}

static void parameters_must_be_tensors(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_list *params = gw_list_open(s);
    gw_list_add(s, params, 3);
    assert_refuses(s, params, "parameter 0 is no tensor");
}

static void parameters_must_be_leaves(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_list *params = gw_list_open(s);
    gw_tensor *x = gw_requires_grad(s, gw_ones(s, GW_F32, 2));
    gw_list_add(s, params, x);
    gw_list_add(s, params, gw_mul(s, x, 2.0));
    assert_refuses(s, params, "parameter 1 is not a leaf");
}

static void each_parameter_must_be_listed_once(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_list *params = gw_list_open(s);
    gw_tensor *x = gw_requires_grad(s, gw_ones(s, GW_F32, 2));
    gw_list_add(s, params, x);
    gw_list_add(s, params, x);
    assert_refuses(s, params, "parameter 1 is listed twice");
}

static void parameters_must_be_contiguous_floats(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_list *params = gw_list_open(s);
    gw_list_add(s, params, gw_transpose(s, gw_ones(s, GW_F32, 2, 3), 0, 1));
    assert_refuses(s, params, "not contiguous");
    s = gw_scope_open(NULL);
    params = gw_list_open(s);
    gw_list_add(s, params, gw_ones(s, GW_I64, 2));
    assert_refuses(s, params, "dtype");
}

static void it_holds_its_parameters(void **state) {
    (void)state;
    gw_scope *root = gw_scope_open(NULL), *inner = gw_scope_open(root);
    gw_list *params = gw_list_open(inner);
    gw_tensor *x = gw_requires_grad(inner, gw_ones(inner, GW_F32, 2));
    gw_list_add(inner, params, x);
    gw_optimizer *opt = gw_keep(root, gw_adam(inner, params));
    gw_scope_close_up(inner);
    gw_scope *s = gw_scope_open(root);
    gw_backward(s, gw_sum(s, gw_mul(s, x, x)));  // |x| lives because |opt| does
    gw_optimizer_step(s, opt);
    gw_scope_close_up(s);
    assert_float_equal(((const float *)gw_data(x))[0], 0.999, 1e-6);
    assert_int_equal(gw_scope_close(root).status, GW_OK);
}

static void parameters_must_require_a_gradient(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_list *params = gw_list_open(s);
    gw_list_add(s, params, gw_ones(s, GW_F32, 2));
    assert_refuses(s, params, "parameter 0 does not require a gradient");
}

// ---- Groups -------------------------------------------------------------------------------------
static gw_tensor *leaf(gw_scope *s) {
    return gw_requires_grad(s, gw_ones(s, GW_F64, 2));
}

static gw_list *list_of(gw_scope *s, gw_tensor *x) {
    gw_list *list = gw_list_open(s);
    gw_list_add(s, list, x);
    return list;
}

static double first_of(const gw_tensor *x) {
    return *(const double *)gw_data(x);
}

static void groups_have_options_of_their_own(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *a = leaf(s), *b = leaf(s), *c = leaf(s);
    gw_optimizer *opt = gw_sgd(s, list_of(s, a), .lr = 0.5, .weight_decay = 0.25);
    gw_optimizer_add_parameter_group(s, opt, list_of(s, b), .lr = 0.125);
    gw_optimizer_add_parameter_group(s, opt, list_of(s, c), .weight_decay = 0);
    assert_int_equal(gw_optimizer_parameter_group_count(opt), 3);
    assert_float_equal(gw_optimizer_parameter_group_lr(opt, 1), 0.125, 0);
    assert_float_equal(gw_optimizer_parameter_group_lr(opt, 2), 0.5, 0);
    assert_true(isnan(gw_optimizer_parameter_group_lr(opt, 3)));
    gw_backward(s, gw_sum(s, gw_add(s, a, gw_add(s, b, c))));
    gw_optimizer_step(s, opt);
    assert_float_equal(first_of(a), 1 - 0.5 * 1.25, 0);
    assert_float_equal(first_of(b), 1 - 0.125 * 1.25, 0);
    assert_float_equal(first_of(c), 1 - 0.5, 0);
    gw_optimizer_set_parameter_group_lr(s, opt, 1, 0);
    assert_float_equal(gw_optimizer_parameter_group_lr(opt, 1), 0, 0);
    gw_optimizer_set_lr(s, opt, 2);
    assert_float_equal(gw_optimizer_parameter_group_lr(opt, 1), 2, 0);
    gw_optimizer_set_parameter_group_lr(s, opt, 7, 1);
    assert_int_equal(gw_scope_close(s).status, GW_INVALID);
}

static void assert_group_refused(gw_scope *s, gw_optimizer *opt, const char *words) {
    assert_non_null(strstr(gw_scope_error(s)->text, words));
    gw_scope_clear(s);
    assert_int_equal(gw_optimizer_parameter_group_count(opt), 1);
}

static void a_group_that_is_refused_changes_nothing(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *a = leaf(s), *b = leaf(s);
    gw_optimizer *opt = gw_sgd(s, list_of(s, a), .lr = 0.5);
    gw_optimizer_add_parameter_group(s, opt, list_of(s, b), .beta1 = 0.5);
    assert_group_refused(s, opt, "gw_optimizer_add_parameter_group: gw_sgd has no beta1");
    gw_optimizer_add_parameter_group(s, opt, list_of(s, b), .lr = NAN);
    assert_group_refused(s, opt, "gw_sgd: lr is nan");
    gw_optimizer_add_parameter_group(s, opt, list_of(s, b), .momentum = -3);
    assert_group_refused(s, opt, "gw_sgd: momentum is -3");
    gw_list *both = list_of(s, b);
    gw_list_add(s, both, a);
    gw_optimizer_add_parameter_group(s, opt, both);
    assert_group_refused(s, opt, "gw_sgd: parameter 2 is listed twice");
    gw_optimizer_add_parameter_group(s, opt, gw_list_open(s));
    assert_group_refused(s, opt, "gw_sgd: no parameters");
    gw_backward(s, gw_sum(s, gw_add(s, a, b)));
    gw_optimizer_step(s, opt);
    assert_float_equal(first_of(a), 0.5, 0);
    assert_float_equal(first_of(b), 1, 0);
    assert_int_equal(gw_scope_close(s).status, GW_OK);
}

static void assert_missed(gw_scope *s, const char *text) {
    assert_int_equal(gw_scope_error(s)->status, GW_INVALID);
    assert_string_equal(gw_scope_error(s)->text, text);
    gw_scope_clear(s);
}

static void an_invalid_optimizer_is_an_error(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_optimizer_step(s, NULL);
    assert_missed(s, "gw_optimizer_step: no optimizer");
    gw_optimizer_add_parameter_group(s, NULL, NULL);
    assert_missed(s, "gw_optimizer_add_parameter_group: no optimizer");
    gw_optimizer_set_lr(s, NULL, 1);
    assert_missed(s, "gw_optimizer_set_lr: no optimizer");
    gw_optimizer_set_parameter_group_lr(s, NULL, 0, 1);
    assert_missed(s, "gw_optimizer_set_parameter_group_lr: no optimizer");
    gw_optimizer_state_dict(s, NULL);
    assert_missed(s, "gw_optimizer_state_dict: no optimizer");
    gw_optimizer_load_state_dict(s, NULL, gw_map_open(s));
    assert_missed(s, "gw_optimizer_load_state_dict: no optimizer");
    assert_int_equal(gw_optimizer_steps(NULL) + gw_optimizer_parameter_group_count(NULL), 0);
    assert_true(isnan(gw_optimizer_lr(NULL)));
    assert_int_equal(gw_scope_close(s).status, GW_OK);
}

static void an_optimizer_that_was_not_made_is_an_error(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_fail(s, GW_REMOTE, "something else");
    gw_optimizer *opt = gw_sgd(s, gw_list_open(s));
    gw_scheduler *schedule = gw_step_lr(s, opt, .step_size = 1);
    gw_scope_clear(s);
    gw_optimizer_step(s, opt);
    assert_missed(s, "gw_optimizer_step: the optimizer could not be made");
    gw_optimizer_add_parameter_group(s, opt, gw_list_open(s));
    assert_missed(s, "gw_optimizer_add_parameter_group: the optimizer could not be made");
    gw_optimizer_set_lr(s, opt, 1);
    assert_missed(s, "gw_optimizer_set_lr: the optimizer could not be made");
    gw_optimizer_load_state_dict(s, opt, gw_map_open(s));
    assert_missed(s, "gw_optimizer_load_state_dict: the optimizer could not be made");
    gw_step_lr(s, opt, .step_size = 1);
    assert_missed(s, "gw_step_lr: the optimizer could not be made");
    gw_scheduler_step(s, schedule);
    assert_missed(s, "gw_scheduler_step: the scheduler could not be made");
    assert_int_equal(gw_scope_close(s).status, GW_OK);
}

static void a_rate_is_finite(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_list *params = gw_list_open(s);
    gw_list_add(s, params, gw_requires_grad(s, gw_ones(s, GW_F32, 1)));
    gw_optimizer *opt = gw_sgd(s, params, .lr = 0.5);
    gw_optimizer_set_lr(s, opt, INFINITY);
    assert_missed(
        s, "gw_optimizer_set_lr: the learning rate is inf, but must be finite and 0 or more");
    assert_float_equal(gw_optimizer_lr(opt), 0.5, 0);
    assert_int_equal(gw_scope_close(s).status, GW_OK);
}

GW_TESTS(optim_optimizer, an_invalid_optimizer_is_an_error,
         an_optimizer_that_was_not_made_is_an_error, a_rate_is_finite,
         parameters_must_require_a_gradient, groups_have_options_of_their_own,
         a_group_that_is_refused_changes_nothing, parameters_are_required,
         parameters_must_be_tensors, parameters_must_be_leaves, each_parameter_must_be_listed_once,
         parameters_must_be_contiguous_floats, it_holds_its_parameters);
