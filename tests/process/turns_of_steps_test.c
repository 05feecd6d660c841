// Steps of several trainers over the parameters of one object, with real threads: methods and fetches read whole steps
// (no torn reads), and a pass has the gradients of the values that its forward has read.
#include "testing/testing.h"

#include <gradwire.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { OWNERS = 2, WORKERS = 4, STEPS = 300, SIZE = 20000 };

typedef struct steps_layer {
    gw_tensor *w;
} steps_layer;

GW_CLASS(steps_layer, steps_layer_open, "bool");

// The weight is a whole tensor, or a part of a larger one.
static void steps_layer_open(gw_scope *own, steps_layer *self, const gw_args *a) {
    gw_tensor *x = gw_ones(own, GW_F32, 2 * SIZE);
    bool is_part = gw_arg_bool(own, a, 0);
    self->w = gw_requires_grad(own, is_part ? gw_slice(own, x, 0, SIZE, 2 * SIZE, 1) : x);
}

static double one_value(gw_scope *s, gw_tensor *x) {
    gw_tensor *read_values = gw_detach(s, x);
    double low = gw_item(s, gw_min(s, read_values)), high = gw_item(s, gw_max(s, read_values));
    if (gw_ok(s) && low != high) gw_fail(s, GW_REMOTE, "half a step: %g to %g", low, high);
    return low;
}

GW_METHOD(steps_layer, weight, GW_INLINE, "") {
    return gw_value_of(gw_rref_open(s, self->w));
}

// Returns the sum of squares, and the value read.
GW_METHOD(steps_layer, forward, GW_POOL, "") {
    gw_tensor *squares = gw_sum(s, gw_mul(s, self->w, self->w));
    gw_list *both = gw_list_open(s);
    gw_list_add(s, both, squares);
    gw_list_add(s, both, one_value(s, self->w));
    return gw_value_of(both);
}

GW_METHOD(steps_layer, expect_gradient, GW_POOL, "float") {
    double is = one_value(s, gw_grad(s, self->w)), expected = 2 * gw_arg_float(s, a, 0);
    if (gw_ok(s) && is != expected)
        gw_fail(s, GW_REMOTE, "the gradient is %g instead of %g", is, expected);
    return gw_none();
}

typedef struct trainer {
    int rank;
    char url[64];
    bool is_part, concurrent;
    gw_error error;
    pthread_t thread;
} trainer;

static gw_rref *layers[OWNERS];
static pthread_barrier_t made;

GW_FUNCTION(steps_of_layer, GW_INLINE, "") {
    return gw_value_of(layers[gw_rpc_self(s).rank]);
}

static void step(gw_scope *s, gw_rref *const *at, gw_list *weights, gw_optimizer *opt) {
    double read_values[OWNERS];
    gw_tensor *loss = gw_zeros(s, GW_F32);
    for (int i = 0; i < OWNERS; i++) {
        gw_list *both = gw_list_of(s, gw_rpc_sync(s, at[i], "forward"));
        loss = gw_add(s, loss, gw_tensor_of(s, gw_list_get(s, both, 0)));
        read_values[i] = gw_float_of(s, gw_list_get(s, both, 1));
    }
    gw_backward(s, loss);
    for (int i = 0; i < OWNERS; i++) gw_rpc_sync(s, at[i], "expect_gradient", read_values[i]);
    gw_optimizer_step(s, opt);
    for (int i = 0; i < OWNERS; i++)
        one_value(s, gw_to_here(s, gw_rref_of(s, gw_list_get(s, weights, i))));
}

static void train(gw_scope *root, const trainer *t) {
    gw_rref *at[OWNERS];
    gw_list *weights = gw_list_open(root);
    for (int i = 0; i < OWNERS; i++) {
        at[i] = gw_rref_of(root, gw_rpc_sync(root, i, "steps_of_layer"));
        gw_list_add_with(root, weights, gw_rpc_sync(root, at[i], "weight"));
    }
    gw_optimizer *opt = gw_sgd(root, weights, .concurrent = t->concurrent);
    for (int i = 0; i < STEPS && gw_ok(root); i++) {
        gw_scope *s = gw_scope_open(root);
        step(s, at, weights, opt);
        gw_scope_close_up(s);
    }
}

static void *run_trainer(void *arg) {
    trainer *t = arg;
    gw_scope *root = gw_scope_open(NULL);
    gw_rpc_init(root, .rank = t->rank, .world_size = WORKERS, .init_method = t->url);
    bool is_owner = t->rank < OWNERS;
    if (is_owner) layers[t->rank] = gw_remote(root, t->rank, "steps_layer", t->is_part);
    pthread_barrier_wait(&made);
    if (!is_owner) train(root, t);
    gw_rpc_shutdown(root);
    t->error = gw_scope_close(root);
    return NULL;
}

static void run(bool is_part, bool concurrent) {
    trainer all[WORKERS] = { { .is_part = is_part, .concurrent = concurrent } };
    char directory[] = "/tmp/gw-steps-XXXXXX";
    assert_non_null(mkdtemp(directory));
    pthread_barrier_init(&made, NULL, WORKERS);
    for (int i = 0; i < WORKERS; i++) {
        all[i] = all[0];
        all[i].rank = i;
        snprintf(all[i].url, sizeof all[i].url, "file://%s/store", directory);
        assert_int_equal(pthread_create(&all[i].thread, NULL, run_trainer, &all[i]), 0);
    }
    for (int i = 0; i < WORKERS; i++) {
        assert_int_equal(pthread_join(all[i].thread, NULL), 0);
        assert_string_equal(all[i].error.text, "");
    }
    pthread_barrier_destroy(&made);
    unlink(all[0].url + strlen("file://"));
    assert_int_equal(rmdir(directory), 0);
}

static void methods_read_whole_steps(void **state) {
    (void)state;
    run(false, false);
}

static void methods_read_whole_concurrent_steps(void **state) {
    (void)state;
    run(false, true);
}

static void methods_read_whole_steps_of_parts_of_tensors(void **state) {
    (void)state;
    run(true, false);
}

static void methods_read_whole_concurrent_steps_of_parts_of_tensors(void **state) {
    (void)state;
    run(true, true);
}

GW_TESTS(turns_of_steps, methods_read_whole_steps, methods_read_whole_concurrent_steps,
         methods_read_whole_steps_of_parts_of_tensors,
         methods_read_whole_concurrent_steps_of_parts_of_tensors);
