#include "testing/testing.h"

#include <gradwire/nn.h>

#include <string.h>

static gw_module *network(gw_scope *s) {
    return gw_nn_sequential(
        s, gw_nn_linear(s, 4, 3), gw_nn_relu(s),
        gw_nn_sequential(s, gw_nn_linear_with(s, 3, 2, (gw_nn_linear_options){ .no_bias = true })));
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

static void a_name_that_is_not_there_is_said(void **state) {
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

GW_TESTS(nn_parameter, parameters_have_numbers_and_names, a_number_out_of_range_is_refused,
         a_name_that_is_not_there_is_said, a_list_has_each_parameter_once_and_in_order);
