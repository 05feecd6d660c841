// Each rule gives the parameters of twenty steps that PyTorch recorded.
#include "testing/recording.h"
#include "testing/testing.h"

#include "optim/optimizer.h"
#include <gradwire/ops.h>

#include <stdio.h>
#include <string.h>

enum { PARAMETERS = 4 };

static optimizer_group default_options(const rule *r) {
    optimizer_group g = { 0 };
#define RULE(rule)                                                                                 \
    if (strcmp(r->name, #rule) == 0) g.options.rule = GW_OPTIONS(gw_##rule##_options)
    RULE(sgd);
    RULE(adam);
    RULE(adamw);
    RULE(adamax);
    RULE(adagrad);
    RULE(adadelta);
    RULE(rmsprop);
    RULE(rprop);
#undef RULE
    return g;
}

static gw_optimizer *open_optimizer(gw_scope *s, const rule *r, gw_list *params,
                                    const optimizer_group *g) {
#define RULE(rule)                                                                                 \
    if (strcmp(r->name, #rule) == 0) return gw_##rule##_with(s, params, g->options.rule)
    RULE(sgd);
    RULE(adam);
    RULE(adamw);
    RULE(adamax);
    RULE(adagrad);
    RULE(adadelta);
    RULE(rmsprop);
    RULE(rprop);
#undef RULE
    fail_msg("no rule %s", r->name);
    return NULL;
}

static void read_option(recording *r, const rule *rule, optimizer_group *g) {
    const char *name = recording_word(r);
    const option *o = rule_option(rule, name);
    if (!o) fail_msg("no option %s of %s", name, rule->name);
    option_set(o, g, recording_number(r));
}

static gw_tensor *loss_of(gw_scope *s, gw_tensor *const p[PARAMETERS], gw_tensor *x, gw_tensor *y) {
    gw_tensor *h = gw_tanh(s, gw_linear(s, x, p[0], p[1]));
    return gw_mse(s, gw_linear(s, h, p[2], p[3]), y);
}

static void compare(gw_scope *s, recording *r, gw_tensor *const p[PARAMETERS], const char *what) {
    for (int i = 0; i < PARAMETERS; i++) {
        assert_true(recording_takes(r, "param"));
        gw_tensor *expected = recording_tensor(s, r);
        recording_compare(what, p[i], expected, gw_dtype_of(expected) == GW_F32 ? 1e-6 : 1e-12, 0);
    }
}

static void run_case(recording *r, int number) {
    gw_scope *root = gw_scope_open(NULL);
    const char *name = recording_word(r);
    const rule *rule = rule_find(name);
    assert_non_null(rule);
    char what[64];
    snprintf(what, sizeof what, "case %d, gw_%s", number, name);
    testing_note("%s", what);

    optimizer_group g = default_options(rule);
    while (recording_takes(r, "option")) read_option(r, rule, &g);
    assert_true(recording_takes(r, "x"));
    gw_tensor *x = recording_tensor(root, r);
    assert_true(recording_takes(r, "y"));
    gw_tensor *y = recording_tensor(root, r), *p[PARAMETERS];
    gw_list *params = gw_list_open(root);
    for (int i = 0; i < PARAMETERS; i++) {
        assert_true(recording_takes(r, "param"));
        p[i] = gw_requires_grad(root, recording_tensor(root, r));
        gw_list_add(root, params, p[i]);
    }

    gw_optimizer *opt = open_optimizer(root, rule, params, &g);
    int step = 0;
    while (recording_takes(r, "step")) {
        for (int until = (int)recording_number(r); step < until; step++) {
            gw_scope *s = gw_scope_open(root);
            gw_backward(s, loss_of(s, p, x, y));
            gw_optimizer_step(s, opt);
            gw_scope_close_up(s);
        }
        if (!gw_ok(root)) fail_msg("%s: %s", what, gw_scope_error(root)->text);
        compare(root, r, p, what);
    }
    assert_int_equal(gw_optimizer_steps(opt), 20);
    assert_true(recording_takes(r, "end"));
    assert_int_equal(gw_scope_close(root).status, GW_OK);
}

static void rules_step_as_in_pytorch(void **state) {
    (void)state;
    recording r = recording_open(RECORDINGS "optimizers.txt");
    int number = 0;
    while (recording_takes(&r, "case")) run_case(&r, ++number);
    assert_null(recording_word(&r));
    assert_true(number >= 68);
    recording_close(&r);
}

GW_TESTS(optim_update, rules_step_as_in_pytorch);
