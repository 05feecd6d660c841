// Passes that bodies begin: each has gradients of its own, also when several bodies are called in
// the same scope.
#include "agent/bodies/context.h"
#include "testing/cluster.h"
#include "testing/testing.h"
#include <gradwire.h>

enum { MS = 1000 * 1000 };

typedef struct bodies_box {
    gw_tensor *w;
} bodies_box;

GW_CLASS(bodies_box, open_box);

static void open_box(gw_scope *own, bodies_box *self, const gw_args *a) {
    (void)a;
    self->w = gw_requires_grad(own, gw_ones(own, GW_F32, 2));
}

GW_METHOD(bodies_box, forward, GW_INLINE, "tensor") {
    return gw_value_of(gw_mul(s, self->w, gw_arg_tensor(s, a, 0)));
}

GW_METHOD(bodies_box, grad, GW_INLINE, "") {
    return gw_value_of(gw_sum(s, gw_grad(s, self->w)));
}

static void pass_time(gw_scope *s, int64_t ns) {
    agent *a = s->agent;
    waiter wait = { .what = "the other body" };
    env_enter(a->env);
    context_wait_on_loop(a, s, &wait, env_now_ns(a->env) + ns);
    env_leave(a->env);
}

// Waits so long that the other body has run its pass, or has even ended.
GW_FUNCTION(bodies_walk, GW_POOL, "rref, int, int") {
    gw_rref *box = gw_arg_rref(s, a, 0);
    gw_tensor *x = gw_full(s, GW_F32, (double)gw_arg_int(s, a, 1), 2);
    gw_backward(s, gw_sum(s, gw_tensor_of(s, gw_rpc_sync(s, box, "forward", x))));
    pass_time(s, gw_arg_int(s, a, 2) * MS);
    return gw_rpc_sync(s, box, "grad");
}

static void call_two(gw_scope *root, int rank, void *context) {
    (void)context;
    if (rank) return;
    gw_scope *s = gw_scope_open(root);
    gw_rref *box = gw_remote(s, 2, "bodies_box");
    gw_future *one = gw_rpc_async(s, 1, "bodies_walk", box, 1, 100);
    gw_future *ten = gw_rpc_async(s, 1, "bodies_walk", box, 10, 200);
    assert_true(gw_item(s, gw_tensor_of(s, gw_wait(s, one))) == 2);
    assert_true(gw_item(s, gw_tensor_of(s, gw_wait(s, ten))) == 20);
    // The caller's gradients are not mixed with them.
    gw_tensor *x = gw_full(s, GW_F32, 100.0, 2);
    gw_backward(s, gw_sum(s, gw_tensor_of(s, gw_rpc_sync(s, box, "forward", x))));
    assert_true(gw_item(s, gw_tensor_of(s, gw_rpc_sync(s, box, "grad"))) == 200);
    gw_scope_close_up(s);
}

static void two_bodies_of_one_scope_do_not_mix(void **state) {
    (void)state;
    cluster_run(1, (cluster_options){ .world_size = 3, .threads = 2 }, call_two, NULL);
}

GW_TESTS(distributed_bodies, two_bodies_of_one_scope_do_not_mix);
