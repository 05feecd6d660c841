// Sharded optimizers: their life, and the functions that the optimizer calls.
#include "parallel/shard/shard.h"

#include "base/mem.h"
#include "base/value.h"
#include "collective/group/group.h"
#include "collective/opening/opening.h"

#undef GW_ORIGIN
#define GW_ORIGIN "gw_optimizer_shard"  // of the calls in this file, in errors

// ---- Life ---------------------------------------------------------------------------------------

static bool add_group(gw_scope *s, gw_optimizer *o, const optimizer_group *g, const gw_value *refs,
                      const int *numbers, int count) {
    (void)o, (void)g, (void)refs, (void)numbers;
    if (count)
        scope_fail(s, GW_INVALID,
                   "gw_optimizer_add_parameter_group: a sharded optimizer cannot have parameters "
                   "of other workers");
    return gw_ok(s);
}

void shard_close(remote_part *part) {
    shard *x = (shard *)part;
    shard_forget_early(x);
    held_forget(&x->held);
    mem_free(x->early);
    handle_release(x->own);
    handle_release(x->group);
    mem_free(x->pieces);
    mem_free(x->rows);
    mem_free(x->loads);
    mem_free(x);
}

static const remote_part_class shard_class = { .kind = shard_kind,
                                               .add_group = add_group,
                                               .close = shard_close,
                                               .step = shard_step,
                                               .refused = shard_step,
                                               .write = shard_write,
                                               .load = shard_load,
                                               .unscale = shard_unscale };

static bool check(gw_scope *s, const gw_optimizer *o, gw_shard_options options) {
    if (!optimizer_check(s, o, "gw_optimizer_shard")) return false;
    if (shard_of(o))
        scope_fail(s, GW_WRONG_STATE, "gw_optimizer_shard: the optimizer is sharded already");
    else if (o->remote)
        scope_fail(s, GW_INVALID,
                   "gw_optimizer_shard: the optimizer has parameters of other workers");
    else if (o->step_count)
        scope_fail(s, GW_WRONG_STATE, "gw_optimizer_shard: the optimizer has already made a step");
    else if ((unsigned)options.gradients > GW_SHARDED)
        scope_fail(s, GW_INVALID,
                   "gw_optimizer_shard: .gradients is %d, which is neither GW_WHOLE nor GW_SHARDED",
                   (int)options.gradients);
    return gw_ok(s);
}

static shard *take(gw_scope *s, const gw_optimizer *o, gw_group *g, bool is_flat) {
    if (!gw_ok(s)) return NULL;
    shard *x = mem_calloc(sizeof *x);
    if (x) {
        *x = (shard){ .part.class = &shard_class, .group = handle_retain(g), .is_flat = is_flat };
        x->loads = mem_calloc((size_t)gw_group_size(g) * sizeof *x->loads);
        if (is_flat) x->own = optimizer_open(s, o->rule);
        if (x->loads && (!is_flat || x->own)) return x;
        shard_close(&x->part);
    }
    scope_fail(s, GW_NO_MEMORY, "gw_optimizer_shard: no memory");
    return NULL;
}

shard *shard_open(gw_scope *s, const gw_optimizer *o, gw_group *g, bool is_flat) {
    shard *x = take(s, o, g, is_flat);
    if (!x || shard_share_out(s, o, x)) return x;
    shard_close(&x->part);
    return NULL;
}

static void take_back(gw_optimizer *o) {
    for (int i = 0; i < o->parameter_count; i++) o->parameters[i].elsewhere = false;
    shard_close(o->remote);
    o->remote = NULL;
}

static gw_list *describe_options(gw_scope *s, const gw_shard_options *o) {
    gw_list *all = gw_list_open(s);
    gw_list_add(s, all, gw_format(s, ".flat = %s", o->flat ? "true" : "false"));
    gw_list_add(s, all, gw_format(s, ".overlap = %s", o->overlap ? "true" : "false"));
    gw_list_add(
        s, all,
        gw_format(s, ".gradients = %s", o->gradients == GW_SHARDED ? "GW_SHARDED" : "GW_WHOLE"));
    return all;
}

void gw_optimizer_shard_with(gw_scope *s, gw_optimizer *o, gw_shard_options options) {
    if (!check(s, o, options)) {
        group_open_own_failed(s, options.group);
        return;
    }
    gw_scope *t = gw_scope_open(s);
    opening how = { .function = "gw_optimizer_shard",
                    .of = o->rule->name,
                    .options = describe_options(t, &options) };
    gw_group *g = group_open_own(t, t, options.group, &how);
    shard *x = take(t, o, g, options.flat);
    if (x) {
        o->remote = &x->part;
        x->shares_gradients = options.gradients == GW_SHARDED;
        bool ok = shard_extend(t, o);
        if (ok && x->shares_gradients) ok = shard_share_gradients(t, o, NULL);
        if (ok && options.overlap) ok = shard_overlap(t, o);
        if (!ok) take_back(o);
    }
    gw_scope_close_up(t);
}
