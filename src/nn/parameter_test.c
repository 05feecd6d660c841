#include "testing/testing.h"

#include "nn/module.h"
#include <gradwire/autograd.h>

#include <string.h>

static gw_module *network(gw_scope *s) {
    return gw_nn_sequential(s, gw_nn_linear(s, 4, 3), gw_nn_relu(s),
                            gw_nn_sequential(s, gw_nn_linear(s, 3, 2, .bias = false)));
}

static void parameters_have_numbers_and_names(void **state) {
    (void)state;
    static const char *const names[] = { "0.weight", "0.bias", "2.0.weight" };
    gw_scope *s = gw_scope_open(NULL);
    gw_module *m = network(s);
    assert_int_equal(gw_module_parameter_count(m), 3);
    for (int i = 0; i < 3; i++) {
        assert_string_equal(gw_module_parameter_name(s, m, i), names[i]);
        gw_tensor *x = gw_module_parameter_at(s, m, i);
        assert_ptr_equal(gw_module_parameter_find(m, names[i]), x);
        assert_ptr_equal(gw_module_parameter_get(s, m, names[i]), x);
    }
    assert_int_equal(gw_size(gw_module_parameter_at(s, m, 2), 0), 2);
    assert_null(gw_module_parameter_find(m, "2.0.bias"));
    assert_null(gw_module_parameter_find(m, "2.weight.0"));
    assert_null(gw_module_parameter_find(m, "0"));
    assert_null(gw_module_parameter_find(m, ""));
    assert_int_equal(gw_scope_close(s).status, GW_OK);
}

static void a_number_out_of_range_is_refused(void **state) {
    (void)state;
    for (int i = -1; i < 4; i += 4) {
        gw_scope *s = gw_scope_open(NULL);
        gw_module *m = network(s);
        gw_module_parameter_at(s, m, i);
        assert_string_equal(gw_module_parameter_name(s, m, i), "");
        gw_error e = gw_scope_close(s);
        assert_int_equal(e.status, GW_INVALID);
        assert_non_null(strstr(e.text, "of 3"));
    }
}

// Also in a part of a part, and in a part that stands in two modules.
static void numbers_follow_parts_that_are_added(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_module *inner = gw_nn_sequential(s, gw_nn_relu(s)), *shared = gw_nn_sequential(s, inner);
    gw_module *models[2] = { gw_nn_sequential(s, shared) };
    models[1] = gw_nn_sequential(s, gw_nn_linear(s, 2, 2), shared);
    for (int count = 0; count < 4; count++) {
        assert_int_equal(gw_module_parameter_count(models[0]), count);
        assert_int_equal(gw_module_parameter_count(models[1]), count + 2);
        assert_int_equal(gw_module_buffer_count(models[1]), count);
        gw_tensor *x = gw_ones(s, GW_F32, count + 1), *b = gw_zeros(s, GW_F32, count + 1);
        gw_module_register_parameter(s, inner, gw_format(s, "w%d", count), x);
        gw_module_register_buffer(s, inner, gw_format(s, "b%d", count), b);
        assert_ptr_equal(gw_module_parameter_at(s, models[0], count), x);
        assert_ptr_equal(gw_module_parameter_at(s, models[1], count + 2), x);
        assert_ptr_equal(gw_module_buffer_at(s, models[0], count), b);
    }
    gw_module_register_module(s, models[0], "last", gw_nn_linear(s, 2, 2));
    assert_int_equal(gw_module_parameter_count(models[0]), 6);
    assert_int_equal(gw_scope_close(s).status, GW_OK);
}

static void a_missing_name_is_an_error(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_module_parameter_get(s, network(s), "7.weight");
    gw_error e = gw_scope_close(s);
    assert_int_equal(e.status, GW_NOT_FOUND);
    assert_non_null(strstr(e.text, "sequential has no parameter \"7.weight\""));
}

static void a_list_has_each_parameter_once_and_in_order(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_module *a = network(s), *b = gw_nn_linear(s, 1, 1);
    gw_list *list = gw_parameters(s, a, b, a);
    assert_int_equal(gw_list_count(list), 5);
    for (int i = 0; i < 3; i++)
        assert_ptr_equal(gw_tensor_of(s, gw_list_get(s, list, i)), gw_module_parameter_at(s, a, i));
    assert_ptr_equal(gw_tensor_of(s, gw_list_get(s, list, 4)), gw_module_parameter_at(s, b, 1));
    assert_int_equal(gw_scope_close(s).status, GW_OK);
}

// ---- Buffers ------------------------------------------------------------------------------------
static gw_tensor *forward_nothing(gw_scope *s, gw_module *m, gw_tensor *x) {
    (void)s, (void)m;
    return x;
}

static gw_module *counter(gw_scope *s) {
    gw_module *m = gw_module_open(s, "counter", forward_nothing, NULL);
    gw_module_register_buffer(s, m, "mean", gw_full(s, GW_F32, 2.0, 3));
    gw_module_register_buffer(s, m, "count", gw_zeros(s, GW_I64));
    gw_module_register_parameter(s, m, "weight", gw_ones(s, GW_F32, 3));
    return m;
}

