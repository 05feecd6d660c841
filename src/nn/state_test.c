#include "testing/testing.h"

#include <gradwire/autograd.h>
#include <gradwire/nn.h>
#include <gradwire/optim.h>

#include <string.h>

static gw_tensor *forward_same(gw_scope *s, gw_module *m, gw_tensor *x) {
    (void)s, (void)m;
    return x;
}

// Parameters, buffers, and one parameter with two names.
static gw_module *network(gw_scope *s) {
    gw_module *counter = gw_module_open(s, "counter", forward_same, NULL);
    gw_module_register_buffer(s, counter, "count", gw_zeros(s, GW_I64));
    gw_module *m = gw_nn_sequential(s, gw_nn_linear(s, 4, 3), counter, gw_nn_linear(s, 3, 2));
    gw_module_register_parameter(s, m, "shared", gw_module_parameter_get(s, m, "0.bias"));
    return m;
}

static bool is_same(gw_scope *s, gw_tensor *a, gw_tensor *b) {
    return strcmp(gw_to_text(s, a), gw_to_text(s, b)) == 0;
}

static void assert_same_state(gw_scope *s, gw_module *a, gw_module *b) {
    gw_map *x = gw_module_state_dict(s, a), *y = gw_module_state_dict(s, b);
    assert_int_equal(gw_map_count(x), gw_map_count(y));
    for (int i = 0; i < gw_map_count(x); i++) {
        const char *name = gw_map_key(s, x, i);
        assert_true(is_same(s, gw_tensor_of(s, gw_map_get(s, x, name)),
                            gw_tensor_of(s, gw_map_get(s, y, name))));
    }
}

// A state of its own memory.
static gw_map *copy_of(gw_scope *s, gw_module *m) {
    gw_map *out = gw_map_open(s), *state = gw_module_state_dict(s, m);
    for (int i = 0; i < gw_map_count(state); i++) {
        const char *name = gw_map_key(s, state, i);
        gw_map_put(s, out, name, gw_clone(s, gw_tensor_of(s, gw_map_get(s, state, name))));
    }
    return out;
}

// ---- state_dict ---------------------------------------------------------------------------------
static void it_has_each_value_under_its_name(void **state) {
    (void)state;
    static const char *const names[] = { "shared",  "0.weight", "0.bias",
                                         "1.count", "2.weight", "2.bias" };
    gw_scope *s = gw_scope_open(NULL);
    gw_module *m = network(s);
    gw_map *x = gw_module_state_dict(s, m);
    assert_int_equal(gw_map_count(x), 6);
    for (int i = 0; i < 6; i++) assert_string_equal(gw_map_key(s, x, i), names[i]);
    gw_tensor *weight = gw_tensor_of(s, gw_map_get(s, x, "0.weight"));
    assert_ptr_equal(gw_data(weight), gw_data(gw_module_parameter_get(s, m, "0.weight")));
    assert_false(gw_needs_grad(weight));
    assert_int_equal(gw_scope_close(s).status, GW_OK);
}

static void named_parameters_are_the_parameters(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_module *m = network(s);
    gw_map *x = gw_module_named_parameters(s, m);
    assert_int_equal(gw_map_count(x), 5);
    for (int i = 0; i < 5; i++) {
        const char *name = gw_map_key(s, x, i);
        assert_string_equal(name, gw_module_parameter_name(s, m, i));
        assert_ptr_equal(gw_tensor_of(s, gw_map_get(s, x, name)), gw_module_parameter_at(s, m, i));
    }
    assert_int_equal(gw_scope_close(s).status, GW_OK);
}

