// What is the same in each pass over a model: the parameters that a pass reaches, and whether passes inside
// hooks do. With static_graph later passes do not exchange which are used, and nothing waits for hooks.
#include "parallel/ddp/ddp.h"

bool static_open(gw_ddp *d) {
    size_t count = (size_t)d->gate.leaf_count;
    d->first.reached = gw_alloc(d->own, 2 * count);
    if (!d->first.reached) return false;
    d->first.used = d->first.reached + count;
    d->stats.is_static = true;
    return true;
}

// The first leaf that this pass reaches and the first one did not, or the other way round; -1.
static int find_change(const ddp_first *first, const bool *reached, int count) {
    for (int i = 0; i < count; i++)
        if (first->reached[i] != reached[i]) return i;
    return -1;
}

bool static_follow(gw_scope *s, gw_ddp *d, const bool *reached) {
    int count = d->gate.leaf_count, changed = -1;
    env_enter(d->agent->env);
    if (d->first.is_known)
        changed = find_change(&d->first, reached, count);
    else
        for (int i = 0; i < count; i++) d->first.reached[i] = reached[i];
    d->first.is_known = true;
    if (changed >= 0) d->stats.is_static = false;
    env_leave(d->agent->env);
    if (changed < 0 || !d->options.static_graph) return true;
    return scope_fail(s, GW_INVALID, "static_graph: \"%s\" was %s in the first pass, but is %s now",
                      d->names[changed], reached[changed] ? "unused" : "used",
                      reached[changed] ? "used" : "unused");
}

bool static_check_gradient(gw_scope *s, const ddp_pass *r, int i, const gw_tensor *gradient) {
    const gw_ddp *d = r->ddp;
    env_enter(d->agent->env);
    bool is_lost = gradient && d->options.static_graph && d->first.is_final && !d->first.used[i];
    env_leave(d->agent->env);
    if (is_lost && ddp_keeps(d, i))
        scope_fail(s, GW_INVALID,
                   "static_graph: \"%s\" had no gradient in the first pass, but has one now",
                   d->names[i]);
    return gw_ok(s);
}

void static_learn_on_loop(const ddp_pass *r) {
    gw_ddp *d = r->ddp;
    for (int i = 0; i < d->gate.leaf_count; i++) d->first.used[i] = r->results[i] != NULL;
}

void static_finalize_on_loop(gw_ddp *d) {
    if (!d->options.static_graph) return;
    d->first.is_final = true;
    atomic_store_explicit(&d->gate.overlaps, !d->gate.has_inside, memory_order_relaxed);
}

void static_forget_on_loop(gw_ddp *d) {
    d->first.is_known = d->first.is_final = false;
    atomic_store_explicit(&d->gate.overlaps, false, memory_order_relaxed);
}
