#include "testing/testing.h"

#include <gradwire/autograd.h>
#include <gradwire/nn.h>

#include <string.h>

static void assert_fails(gw_scope *s, gw_status status, const char *words) {
    gw_error e = gw_scope_close(s);
    assert_int_equal(e.status, status);
    if (!strstr(e.text, words)) fail_msg("\"%s\" does not contain \"%s\"", e.text, words);
}

// A module of a user's own: y = scale x, twice.
typedef struct twice {
    int call_count;
} twice;

static gw_tensor *forward_twice(gw_scope *s, gw_module *m, gw_tensor *x) {
    twice *t = gw_module_state(m);
    t->call_count++;
    gw_tensor *scale = gw_module_parameter_get(s, m, "scale");
    return gw_mul(s, scale, gw_mul(s, scale, x));
}

static gw_module *open_twice(gw_scope *s, twice *t) {
    gw_module *m = gw_module_open(s, "twice", forward_twice, t);
    gw_module_register_parameter(s, m, "scale", gw_full(s, GW_F32, 3.0));
    return m;
}

static void it_computes_its_forward(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    twice t = { 0 };
    gw_module *m = open_twice(s, &t);
    assert_string_equal(gw_module_name(m), "twice");
    assert_float_equal(gw_item(s, gw_module_call(s, m, gw_full(s, GW_F32, 2.0))), 18, 0);
    assert_int_equal(t.call_count, 1);
    assert_int_equal(gw_scope_close(s).status, GW_OK);
}

static void it_holds_its_parts(void **state) {
    (void)state;
    gw_scope *root = gw_scope_open(NULL), *s = gw_scope_open(root);
    twice t = { 0 };
    gw_module *outer = gw_keep(root, gw_nn_sequential(s, open_twice(s, &t), gw_nn_relu(s)));
    gw_scope_close_up(s);
    assert_float_equal(gw_item(root, gw_module_call(root, outer, gw_full(root, GW_F32, 1.0))), 9,
                       0);
    assert_int_equal(gw_scope_close(root).status, GW_OK);
}

static void it_finds_parts_of_parts(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    twice t = { 0 };
    gw_module *inner = open_twice(s, &t), *outer = gw_nn_sequential(s, gw_nn_tanh(s), inner);
    gw_module *top = gw_nn_sequential(s, outer);
    assert_ptr_equal(gw_module_child(s, top, "0.1"), inner);
    assert_ptr_equal(gw_module_child(s, top, "0"), outer);
    gw_module *none = gw_module_child(s, top, "0.1.scale");
    assert_ptr_equal(gw_module_call(s, none, gw_zeros(s, GW_F32)),
                     gw_module_call(s, none, gw_zeros(s, GW_F32)));  // poison, safe to pass on
    assert_fails(s, GW_NOT_FOUND, "sequential has no part \"0.1.scale\"");
}

static void it_trains_and_evaluates_with_all_its_parts(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_module *leaf = gw_nn_dropout(s, 0.5), *m = gw_nn_sequential(s, gw_nn_sequential(s, leaf));
    assert_true(gw_module_is_training(leaf));
    gw_module_eval(s, m);
    assert_false(gw_module_is_training(m));
    assert_false(gw_module_is_training(leaf));
    gw_module_train(s, m);
    assert_true(gw_module_is_training(leaf));
    assert_int_equal(gw_scope_close(s).status, GW_OK);
}

static void a_parameter_requires_a_gradient(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    twice t = { 0 };
    gw_module *m = open_twice(s, &t);
    assert_true(gw_needs_grad(gw_module_parameter_get(s, m, "scale")));
    gw_module_register_parameter(s, m, "result", gw_module_call(s, m, gw_ones(s, GW_F32)));
    assert_fails(s, GW_INVALID, "not a leaf");
}

static void a_buffer_is_dense(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *indices = gw_from(s, ((int64_t[]){ 0, 1 }), 2);
    gw_module *m = gw_nn_relu(s);
    gw_module_register_buffer(s, m, "b", gw_rows(s, indices, gw_zeros(s, GW_F32, 2, 4), 3));
    assert_fails(s, GW_INVALID, "relu: the buffer \"b\" is sparse by rows");
}

static void names_of_parts_are_unique(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    twice t = { 0 };
    gw_module_register_module(s, open_twice(s, &t), "scale", gw_nn_relu(s));
    assert_fails(s, GW_DUPLICATE, "twice has a part \"scale\" already");
}

static void names_of_parts_have_no_dots(void **state) {
    (void)state;
    static const char *const names[] = { "", "a.b", NULL };
    for (int i = 0; i < 3; i++) {
        gw_scope *s = gw_scope_open(NULL);
        gw_module_register_module(s, gw_nn_sequential(s, gw_nn_relu(s)), names[i], gw_nn_relu(s));
        assert_fails(s, GW_INVALID, "cannot name a part");
    }
}

static void a_module_is_no_part_of_itself(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_module *inner = gw_nn_sequential(s, gw_nn_relu(s)), *outer = gw_nn_sequential(s, inner);
    gw_module_register_module(s, inner, "loop", outer);
    assert_fails(s, GW_INVALID, "part of itself");
}

