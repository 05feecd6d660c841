// A device whose memory the CPU cannot read: calls, passes, optimizers, modules and files with its
// tensors.
#include "tensor/pack.h"
#include "testing/cluster.h"
#include "testing/hidden_device.h"
#include "testing/testing.h"

#include <gradwire.h>
#include <stdlib.h>
#include <unistd.h>

static gw_tensor *hide(gw_scope *s, gw_tensor *x) {
    return tensor_to_device(s, x, hidden_device());
}

static void assert_text(gw_scope *s, gw_tensor *x, const char *text) {
    assert_string_equal(gw_scope_error(s)->text, "");
    assert_string_equal(gw_to_text(s, x), text);
}

static void assert_same(gw_scope *s, gw_tensor *there, gw_tensor *here) {
    assert_string_equal(gw_scope_error(s)->text, "");
    assert_int_equal(gw_device_of(there), hidden_device());
    assert_int_equal(gw_device_of(here), GW_CPU);
    assert_true(gw_equal(s, tensor_to_device(s, there, GW_CPU), here));
}

static void close_scope(gw_scope *s) {
    gw_error error = gw_scope_close(s);
    assert_string_equal(error.text, "");
    assert_int_equal(hidden_device_blocks(), 0);
}

// ---- Calls --------------------------------------------------------------------------------------
GW_FUNCTION(device_is_cpu, GW_INLINE, "tensor") {
    return gw_value_of(gw_device_of(gw_arg_tensor(s, a, 0)) == GW_CPU);
}

GW_FUNCTION(device_twice, GW_INLINE, "tensor") {
    return gw_value_of(gw_mul(s, gw_arg_tensor(s, a, 0), 2.0));
}

// Computes on a device, and returns a tensor that is on the device.
GW_FUNCTION(device_square_hidden, GW_POOL, "tensor") {
    gw_tensor *x = hide(s, gw_arg_tensor(s, a, 0));
    return gw_value_of(gw_mul(s, x, x));
}

static void call_with_its_tensors(gw_scope *root, int rank, void *context) {
    (void)context;
    if (rank != 0) return;
    for (int to = 0; to < 2; to++) {
        gw_scope *s = gw_scope_open(root);
        gw_tensor *small = gw_arange(s, GW_F32, 0, 6, 1), *large = gw_randn(s, GW_F32, 60, 70);
        gw_tensor *columns = gw_transpose(s, hide(s, large), 0, 1);
        assert_true(gw_bool_of(s, gw_rpc_sync(s, 1, "device_is_cpu", columns)));
        gw_tensor *y = gw_tensor_of(s, gw_rpc_sync(s, 1, "device_twice", hide(s, small)));
        assert_text(s, y, "tensor([ 0.,  2.,  4.,  6.,  8., 10.])");
        y = gw_tensor_of(s, gw_rpc_sync(s, 1, "device_twice", columns));
        assert_true(gw_equal(s, y, gw_mul(s, gw_transpose(s, large, 0, 1), 2.0)));
        y = gw_tensor_of(s, gw_rpc_sync(s, 1, "device_square_hidden", large));
        assert_int_equal(gw_device_of(y), GW_CPU);
        assert_true(gw_equal(s, y, gw_mul(s, large, large)));
        gw_scope_close_up(s);
    }
}

static void tensors_of_a_call_are_copied_through_the_cpu(void **state) {
    (void)state;
    cluster_run(1, (cluster_options){ .world_size = 2 }, call_with_its_tensors, NULL);
    assert_int_equal(hidden_device_blocks(), 0);
}

static void go_backward(gw_scope *root, int rank, void *context) {
    (void)context;
    if (rank != 0) return;
    gw_tensor *x = gw_requires_grad(root, hide(root, gw_arange(root, GW_F32, 0, 3, 1)));
    gw_tensor *y = gw_tensor_of(root, gw_rpc_sync(root, "w1", "device_square_hidden", x));
    gw_backward(root, gw_sum(root, y));
    assert_text(root, gw_grad(root, x), "tensor([0., 2., 4.], device=hidden)");
}

static void gradients_of_a_call_are_on_its_device(void **state) {
    (void)state;
    cluster_run(1, (cluster_options){ .world_size = 2 }, go_backward, NULL);
    assert_int_equal(hidden_device_blocks(), 0);
}

// ---- Optimizers ---------------------------------------------------------------------------------
typedef gw_optimizer *open_rule(gw_scope *s, gw_list *params);

static gw_optimizer *open_sgd(gw_scope *s, gw_list *params) {
    return gw_sgd(s, params, .lr = 0.1, .momentum = 0.9);
}
static gw_optimizer *open_adam(gw_scope *s, gw_list *params) {
    return gw_adam(s, params, .lr = 0.1, .amsgrad = true);
}

static gw_list *list_of(gw_scope *s, gw_tensor *x) {
    gw_list *list = gw_list_open(s);
    gw_list_add(s, list, x);
    return list;
}

