// A module over several threads gives the results of one thread; and its errors.
#include "testing/cluster.h"
#include "testing/testing.h"
#include <gradwire.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { IN = 5, HIDDEN = 7, OUT = 3, WEIGHTS = 4 };

// Small integers, whose sums are exact in any order.
static gw_tensor *integers(gw_scope *s, int64_t rows, int64_t columns, int seed) {
    float *x = gw_alloc(s, (size_t)(rows * columns + 1) * sizeof *x);
    for (int i = 0; i < rows * columns; i++) x[i] = (float)((i * 7 + seed * 13) % 9 - 4);
    return gw_from(s, x, rows, columns);
}

static gw_module *open_net(gw_scope *s) {
    gw_module *m = gw_nn_sequential(s, gw_nn_linear(s, IN, HIDDEN), gw_nn_relu(s),
                                    gw_nn_linear(s, HIDDEN, OUT));
    gw_scope *t = gw_scope_open(s);
    gw_no_grad(t);
    for (int i = 0; i < WEIGHTS; i++) {
        gw_tensor *w = gw_module_parameter_at(t, m, i);
        gw_tensor *flat = integers(t, gw_numel(w), 1, i);
        gw_copy_(t, w,
                 gw_dims(w) == 2 ? gw_reshape(t, flat, gw_size(w, 0), gw_size(w, 1))
                                 : gw_reshape(t, flat, gw_size(w, 0)));
    }
    gw_scope_close_up(t);
    return m;
}

static void expect_error(gw_scope *s, gw_status status, const char *text) {
    if (gw_scope_error(s)->status != status || !strstr(gw_scope_error(s)->text, text))
        fail_msg("%s: %s", gw_status_name(gw_scope_error(s)->status), gw_scope_error(s)->text);
    gw_scope_clear(s);
}

static void expect_same(gw_scope *s, gw_tensor *a, gw_tensor *b) {
    if (!gw_ok(s)) fail_msg("%s", gw_scope_error(s)->text);
    assert_true(gw_equal(s, a, b));
}

// ---- The same bits ------------------------------------------------------------------------------

static void compare(gw_scope *root, gw_module *net, int threads, int64_t rows) {
    gw_module *fast = gw_data_parallel(root, net, threads);
    gw_scope *a = gw_scope_open(root), *b = gw_scope_open(root);
    gw_tensor *x = gw_requires_grad(root, integers(root, rows, IN, 3));
    gw_tensor *one = gw_module_call(a, net, x), *other = gw_module_call(b, fast, x);
    expect_same(root, one, other);
    gw_backward(a, gw_sum(a, gw_mul(a, one, one)));
    gw_tensor *loss = gw_sum(b, gw_mul(b, other, other));
    gw_backward(b, loss, .retain_graph = true);
    for (int i = 0; i < WEIGHTS; i++) {
        gw_tensor *w = gw_module_parameter_at(root, net, i);
        expect_same(b, gw_grad(a, w), gw_grad(b, w));
    }
    expect_same(b, gw_grad(a, x), gw_grad(b, x));
    gw_backward(b, loss);  // once more, which adds
    expect_same(b, gw_mul(b, gw_grad(a, x), 2), gw_grad(b, x));
    gw_backward(b, loss);
    assert_int_equal(gw_scope_error(b)->status, GW_WRONG_STATE);  // the saved values are gone
    gw_scope_clear(b);
    gw_no_grad(b);
    expect_same(b, one, gw_module_call(b, fast, x));
    gw_scope_close_up(b);
    gw_scope_close_up(a);
    assert_true(gw_ok(root));
}

static void compare_all(gw_scope *root, int rank, void *context) {
    (void)rank, (void)context;
    gw_module *net = open_net(root);
    for (int threads = 1; threads <= 5; threads++)
        for (int64_t rows = 0; rows <= 11; rows += rows < 2 ? 1 : 3)
            compare(root, net, threads, rows);
}

static void slices_give_the_result_of_the_whole_batch(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 3; seed++)
        cluster_run(seed, (cluster_options){ .world_size = 1 }, compare_all, NULL);
}