static void buffers_have_numbers_and_names_of_their_own(void **state) {
    (void)state;
    static const char *const names[] = { "0.mean", "0.count", "1.2.mean", "1.2.count" };
    gw_scope *s = gw_scope_open(NULL);
    gw_module *inner = gw_nn_sequential(s, gw_nn_linear(s, 4, 3), gw_nn_relu(s), counter(s));
    gw_module *m = gw_nn_sequential(s, counter(s), inner);
    assert_int_equal(gw_module_buffer_count(m), 4);
    assert_int_equal(gw_module_parameter_count(m), 4);
    assert_int_equal(gw_list_count(gw_parameters(s, m)), 4);
    for (int i = 0; i < 4; i++) {
        assert_string_equal(gw_module_buffer_name(s, m, i), names[i]);
        gw_tensor *x = gw_module_buffer_at(s, m, i);
        assert_ptr_equal(gw_module_buffer_find(m, names[i]), x);
        assert_ptr_equal(gw_module_buffer_get(s, m, names[i]), x);
        assert_null(gw_module_parameter_find(m, names[i]));
    }
    assert_int_equal(gw_dtype_of(gw_module_buffer_at(s, m, 3)), GW_I64);
    assert_null(gw_module_buffer_find(m, "0.weight"));
    assert_int_equal(gw_scope_close(s).status, GW_OK);
}

static bool list_name(void *context, const module_path *at, gw_tensor *x) {
    (void)x;
    gw_list *names = context;
    gw_scope *s = gw_scope_open(NULL);
    gw_list_add(s, names, module_path_text(s, at));
    gw_scope_close_up(s);
    return true;
}

static void state_is_as_in_a_state_dict_of_pytorch(void **state) {
    (void)state;
    static const char *const names[] = { "0.weight", "0.mean", "0.count", "1.weight", "1.bias" };
    gw_scope *s = gw_scope_open(NULL);
    gw_list *list = gw_list_open(s);
    module_each_tensor(gw_nn_sequential(s, counter(s), gw_nn_linear(s, 1, 1)), MODULE_STATE, NULL,
                       list_name, list);
    assert_int_equal(gw_list_count(list), 5);
    for (int i = 0; i < 5; i++)
        assert_string_equal(gw_string_of(s, gw_list_get(s, list, i)), names[i]);
    assert_int_equal(gw_scope_close(s).status, GW_OK);
}

typedef struct refused {
    void (*query)(gw_scope *s, gw_module *m);
    gw_status status;
    const char *text;
} refused;

static void query_number(gw_scope *s, gw_module *m) {
    gw_module_buffer_at(s, m, 2);
}
static void query_name(gw_scope *s, gw_module *m) {
    gw_module_buffer_get(s, m, "weight");
}
static void add_twice(gw_scope *s, gw_module *m) {
    gw_module_register_buffer(s, m, "weight", gw_zeros(s, GW_F32));
}
static void add_buffer_as_parameter(gw_scope *s, gw_module *m) {
    gw_module_register_parameter(s, m, "mean", gw_zeros(s, GW_F32));
}
static void add_with_gradient(gw_scope *s, gw_module *m) {
    gw_module_register_buffer(s, m, "x", gw_requires_grad(s, gw_zeros(s, GW_F32)));
}
static void add_nothing(gw_scope *s, gw_module *m) {
    gw_module_register_buffer(s, m, "x", NULL);
}

static void buffers_that_cannot_be_are_refused(void **state) {
    (void)state;
    static const refused all[] = {
        { query_number, GW_INVALID, "counter: buffer 2 of 2" },
        { query_name, GW_NOT_FOUND, "counter has no buffer \"weight\"" },
        { add_twice, GW_DUPLICATE, "counter has a part \"weight\" already" },
        { add_buffer_as_parameter, GW_DUPLICATE, "counter has a part \"mean\" already" },
        { add_with_gradient, GW_INVALID, "counter: the buffer \"x\" needs a gradient" },
        { add_nothing, GW_INVALID, "counter: the buffer \"x\" is no tensor" },
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        gw_scope *s = gw_scope_open(NULL);
        gw_module *m = counter(s);
        all[i].query(s, m);
        gw_error e = gw_scope_close(s);
        assert_int_equal(e.status, all[i].status);
        assert_string_equal(e.text, all[i].text);
    }
}

GW_TESTS(nn_parameter, buffers_have_numbers_and_names_of_their_own,
         state_is_as_in_a_state_dict_of_pytorch, buffers_that_cannot_be_are_refused,
         parameters_have_numbers_and_names, a_number_out_of_range_is_refused,
         numbers_follow_parts_that_are_added, a_missing_name_is_an_error,
         a_list_has_each_parameter_once_and_in_order);