static void a_module_needs_a_name_and_a_forward(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_module_call(s, gw_module_open(s, "nothing", (gw_module_forward *)NULL, NULL), NULL);
    assert_fails(s, GW_INVALID, "needs a name and a forward");
}

static void poison_is_safe_to_use(void **state) {
    (void)state;
    gw_scope *failed = gw_scope_open(NULL);
    gw_fail(failed, GW_REMOTE, "something else");
    gw_module *m = gw_nn_sequential(failed, gw_nn_linear(failed, 2, 3), gw_nn_relu(failed));
    gw_module_eval(failed, m);
    gw_module_train(failed, m);
    gw_module_register_module(failed, m, "more", m);
    gw_module_register_parameter(failed, m, "more", gw_ones(failed, GW_F32));
    assert_int_equal(gw_list_count(gw_parameters(failed, m, m)), 0);
    assert_int_equal(gw_module_parameter_count(m), 0);
    gw_module_call(failed, m, gw_ones(failed, GW_F32, 2));
    assert_fails(failed, GW_REMOTE, "something else");
}

static void assert_refused(gw_scope *s, const char *words) {
    const gw_error *e = gw_scope_error(s);
    if (!e || e->status != GW_INVALID || !strstr(e->text, words))
        fail_msg("\"%s\" does not contain \"%s\"", e ? e->text : "ok", words);
    gw_scope_clear(s);
}

// Poison does nothing in the scope that failed; another scope fails, or the error would go
// unnoticed.
static void poison_is_refused_in_a_scope_without_error(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_fail(s, GW_REMOTE, "something else");
    gw_module *m = gw_nn_lstm(s, 2, 3);
    gw_tensor *lost = gw_ones(s, GW_F32);
    gw_scope_clear(s);
    gw_tensor *x = gw_ones(s, GW_F32, 4, 2);
    gw_module_call(s, m, x);
    assert_refused(s, "gw_module_call: the module could not be made");
    gw_nn_lstm_call(s, m, x);
    assert_refused(s, "gw_nn_lstm_call: the module could not be made");
    gw_parameters(s, m);
    assert_refused(s, "gw_parameters: the module could not be made");
    gw_module_eval(s, m);
    assert_refused(s, "gw_module_eval: the module could not be made");
    gw_module_state_dict(s, m);
    assert_refused(s, "gw_module_state_dict: the module could not be made");
    gw_nn_sequential(s, gw_nn_relu(s), m);
    assert_refused(s, "sequential: \"1\" is a module that could not be made");
    gw_module_register_parameter(s, gw_nn_relu(s), "scale", lost);
    assert_refused(s, "relu: the parameter \"scale\" is a tensor that could not be made");
    assert_int_equal(gw_scope_close(s).status, GW_OK);
}

static gw_tensor *forward_nothing(gw_scope *s, gw_module *m, gw_tensor *x) {
    (void)s, (void)x;
    return gw_module_state(m);
}

static void a_forward_gives_an_output(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL), *failed = gw_scope_open(NULL);
    gw_fail(failed, GW_REMOTE, "something else");
    gw_tensor *lost = gw_keep(s, gw_ones(failed, GW_F32)), *x = gw_ones(s, GW_F32);
    assert_int_equal(gw_scope_close(failed).status, GW_REMOTE);
    gw_module_call(s, gw_module_open(s, "idle", forward_nothing, NULL), x);
    assert_refused(s, "idle: its forward returned no output");
    gw_module_call(s, gw_module_open(s, "idle", forward_nothing, lost), x);
    assert_refused(s, "idle: the tensor was made in a scope that has failed: something else");
    gw_module_call(s, gw_nn_relu(s), lost);  // as operators do
    assert_refused(s, "relu: the tensor was made in a scope that has failed: something else");
    assert_int_equal(gw_scope_close(s).status, GW_OK);
}

static void build_a_network(void *context) {
    (void)context;
    gw_scope *s = gw_scope_open(NULL);
    twice t = { 0 };
    gw_module *m = gw_nn_sequential(s, gw_nn_linear(s, 2, 3), gw_nn_relu(s), open_twice(s, &t));
    gw_module_call(s, m, gw_ones(s, GW_F32, 2));
    gw_parameters(s, m);
    gw_module_parameter_name(s, m, 2);
    gw_error e = gw_scope_close(s);
    (void)e;
}

static void it_survives_any_failing_allocation(void **state) {
    (void)state;
    testing_alloc_failure_loop(build_a_network, NULL);
}

GW_TESTS(nn_module, a_buffer_is_dense, it_computes_its_forward, it_holds_its_parts,
         it_finds_parts_of_parts, it_trains_and_evaluates_with_all_its_parts,
         a_parameter_requires_a_gradient, names_of_parts_are_unique, names_of_parts_have_no_dots,
         a_module_is_no_part_of_itself, a_module_needs_a_name_and_a_forward, poison_is_safe_to_use,
         poison_is_refused_in_a_scope_without_error, a_forward_gives_an_output,
         it_survives_any_failing_allocation);
