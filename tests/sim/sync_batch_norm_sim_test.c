// Batch norm over the batches of several members equals batch norm of one member over all of them.
#include "testing/cluster.h"
#include "testing/testing.h"

#include <gradwire.h>
#include <math.h>
#include <string.h>

enum { ROWS = 7, FEATURES = 3 };

static gw_tensor *whole_batch(gw_scope *s) {
    float x[ROWS * FEATURES];
    for (int i = 0; i < ROWS * FEATURES; i++) x[i] = (float)((i * 37) % 11) - 4.5f;
    return gw_from(s, x, ROWS, FEATURES);
}

static void expect_close(gw_scope *s, gw_tensor *a, gw_tensor *b) {
    if (!gw_ok(s)) fail_msg("%s", gw_scope_error(s)->text);
    assert_int_equal(gw_numel(a), gw_numel(b));
    const float *x = gw_data(gw_contiguous(s, a)), *y = gw_data(gw_contiguous(s, b));
    for (int64_t i = 0; i < gw_numel(a); i++)
        if (!(fabsf(x[i] - y[i]) < 1e-5f)) fail_msg("%g and %g", x[i], y[i]);
}

// Rows 0 and 1, no rows, and the other rows.
static void train(gw_scope *root, int rank, void *context) {
    (void)context;
    const int64_t first[] = { 0, 2, 2, ROWS };
    gw_scope *s = gw_scope_open(root);
    gw_group *g = gw_group_world(s);
    gw_module *whole = gw_nn_batch_norm1d(s, FEATURES), *parts = gw_nn_batch_norm1d(s, FEATURES);
    gw_module *model = gw_nn_sequential(s, parts);
    gw_sync_batch_norm_convert(s, model, g);
    gw_tensor *all = gw_requires_grad(s, whole_batch(s));
    gw_tensor *mine = gw_requires_grad(
        s, gw_contiguous(s, gw_slice(s, whole_batch(s), 0, first[rank], first[rank + 1], 1)));
    gw_tensor *wish = gw_cos(s, whole_batch(s));
    gw_tensor *y = gw_module_call(s, whole, all), *z = gw_module_call(s, parts, mine);
    expect_close(s, z, gw_slice(s, y, 0, first[rank], first[rank + 1], 1));
    gw_backward(s, gw_sum(s, gw_mul(s, y, wish)));
    gw_tensor *own_wish = gw_slice(s, wish, 0, first[rank], first[rank + 1], 1);
    gw_backward(s, gw_sum(s, gw_mul(s, z, own_wish)));
    expect_close(s, gw_grad(s, mine),
                 gw_slice(s, gw_grad(s, all), 0, first[rank], first[rank + 1], 1));
    const char *names[] = { "running_mean", "running_var" };
    gw_map *a = gw_module_state_dict(s, whole), *b = gw_module_state_dict(s, parts);
    for (int i = 0; i < 2; i++)
        expect_close(s, gw_tensor_of(s, gw_map_get(s, a, names[i])),
                     gw_tensor_of(s, gw_map_get(s, b, names[i])));
    gw_list *weights = gw_parameters(s, parts);
    for (int i = 0; i < 2; i++) {  // the sum over members is that of the whole batch
        gw_tensor *own = gw_grad(s, gw_tensor_of(s, gw_list_get(s, weights, i)));
        gw_tensor *one = gw_grad(s, gw_tensor_of(s, gw_list_get(s, gw_parameters(s, whole), i)));
        expect_close(s, gw_all_reduce(s, g, own, GW_SUM), one);
    }
    gw_module_call(s, parts, gw_ones(s, GW_F32, rank == 1, FEATURES));
    assert_int_equal(gw_scope_error(s)->status, GW_INVALID);
    gw_error ignored = gw_scope_close(s);
    (void)ignored;
}

static void it_equals_batch_norm_of_the_whole_batch(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 10; seed++)
        cluster_run(seed, (cluster_options){ .world_size = 3 }, train, NULL);
}

GW_TESTS(sync_batch_norm_sim, it_equals_batch_norm_of_the_whole_batch);