// ---- load ---------------------------------------------------------------------------------------
static void a_loaded_module_is_like_the_other(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_module *a = network(s), *b = network(s);
    gw_no_grad(s);
    gw_copy_(s, gw_module_buffer_get(s, a, "1.count"), gw_full(s, GW_I64, 7));
    const gw_tensor *weight = gw_module_parameter_get(s, b, "0.weight");
    gw_module_load_state_dict(s, b, gw_module_state_dict(s, a));
    assert_same_state(s, a, b);
    assert_int_equal(gw_item_int(s, gw_module_buffer_get(s, b, "1.count")), 7);
    // They are the same leaves as before, with memory of their own.
    assert_ptr_equal(gw_module_parameter_get(s, b, "0.weight"), weight);
    assert_true(gw_needs_grad(weight));
    assert_ptr_not_equal(gw_data(weight), gw_data(gw_module_parameter_get(s, a, "0.weight")));
    assert_int_equal(gw_scope_close(s).status, GW_OK);
}

static void tensors_saved_for_backward_are_unchanged(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_module *m = gw_nn_linear(s, 1, 1, .bias = false);
    gw_tensor *x = gw_requires_grad(s, gw_ones(s, GW_F32, 1, 1));
    double before = gw_item(s, gw_module_parameter_get(s, m, "weight"));
    gw_tensor *y = gw_module_call(s, m, x);
    gw_map *other = gw_map_open(s);
    gw_map_put(s, other, "weight", gw_full(s, GW_F32, 5.0, 1, 1));
    gw_module_load_state_dict(s, m, other);
    gw_backward(s, y);
    assert_float_equal(gw_item(s, gw_grad(s, x)), before, 0);
    assert_float_equal(gw_item(s, gw_module_parameter_get(s, m, "weight")), 5, 0);
    assert_int_equal(gw_scope_close(s).status, GW_OK);
}

static void values_may_be_views_of_the_module_itself(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_module *m = gw_module_open(s, "pair", forward_same, NULL);
    gw_module_register_parameter(s, m, "a", gw_from(s, ((float[]){ 1, 2, 3, 4 }), 2, 2));
    gw_module_register_parameter(s, m, "b", gw_from(s, ((float[]){ 5, 6, 7, 8 }), 2, 2));
    gw_map *own = gw_module_state_dict(s, m), *swapped = gw_map_open(s);
    gw_module_load_state_dict(s, m, own);
    gw_map_put(s, swapped, "a", gw_tensor_of(s, gw_map_get(s, own, "b")));
    gw_map_put(s, swapped, "b", gw_transpose(s, gw_tensor_of(s, gw_map_get(s, own, "a")), 0, 1));
    gw_module_load_state_dict(s, m, swapped);
    assert_string_equal(gw_to_text(s, gw_detach(s, gw_module_parameter_get(s, m, "a"))),
                        gw_to_text(s, gw_from(s, ((float[]){ 5, 6, 7, 8 }), 2, 2)));
    assert_string_equal(gw_to_text(s, gw_detach(s, gw_module_parameter_get(s, m, "b"))),
                        gw_to_text(s, gw_from(s, ((float[]){ 1, 3, 2, 4 }), 2, 2)));
    assert_int_equal(gw_scope_close(s).status, GW_OK);
}

static void a_parameter_may_be_a_view(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *base = gw_zeros(s, GW_F32, 2, 2);
    gw_module *m = gw_module_open(s, "view", forward_same, NULL);
    gw_module_register_parameter(s, m, "column", gw_select(s, base, 1, 1));
    gw_map *values = gw_map_open(s);
    gw_map_put(s, values, "column", gw_from(s, ((float[]){ 3, 4 }), 2));
    gw_module_load_state_dict(s, m, values);
    assert_string_equal(gw_to_text(s, base),
                        gw_to_text(s, gw_from(s, ((float[]){ 0, 3, 0, 4 }), 2, 2)));
    assert_int_equal(gw_scope_close(s).status, GW_OK);
}

