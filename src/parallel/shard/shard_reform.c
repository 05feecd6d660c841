// Sharded optimizers in another group: all members at one step, and each with the state of its part.
#include "parallel/shard/shard.h"

#include "base/log.h"
#include "base/mem.h"
#include "base/value.h"
#include "collective/group/group.h"
#include "collective/opening/opening.h"
#include "parallel/ddp/ddp.h"
#include "tensor/tensor.h"
#include <gradwire/ops.h>

#undef GW_ORIGIN
#define GW_ORIGIN "gw_optimizer_reform"  // of the calls in this file, in errors

// The size of one round.
enum { ROUND_BYTES = 25 << 20 };

// ---- One step for all ---------------------------------------------------------------------------

// The lowest rank of those that have taken most steps.
static int find_first(gw_scope *s, const gw_optimizer *o, gw_group *g, int64_t *out_steps) {
    bool is_flat = shard_of(o)->is_flat;
    int64_t own[] = { o->step_count, is_flat }, sizes[] = { 1, 2 };
    gw_tensor *all = gw_all_gather(s, g, gw_from_with(s, GW_I64, own, (gw_shape){ 2, sizes }));
    const int64_t *at = gw_ok(s) ? gw_data(all) : NULL;
    int first = 0;
    for (int m = 0; at && m < gw_group_size(g); m++) {
        if (at[2 * m] > at[2 * first]) first = m;
        if (at[2 * m + 1] != is_flat)
            scope_fail(s, GW_MISMATCH,
                       "gw_optimizer_reform: parameters are assigned %s, but %s on %s",
                       is_flat ? "in ranges" : "whole", is_flat ? "whole" : "in ranges",
                       gw_group_worker(s, g, m).name);
    }
    *out_steps = at ? at[2 * first] : 0;
    return first;
}

// The values of |root| for parameters from |from| up to |end|, staged where there is memory for them.
static void give_values(gw_scope *s, gw_optimizer *o, gw_group *g, int root, int from, int end) {
    gw_scope *t = scope_open_unrecorded(s);
    gw_tensor **all = gw_alloc(t, (size_t)(end - from) * sizeof *all);
    for (int i = from; all && i < end; i++) all[i - from] = gw_detach(t, o->parameters[i].x);
    gw_list *received = gw_broadcast_coalesced(t, g, all, end - from, root);
    for (int i = from; gw_ok(t) && i < end; i++) {
        const parameter *p = &o->parameters[i];
        const gw_tensor *x = gw_tensor_of(t, gw_list_get(t, received, i - from));
        if (gw_ok(t) && (x->dtype != p->x->dtype || x->numel != p->x->numel))
            scope_fail(t, GW_MISMATCH,
                       "gw_optimizer_reform: parameter %d of %s has another shape or dtype", i,
                       gw_group_worker(t, g, root).name);
        if (gw_ok(t) && p->new_x && !p->grad) optimizer_stage(o, i, 0, x, 0, x->numel);
    }
    gw_scope_close_up(t);
}

static void give_all_values(gw_scope *s, gw_optimizer *o, gw_group *g, int root) {
    int end = 0;
    do {
        int64_t room = ROUND_BYTES;
        int from = end;
        while (end < o->parameter_count &&
               (end == from || (int64_t)tensor_size(o->parameters[end].x) <= room))
            room -= (int64_t)tensor_size(o->parameters[end++].x);
        give_values(s, o, g, root, from, end);
    } while (gw_ok(s) && end < o->parameter_count);
}

// Parameters become those of |root|. A member that was in the middle of the last step has prepared its part of it,
// and lacked the parts of others.
static void catch_up(gw_scope *s, gw_optimizer *o, gw_group *g, int root, int64_t steps) {
    shard *x = shard_of(o);
    bool completes = x->is_in_doubt && o->step_count == steps - 1;
    if (!completes) shard_abort(o, x);
    for (int i = 0; gw_ok(s) && i < o->parameter_count; i++) {
        if (completes && !o->parameters[i].elsewhere) continue;
        optimizer_discard(o, i);
        optimizer_reserve_values(s, o, i);
    }
    give_all_values(s, o, g, root);
    if (!gw_ok(s)) {
        if (!completes) shard_abort(o, x);
        return;
    }
    if (completes) {
        shard_commit(o, x);
        return;
    }
    int64_t own = o->step_count;
    optimizer_commit(o);
    o->step_count = own;
}

// ---- Taking the new part ------------------------------------------------------------------------

// Where the state of |o| itself is not, an optimizer of this member's own pieces has it.
static void put_states(gw_optimizer *o, const shard *next, loaded *l, held_states *fresh) {
    for (int k = 0; k < fresh->count; k++) {
        held_state *from = &fresh->items[k];
        parameter *to = next->own ? &next->own->parameters[k] : &l->parameters[from->parameter];
        to->step_count = from->steps;
        for (int i = 0; i < OPTIM_STATES_MAX; i++) {
            to->state[i] = from->state[i];
            from->state[i] = NULL;
        }
    }
    state_take_over(o, l);
}

