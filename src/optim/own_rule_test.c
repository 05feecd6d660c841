// Rules of programs compute the same as those of the library.
#include "testing/cluster.h"
#include "testing/testing.h"

#include <gradwire.h>

#include <string.h>

static void plain_step(const gw_rule_step *u) {
    double lr = u->options[0], momentum = u->options[1];
    for (int i = 0; i < u->count; i++) {
        u->state[0][i] = u->step == 1 ? u->grad[i] : momentum * u->state[0][i] + u->grad[i];
        u->x[i] -= lr * u->state[0][i];
    }
}
GW_RULE(own_momentum, .step = plain_step, .states = { "momentum_buffer" },
        .options = { { "lr", 0.125 }, { "momentum", 0.5 } });
GW_RULE(own_without_step, .options = { { "lr", 0.1 } });
GW_RULE(own_without_rate, .step = plain_step, .options = { { "speed", 0.1 } });

GW_RULE(own_twice, .step = plain_step, .options = { { "lr", 0.1 } });
__attribute__((constructor)) static void register_again(void) {
    static gw_rule again = { .name = "own_twice", .step = plain_step };
    gw_rule_register(&again);
}

static gw_tensor *leaf(gw_scope *s, gw_dtype dtype) {
    return gw_requires_grad(s, gw_to_dtype(s, gw_arange(s, GW_F64, 0, 600, 1), dtype));
}

static gw_list *list_of(gw_scope *s, gw_tensor *x) {
    gw_list *list = gw_list_open(s);
    gw_list_add(s, list, x);
    return list;
}

static void step(gw_scope *root, gw_optimizer *opt, gw_tensor *x) {
    gw_scope *s = gw_scope_open(root);
    gw_backward(s, gw_sum(s, gw_mul(s, x, x)));
    gw_optimizer_step(s, opt);
    gw_scope_close_up(s);
}

// Powers of two: exact in f32, too.
static void a_rule_steps_as_the_librarys_does(void **state) {
    (void)state;
    const gw_dtype dtypes[] = { GW_F32, GW_F64 };
    for (int k = 0; k < 2; k++) {
        gw_scope *s = gw_scope_open(NULL);
        gw_tensor *x = leaf(s, dtypes[k]), *y = leaf(s, dtypes[k]);
        gw_optimizer *own = gw_optimizer_open(s, "own_momentum", list_of(s, x), NULL);
        gw_optimizer *sgd = gw_sgd(s, list_of(s, y), .lr = 0.125, .momentum = 0.5);
        for (int i = 0; i < 3; i++) {
            step(s, own, x);
            step(s, sgd, y);
        }
        assert_true(gw_ok(s));
        assert_memory_equal(gw_data(x), gw_data(y), 600 * gw_dtype_size(dtypes[k]));
        assert_int_equal(gw_optimizer_steps(own), 3);
        assert_int_equal(gw_scope_close(s).status, GW_OK);
    }
}

static void its_options_are_given_by_name(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_map *options = gw_map_open(s);
    gw_map_put(s, options, "lr", 0.25);
    gw_map_put(s, options, "momentum", 0);
    gw_tensor *x = leaf(s, GW_F64);
    gw_optimizer *opt = gw_optimizer_open(s, "own_momentum", list_of(s, x), options);
    gw_exponential_lr(s, opt, .gamma = 0.5);
    assert_true(gw_optimizer_lr(opt) == 0.25);
    step(s, opt, x);
    assert_true(((const double *)gw_data(x))[3] == 1.5);
    assert_int_equal(gw_scope_close(s).status, GW_OK);
}

static void a_loaded_rule_continues(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *x = leaf(s, GW_F32), *y = leaf(s, GW_F32);
    gw_optimizer *a = gw_optimizer_open(s, "own_momentum", list_of(s, x), NULL);
    gw_optimizer *b = gw_optimizer_open(s, "own_momentum", list_of(s, y), NULL);
    step(s, a, x);
    gw_map *saved = gw_optimizer_state_dict(s, a);
    assert_string_equal(gw_string_of(s, gw_map_get(s, saved, "rule")), "own_momentum");
    assert_int_equal(gw_map_get(s, saved, "0.momentum_buffer").kind, GW_TENSOR);
    gw_optimizer_load_state_dict(s, b, saved);
    gw_no_grad(s);
    gw_copy_(s, y, x);
    gw_enable_grad(s);
    step(s, a, x);
    step(s, b, y);
    assert_true(gw_ok(s));
    assert_memory_equal(gw_data(x), gw_data(y), 600 * sizeof(float));
    assert_int_equal(gw_scope_close(s).status, GW_OK);
}