// On threads of a machine.
static void slices_on_threads_give_the_same_result(void **state) {
    (void)state;
    char folder[] = "/tmp/gw-slices-XXXXXX", url[64];
    assert_non_null(mkdtemp(folder));
    snprintf(url, sizeof url, "file://%s/store", folder);
    gw_scope *root = gw_scope_open(NULL);
    gw_rpc_init(root, .rank = 0, .world_size = 1, .init_method = url, .threads = 3);
    compare_all(root, 0, NULL);
    gw_module *norm = gw_nn_sequential(root, gw_nn_batch_norm1d(root, IN), gw_nn_dropout(root, 0.5),
                                       gw_nn_linear(root, IN, OUT));
    gw_module *fast = gw_data_parallel(root, norm, 4);
    for (int step = 0; step < 20; step++) {
        gw_scope *s = gw_scope_open(root);
        gw_backward(s, gw_sum(s, gw_module_call(s, fast, integers(s, 40, IN, step))));
        gw_scope_close_up(s);
    }
    gw_rpc_shutdown(root);
    assert_int_equal(gw_scope_close(root).status, GW_OK);
    unlink(url + strlen("file://"));
    rmdir(folder);
}

// ---- Buffers ------------------------------------------------------------------------------------

static gw_tensor *call_child(gw_scope *s, gw_module *m, gw_tensor *x) {
    return gw_module_call(s, gw_module_child(s, m, "norm"), x);
}

static void use_buffers(gw_scope *root, int rank, void *context) {
    (void)rank, (void)context;
    gw_module *norm = gw_nn_batch_norm1d(root, IN), *first = gw_nn_batch_norm1d(root, IN);
    gw_module *own = gw_module_open(root, "own", call_child, NULL);
    gw_module_register_module(root, own, "norm", norm);
    gw_module *fast = gw_data_parallel(root, own, 3);
    gw_scope *s = gw_scope_open(root);
    gw_tensor *x = integers(s, 12, IN, 1);
    gw_tensor *y = gw_module_call(s, fast, x);
    gw_tensor *part = gw_module_call(s, first, gw_slice(s, x, 0, 0, 4, 1));
    expect_same(s, gw_slice(s, y, 0, 0, 4, 1), part);
    gw_map *a = gw_module_state_dict(s, norm), *b = gw_module_state_dict(s, first);
    for (int i = 0; i < gw_map_count(a); i++) {
        const char *key = gw_map_key(s, a, i);
        expect_same(s, gw_tensor_of(s, gw_map_get(s, a, key)),
                    gw_tensor_of(s, gw_map_get(s, b, key)));
    }
    gw_backward(s, gw_sum(s, gw_mul(s, y, y)));
    assert_non_null(gw_grad_find(s, gw_module_parameter_at(s, norm, 0)));
    gw_module_eval(s, fast);  // of all, by the statistics of the first
    gw_module_eval(s, first);
    expect_same(s, gw_module_call(s, fast, x), gw_module_call(s, first, x));
    gw_scope_close_up(s);
    assert_string_equal(gw_module_parameter_name(root, fast, 0), "module.norm.weight");
}

static void buffers_are_those_of_the_first_slice(void **state) {
    (void)state;
    cluster_run(1, (cluster_options){ .world_size = 1 }, use_buffers, NULL);
}

// ---- Hooks --------------------------------------------------------------------------------------

static gw_tensor *leave_input(gw_scope *s, gw_module *m, gw_tensor *x, void *context) {
    (void)s, (void)m, (void)x, (void)context;
    return NULL;
}

// The first slice is the module itself; the hooks of the others are their own.
static gw_tensor *change_hooks(gw_scope *s, gw_module *m, gw_tensor *x, void *context) {
    for (int i = 0; i < 100; i++) gw_module_register_forward_pre_hook(s, m, leave_input, NULL);
    gw_module_remove_hook(s, m, *(int *)context);
    return gw_mul(s, x, 2);
}