// Cannot fail. |own| is held until a step shows that all members have re-formed theirs.
static void take(gw_optimizer *o, shard *next, loaded *l, held_states *fresh, held_states *own) {
    shard *x = shard_of(o), old = *x;
    x->group = next->group;
    x->own = next->own;
    x->pieces = next->pieces;
    x->rows = next->rows;
    x->piece_count = next->piece_count;
    x->covered = next->covered;
    x->loads = next->loads;
    next->group = old.group;
    next->own = old.own;
    next->pieces = old.pieces;
    next->rows = old.rows;
    next->loads = old.loads;
    shard_note_elsewhere(o, x, 0);
    put_states(o, x, l, fresh);
    held_forget(&x->held);
    x->held = *own;
    x->held.at_step = o->step_count;
    *own = (held_states){ 0 };
}

// Learning rates and counters, as |root| has them.
static void read_groups(gw_scope *s, const gw_optimizer *o, gw_group *g, int root, loaded *out) {
    gw_map *own = gw_map_open(s);
    bool leads = gw_group_rank(g) == root;
    if (leads) state_write_groups(s, o, own);
    gw_value given =
        gw_broadcast_value_with(s, g, leads ? gw_value_of(own) : gw_none(), root,
                                GW_OPTIONS(gw_collective_options, .origin = GW_ORIGIN));
    if (gw_ok(s)) state_read_groups(s, o, "gw_optimizer_reform", gw_map_of(s, given), out);
}

// Each member prepares its part, and takes it when all have.
static void share_anew(gw_scope *s, gw_optimizer *o, gw_group *g, int root, int64_t steps,
                       gw_map *saved, gw_optimizer_reformed *out) {
    held_states own = { 0 }, fresh = { 0 };
    loaded groups = { 0 }, old = { 0 };
    read_groups(s, o, g, root, &groups);
    shard *next = gw_ok(s) ? shard_open(s, o, g, shard_of(o)->is_flat) : NULL;
    if (gw_ok(s) && o->step_count == steps) held_collect(s, o, &own);
    if (gw_ok(s) && saved) state_read(s, o, "gw_optimizer_reform", saved, &old);
    held_move(s, o, next, g, &own, saved ? &old : NULL, &fresh, out);
    gw_barrier(s, g);
    if (gw_ok(s)) take(o, next, &groups, &fresh, &own);
    held_forget(&own);
    held_forget(&fresh);
    state_forget(&groups);
    state_forget(&old);
    if (next) shard_close(&next->part);
}

static void log_reform(const gw_optimizer *o, const gw_group *g, const gw_optimizer_reformed *r) {
    int64_t all = 0;
    for (int i = 0; i < o->parameter_count; i++) all += o->parameters[i].x->numel;
    if (r->lost && !gw_group_rank(g))
        log_line("gw_optimizer_reform: the state of %lld of %lld parameter elements was lost with "
                 "the members that had it, and is initialised again",
                 (long long)r->lost, (long long)all);
}

void shard_reform(gw_scope *s, gw_optimizer *o, gw_group *of, gw_map *saved,
                  gw_optimizer_reformed *out) {
    shard *x = shard_of(o);
    gw_optimizer_reformed counts = { 0 };
    gw_scope *t = scope_open_unrecorded(s);
    opening how = { .function = "gw_optimizer_reform", .of = o->rule->name };
    gw_group *g = group_open_own(t, t, of, &how);
    if (saved && !gw_map_count(saved)) saved = NULL;
    shard_begin(x);
    shard_forget_early(x);
    int64_t steps = 0;
    int root = shard_compare_parameters(t, g, o) ? find_first(t, o, g, &steps) : 0;
    if (gw_ok(t)) catch_up(t, o, g, root, steps);
    if (gw_ok(t)) share_anew(t, o, g, root, steps, saved, &counts);
    shard_end(x);
    if (gw_ok(t)) log_reform(o, g, &counts);
    if (gw_ok(t)) *out = counts;
    gw_scope_close_up(t);
}

void shard_follow(gw_scope *s, gw_optimizer *o, gw_ddp *d, gw_group *g) {
    gw_optimizer_reformed ignored;
    shard_reform(s, o, g, NULL, &ignored);
    if (gw_ok(s) && shard_of(o)->shares_gradients) shard_share_gradients(s, o, d);
}

// ---- Of a program -------------------------------------------------------------------------------

gw_optimizer_reformed gw_optimizer_reform_with(gw_scope *s, gw_optimizer *o, gw_group *g,
                                               gw_optimizer_reform_options options) {
    gw_optimizer_reformed counts = { 0 };
    bool ok =
        optimizer_check(s, o, "gw_optimizer_reform") && group_is_given(s, g, "gw_optimizer_reform");
    if (ok && !shard_of(o))
        scope_fail(s, GW_INVALID, "gw_optimizer_reform: the optimizer is not sharded");
    if (!ok || !gw_ok(s)) {
        if (g) group_open_own_failed(s, g);
        return counts;
    }
    shard_reform(s, o, g, options.saved, &counts);
    return counts;
}