static void step(gw_scope *root, gw_optimizer *o, gw_tensor *w, gw_tensor *whole) {
    gw_scope *s = gw_scope_open(root);
    gw_backward(s, gw_sum(s, gw_mul(s, gw_mul(s, w, w), whole)));
    gw_clip_grad_norm(s, list_of(s, w), 1.5);
    gw_optimizer_step(s, o);
    gw_scope_close_up(s);
}

// The same steps on both devices. |is_part|: the parameter shares its storage with others.
static void compare(open_rule *open, bool is_part) {
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *first = gw_rand(s, GW_F32, 4, 3), *there = hide(s, first);
    gw_tensor *w[2], *factor = gw_rand(s, GW_F32, 4, 3);
    w[0] = is_part ? gw_slice(s, first, 0, 1, 3, 1) : first;
    w[1] = is_part ? gw_slice(s, there, 0, 1, 3, 1) : there;
    if (is_part) factor = gw_contiguous(s, gw_slice(s, factor, 0, 1, 3, 1));
    gw_optimizer *o[2];
    for (int i = 0; i < 2; i++) o[i] = open(s, list_of(s, gw_requires_grad(s, w[i])));
    for (int k = 0; k < 3; k++) {
        step(s, o[0], w[0], factor);
        step(s, o[1], w[1], hide(s, factor));
    }
    assert_same(s, w[1], w[0]);
    assert_same(s, there, first);

    // The updated parameter is read through a state that is on the CPU.
    gw_map *state = gw_optimizer_state_dict(s, o[0]);
    gw_optimizer_load_state_dict(s, o[1], state);
    step(s, o[0], w[0], factor);
    step(s, o[1], w[1], hide(s, factor));
    assert_same(s, w[1], w[0]);
    close_scope(s);
}

static void optimizers_step_on_the_device(void **state) {
    (void)state;
    compare(open_sgd, false);
    compare(open_sgd, true);
    compare(open_adam, false);
    compare(open_adam, true);
}

static void a_rule_without_a_kernel_changes_nothing(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *w = gw_requires_grad(s, hide(s, gw_ones(s, GW_F32, 2)));
    gw_optimizer *o = gw_rprop(s, list_of(s, w), .lr = 1);
    gw_backward(s, gw_sum(s, gw_mul(s, w, w)));
    gw_optimizer_step(s, o);
    assert_string_equal(gw_scope_error(s)->text, "step of gw_rprop: no kernel for device hidden");
    assert_int_equal(gw_scope_error(s)->status, GW_UNSUPPORTED);
    gw_scope_clear(s);
    assert_text(s, w, "tensor([1., 1.], device=hidden, requires_grad=True)");
    close_scope(s);
}

// ---- Modules and files --------------------------------------------------------------------------
static gw_tensor *forward(gw_scope *s, gw_module *m, gw_tensor *x) {
    return gw_matmul(s, gw_module_parameter_get(s, m, "w"), x);
}

static void a_module_on_the_device_loads_tensors_from_elsewhere(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_module *m = gw_module_open(s, "m", forward, NULL);
    gw_tensor *w = gw_requires_grad(s, hide(s, gw_zeros(s, GW_F32, 2, 3)));
    gw_module_register_parameter(s, m, "w", w);
    gw_map *map = gw_map_open(s);
    gw_tensor *columns = gw_transpose(s, gw_rand(s, GW_F32, 3, 2), 0, 1);
    gw_map_put(s, map, "w", columns);
    gw_module_load_state_dict(s, m, map);
    assert_same(s, w, columns);
    close_scope(s);
}

static void it_is_saved_into_files(void **state) {
    (void)state;
    char path[] = "/tmp/gradwire-device-XXXXXX";
    int file = mkstemp(path);
    assert_true(file >= 0);
    close(file);
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *x = gw_rand(s, GW_F32, 5, 3);
    gw_map *map = gw_map_open(s);
    gw_map_put(s, map, "whole", hide(s, x));
    gw_map_put(s, map, "columns", gw_transpose(s, hide(s, x), 0, 1));
    gw_checkpoint_save(s, path, map);
    gw_map *back = gw_checkpoint_load(s, path);
    unlink(path);
    assert_true(gw_equal(s, gw_tensor_of(s, gw_map_get(s, back, "whole")), x));
    assert_true(
        gw_equal(s, gw_tensor_of(s, gw_map_get(s, back, "columns")), gw_transpose(s, x, 0, 1)));
    close_scope(s);
}

GW_TESTS(device, tensors_of_a_call_are_copied_through_the_cpu,
         gradients_of_a_call_are_on_its_device, optimizers_step_on_the_device,
         a_rule_without_a_kernel_changes_nothing,
         a_module_on_the_device_loads_tensors_from_elsewhere, it_is_saved_into_files);
