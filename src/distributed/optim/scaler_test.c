// A scaler over an optimizer whose parameters several workers own: all skip a step, or none.
#include "testing/cluster.h"
#include "testing/testing.h"

#include <gradwire.h>

enum { SEEDS = 20 };

// ---- Functions: one weight in an object ---------------------------------------------------------
typedef struct scaled_layer {
    gw_tensor *w;
} scaled_layer;

GW_CLASS(scaled_layer, open_scaled_layer, "");

static void open_scaled_layer(gw_scope *own, scaled_layer *self, const gw_args *a) {
    (void)a;
    self->w = gw_requires_grad(own, gw_ones(own, GW_F32));
}

GW_METHOD(scaled_layer, weight, GW_INLINE, "") {
    return gw_value_of(gw_rref_open(s, self->w));
}

GW_METHOD(scaled_layer, forward, GW_INLINE, "float") {
    return gw_value_of(gw_mul(s, self->w, gw_arg_float(s, a, 0)));
}

GW_METHOD(scaled_layer, get, GW_INLINE, "") {
    return gw_value_of(gw_item(s, self->w));
}

// ---- Three weights: of w0, w1 and w2 ------------------------------------------------------------
typedef struct weights {
    gw_tensor *here;
    gw_rref *there[2];
    gw_optimizer *opt;
} weights;

static weights open_weights(gw_scope *s, bool concurrent) {
    weights w = { .here = gw_requires_grad(s, gw_ones(s, GW_F32)) };
    gw_list *params = gw_list_open(s);
    gw_list_add(s, params, w.here);
    for (int i = 0; i < 2; i++) {
        w.there[i] = gw_remote(s, i + 1, "scaled_layer");
        gw_list_add(s, params, gw_rref_of(s, gw_rpc_sync(s, w.there[i], "weight")));
    }
    w.opt = gw_sgd(s, params, .lr = 0.5, .concurrent = concurrent);
    return w;
}

// A step on the sum of each weight times its factor.
static bool step(gw_scope *root, gw_scaler *c, weights w, const double factors[3]) {
    gw_scope *s = gw_scope_open(root);
    gw_tensor *sum = gw_mul(s, w.here, factors[0]);
    for (int i = 0; i < 2; i++)
        sum =
            gw_add(s, sum, gw_tensor_of(s, gw_rpc_sync(s, w.there[i], "forward", factors[i + 1])));
    gw_backward(s, gw_scaler_scale(s, c, sum));
    bool taken = gw_scaler_step(s, c, w.opt);
    gw_scaler_update(s, c);
    gw_scope_close_up(s);
    return taken;
}

static void assert_weights(gw_scope *s, weights w, double a, double b, double c) {
    assert_float_equal(gw_item(s, w.here), a, 1e-6);
    assert_float_equal(gw_float_of(s, gw_rpc_sync(s, w.there[0], "get")), b, 1e-6);
    assert_float_equal(gw_float_of(s, gw_rpc_sync(s, w.there[1], "get")), c, 1e-6);
}

static void skip_together(gw_scope *root, int rank, void *context) {
    if (rank != 0) return;
    weights w = open_weights(root, *(bool *)context);
    gw_scaler *c = gw_scaler_open(root);
    for (int bad = 0; bad < 3; bad++) {
        double factors[3] = { 0.5, 0.5, 0.5 };
        factors[bad] = 1e36;  // finite, but not times the scale
        assert_false(step(root, c, w, factors));
        assert_weights(root, w, 1, 1, 1);
    }
    assert_float_equal(gw_scaler_get_scale(c), 65536 / 8, 0);
    assert_true(step(root, c, w, (double[]){ 0.25, 0.5, 1 }));
    assert_weights(root, w, 1 - 0.125, 0.75, 0.5);
}

static void owners_skip_a_step_together(void **state) {
    (void)state;
    for (int concurrent = 0; concurrent < 2; concurrent++) {
        bool context = concurrent;
        for (uint64_t seed = 1; seed <= (uint64_t)testing_scaled(SEEDS); seed++)
            cluster_run(seed, (cluster_options){ .world_size = 3 }, skip_together, &context);
    }
}

static void lose_an_owner(gw_scope *root, int rank, void *context) {
    (void)context;
    if (rank != 0) return;
    weights w = open_weights(root, false);
    gw_scaler *c = gw_scaler_open(root);
    gw_scope *s = gw_scope_open(root);
    gw_backward(s, gw_scaler_scale(s, c, gw_mul(s, w.here, 2)));
    gw_scope_set_timeout(s, 60000);
    gw_wait(s, gw_future_open(s));  // w2 is killed meanwhile
    gw_scope_clear(s);
    gw_scope_set_timeout(s, 0);
    assert_false(gw_scaler_step(s, c, w.opt));
    gw_error e = gw_scope_close(s);
    assert_true(e.status == GW_DISCONNECTED || e.status == GW_REF_LOST);
    assert_float_equal(gw_item(root, w.here), 1, 0);
}

static void crash_w2(sim *s, void *context) {
    (void)context;
    sim_crash(s, 2);
}

static void plan_crash(sim *s, void *context) {
    (void)context;
    sim_at(s, 30 * SIM_SECOND, crash_w2, NULL);
}

static void a_lost_owner_fails_the_step_and_nothing_changes(void **state) {
    (void)state;
    cluster_run(1, (cluster_options){ .world_size = 3, .fails = true, .direct = plan_crash },
                lose_an_owner, NULL);
}

GW_TESTS(distributed_scaler, owners_skip_a_step_together,
         a_lost_owner_fails_the_step_and_nothing_changes);
