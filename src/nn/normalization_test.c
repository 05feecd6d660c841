#include "testing/testing.h"

#include <gradwire/autograd.h>
#include <gradwire/nn.h>

#include <string.h>

static void assert_fails(gw_scope *s, gw_status status, const char *text) {
    gw_error e = gw_scope_close(s);
    assert_string_equal(e.text, text);
    assert_int_equal(e.status, status);
}

// ---- LayerNorm ----------------------------------------------------------------------------------
static void layer_norm_starts_with_ones_and_zeros(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_module *m = gw_nn_layer_norm_with(s, GW_SHAPE(2, 3),
                                         GW_OPTIONS(gw_nn_layer_norm_options, .dtype = GW_F64));
    assert_int_equal(gw_module_parameter_count(m), 2);
    assert_true(gw_equal(s, gw_module_parameter_get(s, m, "weight"), gw_ones(s, GW_F64, 2, 3)));
    assert_true(gw_equal(s, gw_module_parameter_get(s, m, "bias"), gw_zeros(s, GW_F64, 2, 3)));
    assert_int_equal(gw_scope_close(s).status, GW_OK);
}

static void layer_norm_may_do_without_either(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_nn_layer_norm_options none =
        GW_OPTIONS(gw_nn_layer_norm_options, .elementwise_affine = false);
    gw_nn_layer_norm_options weight = GW_OPTIONS(gw_nn_layer_norm_options, .bias = false);
    assert_int_equal(gw_module_parameter_count(gw_nn_layer_norm_with(s, GW_SHAPE(3), none)), 0);
    gw_module *m = gw_nn_layer_norm_with(s, GW_SHAPE(3), weight);
    assert_string_equal(gw_module_parameter_name(s, m, 0), "weight");
    assert_int_equal(gw_module_parameter_count(m), 1);
    assert_int_equal(gw_scope_close(s).status, GW_OK);
}

static void layer_norm_requires_sizes(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_module_call(s, gw_nn_layer_norm(s, 0), gw_ones(s, GW_F32, 3));
    assert_fails(s, GW_INVALID,
                 "gw_nn_layer_norm: the sizes of one dimension or more must be given");
    s = gw_scope_open(NULL);
    gw_module_call(s, gw_nn_layer_norm(s, 4), gw_ones(s, GW_F32, 3));
    assert_fails(s, GW_INVALID, "gw.layer_norm: 3 must end in the sizes 4");
}

GW_TESTS(nn_normalization, layer_norm_starts_with_ones_and_zeros, layer_norm_may_do_without_either,
         layer_norm_requires_sizes);
