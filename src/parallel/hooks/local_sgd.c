// Gradients that few members or none exchange, for weights that are averaged now and then.
#include "base/map.h"
#include "base/scope.h"
#include "collective/group/group.h"
#include "parallel/ddp/ddp.h"
#include "tensor/tensor.h"
#include <gradwire/comm_hook.h>

// Near members have entered a collective that their other near members enter only if they have entered this bucket,
// too: no other member ends it.
static void end_with(gw_scope *s, gw_future *barrier, void *near) {
    if (gw_future_error(barrier)) gw_cancel(s, near);
    handle_release(near);
}

static gw_value second_of(gw_scope *s, gw_value both, void *context) {
    (void)context;
    return gw_list_get(s, gw_list_of(s, both), 1);
}

// See Note [Later rounds of a hook]: the group is another one, in which passes have no position.
static gw_future *average_near(gw_scope *s, gw_bucket *b, gw_group *near) {
    uint64_t key = hash_u64(hash_u64(b->ddp->group->id + (uint64_t)b->pass) + (uint64_t)b->index);
    gw_collective_options options = ddp_options_of(b->ddp);
    options.key = GROUP_KEY_ONCE | key;
    gw_tensor *x = gw_bucket_tensor(s, b);
    s->has_own_keys = true;
    gw_future *f = gw_all_reduce_async_with(s, near, x, GW_AVG, options);
    s->has_own_keys = false;
    gw_future *barrier = gw_barrier_async_with(s, b->ddp->group, ddp_options_of(b->ddp));
    if (!gw_ok(s)) return f;
    gw_on_done(s, barrier, end_with, handle_retain(f));
    if (!gw_ok(s)) handle_release(f);
    gw_future *both[] = { barrier, f };  // in this order: the error of all is first
    return gw_then(s, gw_collect_all(s, both, 2), second_of, NULL);
}

gw_future *gw_hook_local_sgd(gw_scope *s, gw_bucket *b, void *local_sgd) {
    const gw_local_sgd *l = local_sgd;
    if (gw_ok(s) && !l) scope_fail(s, GW_INVALID, "gw_hook_local_sgd: its gw_local_sgd is NULL");
    if (!gw_ok(s) || l->done + b->pass <= l->start) return gw_hook_all_reduce(s, b, NULL);
    return l->near ? average_near(s, b, l->near) : gw_hook_none(s, b, NULL);
}
