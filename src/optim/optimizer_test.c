#include "testing/testing.h"

#include <gradwire/ops.h>
#include <gradwire/optim.h>

#include <string.h>

static void assert_refuses(gw_scope *s, gw_list *params, const char *words) {
    gw_optimizer *opt = gw_sgd(s, params, (gw_sgd_options){ 0 });
    gw_optimizer_step(s, opt);  // safe to pass on
    gw_error e = gw_scope_close(s);
    assert_int_equal(e.status, GW_INVALID);
    if (!strstr(e.text, words)) fail_msg("\"%s\" does not say \"%s\"", e.text, words);
}

static void it_wants_parameters(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    assert_refuses(s, gw_list_open(s), "gw_sgd: no parameters");
}

static void it_wants_tensors(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_list *params = gw_list_open(s);
    gw_list_add(s, params, 3);
    assert_refuses(s, params, "parameter 0 is no tensor");
}

static void it_wants_leaves(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_list *params = gw_list_open(s);
    gw_tensor *x = gw_requires_grad(s, gw_ones(s, GW_F32, 2));
    gw_list_add(s, params, x);
    gw_list_add(s, params, gw_mul(s, x, 2.0));
    assert_refuses(s, params, "parameter 1 is no leaf");
}

static void it_wants_each_parameter_once(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_list *params = gw_list_open(s);
    gw_tensor *x = gw_requires_grad(s, gw_ones(s, GW_F32, 2));
    gw_list_add(s, params, x);
    gw_list_add(s, params, x);
    assert_refuses(s, params, "parameter 1 is in the list twice");
}

static void it_wants_contiguous_floats(void **state) {
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
    gw_optimizer *opt = gw_keep(root, gw_adam(inner, params, (gw_adam_options){ 0 }));
    gw_scope_merge(inner);
    gw_scope *s = gw_scope_open(root);
    gw_backward(s, gw_sum(s, gw_mul(s, x, x)));  // |x| lives because |opt| does
    gw_optimizer_step(s, opt);
    gw_scope_merge(s);
    assert_float_equal(((const float *)gw_data(x))[0], 0.999, 1e-6);
    assert_int_equal(gw_scope_close(root).status, GW_OK);
}

GW_TESTS(optim_optimizer, it_wants_parameters, it_wants_tensors, it_wants_leaves,
         it_wants_each_parameter_once, it_wants_contiguous_floats, it_holds_its_parameters);