static void use_hooks(gw_scope *root, int rank, void *context) {
    (void)rank, (void)context;
    int number;
    gw_module *m = gw_nn_relu(root), *fast = gw_data_parallel(root, m, 4);
    number = gw_module_register_forward_pre_hook(root, m, change_hooks, &number);
    gw_tensor *x = gw_arange(root, GW_F32, 0, 16, 1);
    expect_same(root, gw_module_call(root, fast, x), gw_mul(root, x, 2));
    expect_same(root, gw_module_call(root, fast, x), x);
}

static void hooks_of_slices_may_change_hooks(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 10; seed++)
        cluster_run(seed, (cluster_options){ .world_size = 1 }, use_hooks, NULL);
}

// ---- Failing ------------------------------------------------------------------------------------

static gw_tensor *refuse_some(gw_scope *s, gw_module *m, gw_tensor *x) {
    const double *limit = gw_module_state(m);
    if (gw_item(s, gw_max(s, x)) > *limit) gw_fail(s, GW_INVALID, "too large");
    return gw_mul(s, x, 2);
}

static gw_tensor *give_sum(gw_scope *s, gw_module *m, gw_tensor *x) {
    (void)m;
    return gw_sum(s, x);
}

static gw_tensor *fail_backward(gw_scope *s, gw_tensor *gradient, void *context) {
    (void)context;
    if (gw_item(s, gw_sum(s, gradient)) > 6) gw_fail(s, GW_INVALID, "too steep");
    return NULL;
}

static gw_tensor *hook_some(gw_scope *s, gw_module *m, gw_tensor *x) {
    gw_tensor *y = gw_mul(s, x, gw_module_parameter_at(s, m, 0));
    gw_register_hook(s, y, fail_backward, NULL);
    return y;
}

static void fail_in_slices(gw_scope *root, int rank, void *context) {
    (void)rank, (void)context;
    double limit = 9;
    gw_module *fast = gw_data_parallel(root, gw_module_open(root, "some", refuse_some, &limit), 4);
    gw_tensor *x = gw_arange(root, GW_F32, 0, 16, 1);
    gw_scope *s = gw_scope_open(root);
    gw_module_call(s, fast, x);
    expect_error(s, GW_INVALID, "slice 3 of 4: ");  // and the fourth
    limit = 100;
    expect_same(s, gw_module_call(s, fast, x), gw_mul(s, x, 2));
    gw_module_call(s, gw_data_parallel(s, gw_module_open(s, "sum", give_sum, NULL), 2), x);
    expect_error(s, GW_INVALID, "returned a scalar");
    gw_module_call(s, fast, gw_ones(s, GW_F32));
    expect_error(s, GW_INVALID, "the input is a scalar, which has no rows");
    gw_data_parallel(s, fast, 0);
    expect_error(s, GW_INVALID, "threads is 0, but must be 1 to 256");
    gw_module *m = gw_module_open(s, "hooked", hook_some, NULL);
    gw_tensor *w = gw_requires_grad(s, gw_ones(s, GW_F32, 1));
    gw_module_register_parameter(s, m, "w", w);
    gw_tensor *y = gw_module_call(s, gw_data_parallel(s, m, 4), x);
    const float steep[16] = { 1, 1, 1, 1, 2, 2, 2, 2, 1, 1, 1, 1, 3, 3, 3, 3 };
    gw_backward(s, gw_sum(s, gw_mul(s, y, gw_from(s, steep, 16))));
    expect_error(s, GW_INVALID, "slice 2 of 4: ");
    assert_null(gw_grad_find(s, w));
    gw_scope_close_up(s);
    assert_true(gw_ok(root));
}

static void the_error_of_a_slice_contains_its_number(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 10; seed++)
        cluster_run(seed, (cluster_options){ .world_size = 1 }, fail_in_slices, NULL);
}

static void it_needs_an_agent(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_data_parallel(s, gw_nn_relu(s), 2);
    expect_error(s, GW_WRONG_STATE, "no agent");
    assert_int_equal(gw_scope_close(s).status, GW_OK);
}

GW_TESTS(data_parallel, slices_give_the_result_of_the_whole_batch,
         slices_on_threads_give_the_same_result, buffers_are_those_of_the_first_slice,
         hooks_of_slices_may_change_hooks, the_error_of_a_slice_contains_its_number,
         it_needs_an_agent);