// ---- Mismatches --------------------------------------------------------------------------
static void lack(gw_scope *s, gw_map *state) {
    (void)s, (void)state;
}
static void lack_and_have(gw_scope *s, gw_map *state) {
    gw_map_put(s, state, "2.bias", gw_zeros(s, GW_F32, 2));
    gw_map_put(s, state, "3.bias", gw_zeros(s, GW_F32, 2));
}
static void have_another_shape(gw_scope *s, gw_map *state) {
    gw_map_put(s, state, "0.weight", gw_zeros(s, GW_F32, 4, 3));
    gw_map_put(s, state, "2.bias", gw_zeros(s, GW_F32, 2));
}
static void have_another_dtype(gw_scope *s, gw_map *state) {
    gw_map_put(s, state, "1.count", gw_zeros(s, GW_F32));
    gw_map_put(s, state, "2.bias", gw_zeros(s, GW_F32, 2));
}
static void have_rows(gw_scope *s, gw_map *state) {
    gw_tensor *indices = gw_from(s, ((int64_t[]){ 0, 1 }), 2);
    gw_map_put(s, state, "0.weight", gw_rows(s, indices, gw_zeros(s, GW_F32, 2, 4), 3));
    gw_map_put(s, state, "2.bias", gw_zeros(s, GW_F32, 2));
}
static void have_a_failed_one(gw_scope *s, gw_map *state) {
    gw_scope *t = gw_scope_open(NULL);
    gw_fail(t, GW_REMOTE, "it was lost");
    gw_map_put(s, state, "2.bias", gw_zeros(t, GW_F32, 2));
    assert_int_equal(gw_scope_close(t).status, GW_REMOTE);
}
static void have_no_tensor(gw_scope *s, gw_map *state) {
    gw_map_put(s, state, "2.bias", 5);
}
static void have_everything_wrong(gw_scope *s, gw_map *state) {
    have_another_shape(s, state);
    gw_map_put(s, state, "2.bias", gw_none());
    gw_map_put(s, state, "extra", 1);
}
static void have_many(gw_scope *s, gw_map *state) {
    gw_map_put(s, state, "2.bias", gw_zeros(s, GW_F32, 2));
    for (int i = 0; i < 9; i++) gw_map_put(s, state, gw_format(s, "x%d", i), 1);
}

typedef struct misfit {
    void (*change)(gw_scope *s, gw_map *state);
    const char *words;
} misfit;

static const misfit misfits[] = {
    { lack, "sequential: the state lacks \"2.bias\"; nothing has changed" },
    { have_another_shape, "does not fit: \"0.weight\" is f32 4x3, not f32 3x4; nothing" },
    { have_another_dtype, "\"1.count\" is f32 scalar, not i64 scalar" },
    { have_rows, "\"0.weight\" is f32 3x4 sparse by rows, not f32 3x4; nothing" },
    { have_a_failed_one, "2.bias: the tensor was made in a scope that has failed" },
    { have_no_tensor, "\"2.bias\" is of kind int, not a tensor" },
    { lack_and_have, "state has \"3.bias\", which the module does not have; nothing has changed" },
    { have_everything_wrong, "lacks \"2.bias\"; it has \"extra\", which the module does not have; "
                             "\"0.weight\" is f32 4x3, not f32 3x4" },
    { have_many, "has \"x0\", \"x1\", \"x2\" and 6 more, which" },
};

// All but the last value, then |change|.
static gw_map *changed(gw_scope *s, gw_module *m, const misfit *how) {
    gw_map *state = copy_of(s, m), *out = gw_map_open(s);
    for (int i = 0; i < gw_map_count(state) - 1; i++) {
        const char *name = gw_map_key(s, state, i);
        gw_map_put(s, out, name, gw_map_get(s, state, name));
    }
    how->change(s, out);
    return out;
}

