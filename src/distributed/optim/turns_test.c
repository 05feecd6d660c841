// The turns of parameters: which turn a parameter has, and that no method waits for a turn that is
// never given up.
#include "distributed/optim/turns.h"

#include "agent/bodies/context.h"
#include "testing/cluster.h"
#include "testing/testing.h"
#include <gradwire.h>

typedef struct turns_box {
    gw_scope *own;
    gw_tensor *w;
    gw_rref *inner;
} turns_box;

GW_CLASS(turns_box, turns_box_open, turns_box_close, NULL);

static void turns_box_open(gw_scope *own, turns_box *self, const gw_args *a) {
    (void)a;
    *self = (turns_box){ own, gw_full(own, GW_F32, 3.0, 2), NULL };
}

// Calls w0, which reads the weight meanwhile.
static void turns_box_close(turns_box *self) {
    gw_rpc_sync(self->own, 0, "turns_look");
}

GW_METHOD(turns_box, weight, GW_INLINE, "") {
    return gw_value_of(gw_rref_open(s, self->w));
}

GW_METHOD(turns_box, unfreeze, GW_INLINE, "") {
    gw_requires_grad(s, self->w);
    return gw_none();
}

GW_METHOD(turns_box, take_in, GW_INLINE, "rref") {
    self->inner = gw_keep(self->own, gw_arg_rref(s, a, 0));
    return gw_none();
}

// Whether a parameter has the turn of an object.
GW_FUNCTION(turns_agree, GW_POOL, "rref, rref") {
    gw_scope *t = gw_scope_open(s);
    turns ts = { 0 };
    turns_add(t, &ts, gw_arg_rref(s, a, 0));
    bool had = context_has_turn(t, ts.items[0]);
    gw_local(t, gw_arg_rref(s, a, 1), turns_box);
    bool has = context_has_turn(t, ts.items[0]);
    turns_fini(&ts);
    gw_scope_close_up(t);
    return gw_value_of(!had && has);
}

// Returns a weight of another object that the method has entered.
GW_METHOD(turns_box, weight_of_inner, GW_POOL, "") {
    gw_scope *t = gw_scope_open(s);
    const turns_box *inner = gw_local(t, self->inner, turns_box);
    gw_rref *r = inner ? gw_keep(s, gw_rref_open(t, inner->w)) : NULL;
    gw_scope_close_up(t);
    return gw_value_of(r);
}

// ---- Which turn ---------------------------------------------------------------------------------

static bool agree(gw_scope *s, gw_rref *weight, gw_rref *box) {
    return gw_bool_of(s, gw_rpc_sync(s, 1, "turns_agree", weight, box));
}

static void name_weights(gw_scope *root, int rank, void *context) {
    (void)context;
    if (rank) return;
    gw_scope *s = gw_scope_open(root);
    gw_rref *box = gw_remote(s, 1, "turns_box"), *other = gw_remote(s, 1, "turns_box");
    gw_rref *weight = gw_rref_of(s, gw_rpc_sync(s, box, "weight"));
    gw_rpc_sync(s, box, "unfreeze");
    assert_true(agree(s, weight, box));  // although it was no parameter yet when it was named
    assert_false(agree(s, weight, other));
    gw_rpc_sync(s, other, "take_in", box);
    gw_rref *inner = gw_rref_of(s, gw_rpc_sync(s, other, "weight_of_inner"));
    assert_true(agree(s, inner, box));
    assert_false(agree(s, inner, other));
    gw_scope_close_up(s);
}

static void a_parameter_has_the_turn_of_the_object_it_was_named_in(void **state) {
    (void)state;
    cluster_run(1, (cluster_options){ .world_size = 2 }, name_weights, NULL);
}

// ---- Ends ---------------------------------------------------------------------------------------

static gw_rref *left_weight;
static double looked;

GW_FUNCTION(turns_look, GW_POOL, "") {
    if (left_weight) looked = gw_item(s, gw_sum(s, gw_to_here(s, left_weight)));
    return gw_none();
}

static void end_box(gw_scope *root, int rank, void *context) {
    (void)context;
    if (rank) return;
    looked = 0;
    gw_scope *s = gw_scope_open(root);
    gw_rref *box = gw_remote(s, 1, "turns_box");
    gw_rpc_sync(s, box, "unfreeze");
    left_weight = gw_keep(root, gw_rref_of(s, gw_rpc_sync(s, box, "weight")));
    gw_scope_close_up(s);  // drops the last reference to the box, so it ends
    const agent *a = root->agent;
    int64_t began_ns = env_now_ns(a->env);
    while (looked == 0 && env_now_ns(a->env) < began_ns + SIM_SECOND)
        gw_rpc_sync(root, 1, "gw.add", gw_ones(root, GW_F32), 1);
    assert_true(looked == 6);
    left_weight = NULL;
}

static void an_end_that_waits_gives_up_the_turn(void **state) {
    (void)state;
    cluster_run(1, (cluster_options){ .world_size = 2 }, end_box, NULL);
}

GW_TESTS(distributed_turns, a_parameter_has_the_turn_of_the_object_it_was_named_in,
         an_end_that_waits_gives_up_the_turn);