static void assert_refused(const char *rule, const char *option, const char *words) {
    gw_scope *s = gw_scope_open(NULL);
    gw_map *options = gw_map_open(s);
    if (option) gw_map_put(s, options, option, -1);
    gw_optimizer_open(s, rule, list_of(s, leaf(s, GW_F32)), options);
    gw_error e = gw_scope_close(s);
    assert_int_equal(e.status, GW_INVALID);
    if (!strstr(e.text, words)) fail_msg("\"%s\" does not contain \"%s\"", e.text, words);
}

static void mistakes_are_reported(void **state) {
    (void)state;
    assert_refused("no_such", NULL, "no rule is registered as \"no_such\"");
    assert_refused(NULL, NULL, "no rule is registered as \"\"");
    assert_refused("adam", NULL, "this rule is the library's: call gw_adam instead");
    assert_refused("own_without_step", NULL, "the rule own_without_step: it has no step");
    assert_refused("own_without_rate", NULL, "its first option is not lr");
    assert_refused("own_twice", NULL, "the rule own_twice: it is registered twice");
    assert_refused("own_momentum", "beta1", "gw_own_momentum has no option \"beta1\"");
    assert_refused("own_momentun", NULL, "\"own_momentun\"; did you mean \"own_momentum\"?");
    assert_refused("own_momentum", "momentun", "\"momentun\"; did you mean \"momentum\"?");
    assert_refused("own_momentum", "lr", "gw_own_momentum: lr is -1");
}

// ---- Other workers ------------------------------------------------------------------------------
typedef struct own_rule_box {
    gw_tensor *x;
} own_rule_box;
GW_CLASS(own_rule_box, own_rule_box_open);
static void own_rule_box_open(gw_scope *own, own_rule_box *self, const gw_args *a) {
    (void)a;
    self->x = leaf(own, GW_F32);
}
GW_METHOD(own_rule_box, parameter, GW_POOL) {
    return gw_value_of(gw_rref_open(s, self->x));
}
GW_METHOD(own_rule_box, square, GW_POOL) {
    return gw_value_of(gw_sum(s, gw_mul(s, self->x, self->x)));
}
GW_METHOD(own_rule_box, numbers, GW_POOL) {
    return gw_value_of(gw_detach(s, self->x));
}

static void step_remote(gw_scope *s, int rank, void *context) {
    (void)context;
    if (rank != 0) return;
    gw_rref *box = gw_remote(s, 1, "own_rule_box");
    gw_list *params = gw_list_open(s);
    gw_list_add(s, params, gw_rpc_sync(s, box, "parameter"));
    gw_tensor *x = leaf(s, GW_F32);
    gw_optimizer *there = gw_optimizer_open(s, "own_momentum", params, NULL);
    gw_optimizer *here = gw_optimizer_open(s, "own_momentum", list_of(s, x), NULL);
    for (int i = 0; i < 3; i++) {
        gw_scope *t = gw_scope_open(s);
        gw_backward(t, gw_tensor_of(t, gw_rpc_sync(t, box, "square")));
        gw_optimizer_step(t, there);
        gw_scope_close_up(t);
        step(s, here, x);
    }
    gw_tensor *y = gw_tensor_of(s, gw_rpc_sync(s, box, "numbers"));
    if (!gw_ok(s)) fail_msg("%s", gw_scope_error(s)->text);
    assert_memory_equal(gw_data(x), gw_data(y), 600 * sizeof(float));
}

static void owners_step_by_it(void **state) {
    (void)state;
    cluster_run(1, (cluster_options){ .world_size = 2 }, step_remote, NULL);
}

GW_TESTS(optim_own_rule, a_rule_steps_as_the_librarys_does, its_options_are_given_by_name,
         a_loaded_rule_continues, mistakes_are_reported, owners_step_by_it);