static void mismatched_state_changes_nothing(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof misfits / sizeof *misfits; i++) {
        gw_scope *s = gw_scope_open(NULL);
        gw_module *m = network(s), *like = network(s);
        gw_module_load_state_dict(s, like, copy_of(s, m));
        gw_module_load_state_dict(s, m, changed(s, network(s), &misfits[i]));
        const gw_error *e = gw_scope_error(s);
        assert_int_equal(e->status, GW_INVALID);
        if (!strstr(e->text, misfits[i].words)) fail_msg("%s", e->text);
        gw_scope_clear(s);
        assert_same_state(s, m, like);
        assert_int_equal(gw_scope_close(s).status, GW_OK);
    }
}

static void part_of_it_may_be_loaded_without_strict(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_module *m = network(s);
    gw_map *x = gw_map_open(s);
    gw_tensor *before = gw_clone(s, gw_detach(s, gw_module_parameter_get(s, m, "0.weight")));
    gw_map_put(s, x, "2.bias", gw_full(s, GW_F32, 9.0, 2));
    gw_map_put(s, x, "else", 3);
    gw_module_load_state_dict(s, m, x, .strict = false);
    assert_true(is_same(s, gw_detach(s, gw_module_parameter_get(s, m, "2.bias")),
                        gw_full(s, GW_F32, 9.0, 2)));
    assert_true(is_same(s, gw_detach(s, gw_module_parameter_get(s, m, "0.weight")), before));
    gw_map_put(s, x, "2.bias", gw_full(s, GW_F32, 9.0, 3));
    gw_module_load_state_dict(s, m, x, .strict = false);
    gw_error e = gw_scope_close(s);
    assert_int_equal(e.status, GW_INVALID);
    assert_non_null(strstr(e.text, "\"2.bias\" is f32 3, not f32 2"));
}

// ---- Failing ------------------------------------------------------------------------------------
static void save_and_load(void *context) {
    (void)context;
    gw_scope *s = gw_scope_open(NULL);
    gw_module *a = network(s), *b = network(s);
    gw_map *state = copy_of(s, a);
    if (gw_ok(s)) {
        gw_tensor *weight = gw_module_parameter_get(s, b, "0.weight");
        float first = *(const float *)gw_data(weight);
        gw_module_load_state_dict(s, b, state);
        // All or nothing.
        if (!gw_ok(s)) assert_true(*(const float *)gw_data(weight) == first);
    }
    gw_module_named_parameters(s, b);
    gw_error e = gw_scope_close(s);
    (void)e;
}

static void it_survives_any_failing_allocation(void **state) {
    (void)state;
    testing_alloc_failure_loop(save_and_load, NULL);
}

static void poison_is_safe(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_fail(s, GW_REMOTE, "something else");
    gw_module *m = gw_nn_linear(s, 2, 3);
    assert_int_equal(gw_map_count(gw_module_state_dict(s, m)), 0);
    gw_module_load_state_dict(s, m, gw_map_open(s));
    gw_module_named_parameters(s, m);
    assert_int_equal(gw_scope_close(s).status, GW_REMOTE);
}

static void a_missing_entry_is_an_error(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_module_load_state_dict(s, gw_nn_relu(s), NULL);
    assert_string_equal(gw_scope_error(s)->text, "gw_module_load_state_dict: the map is NULL");
    gw_scope_clear(s);
    gw_module_load_state_dict(s, NULL, gw_map_open(s));
    assert_string_equal(gw_scope_error(s)->text, "gw_module_load_state_dict: no module");
    gw_scope_clear(s);
    gw_module_call(s, NULL, gw_ones(s, GW_F32, 1));
    assert_string_equal(gw_scope_close(s).text, "gw_module_call: no module");
}

GW_TESTS(nn_state, a_missing_entry_is_an_error, it_has_each_value_under_its_name,
         named_parameters_are_the_parameters, a_loaded_module_is_like_the_other,
         tensors_saved_for_backward_are_unchanged, values_may_be_views_of_the_module_itself,
         a_parameter_may_be_a_view, mismatched_state_changes_nothing,
         part_of_it_may_be_loaded_without_strict, it_survives_any_failing_allocation,
         poison_is_safe);
