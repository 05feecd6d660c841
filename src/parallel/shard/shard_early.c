// Steps that begin early: the owner of a parameter prepares its new values as the bucket with its gradient arrives. The
// step uses them if gradient, options and values have not changed since; else it computes anew, so that the results,
// also of clipping, are as without.
#include "parallel/shard/shard.h"

#include "autograd/grads.h"
#include "base/mem.h"
#include "base/mutation.h"
#include "collective/group/group.h"
#include "parallel/ddp/ddp.h"

#include <string.h>

// ---- One at a time ------------------------------------------------------------------------------

static env *env_of(const shard *x) {
    return x->group->agent->env;
}

void shard_begin(shard *x) {
    env *e = env_of(x);
    if (!x->early) return;
    env_enter(e);
    x->is_stepping = true;
    while (x->is_preparing) {
        waiter w = { .what = "a parameter that is stepped early" };
        x->stepper = &w;
        env_wait(e, &w, ENV_NEVER);
        x->stepper = NULL;
    }
    env_leave(e);
}

void shard_end(shard *x) {
    if (!x->early) return;
    env_enter(env_of(x));
    x->is_stepping = false;
    env_leave(env_of(x));
}

// A gradient that arrives while another one is prepared, or in a step, is left to the step.
static bool begin_early(shard *x) {
    env_enter(env_of(x));
    bool may = !x->is_stepping && !x->is_preparing && !x->is_in_doubt;
    if (may) x->is_preparing = true;
    env_leave(env_of(x));
    return may;
}

static void end_early(shard *x) {
    env_enter(env_of(x));
    x->is_preparing = false;
    if (x->stepper) env_wake(env_of(x), x->stepper);
    env_leave(env_of(x));
}

// ---- Preparing ----------------------------------------------------------------------------------

static void forget(early *e) {
    handle_release(e->mean);
    e->mean = NULL;
}

// Where this member steps its part of parameter |i|.
typedef struct own_part {
    gw_optimizer *optimizer;
    int number;  // of the parameter there; -1: it has none
    const piece *piece;
} own_part;

static own_part own_part_of(gw_optimizer *o, int i) {
    shard *x = shard_of(o);
    if (!x->own) return (own_part){ o, o->parameters[i].elsewhere ? -1 : i, &x->pieces[i] };
    for (int j = 0, k = 0; j < x->piece_count && k < x->own->parameter_count; j++) {
        if (x->pieces[j].owner != gw_group_rank(x->group)) continue;
        if (x->pieces[j].parameter == i) return (own_part){ x->own, k, &x->pieces[j] };
        k++;
    }
    return (own_part){ .number = -1 };
}

static bool prepare_part(gw_scope *s, gw_optimizer *o, own_part at, gw_tensor *mean) {
    shard *x = shard_of(o);
    if (x->own) {
        shard_take_options(o, x);
        mean = shard_cut(s, o, at.piece, mean);
    }
    return gw_ok(s) && optimizer_prepare_early(s, at.optimizer, at.number, mean);
}

// Means may be shared out as an optimizer was before it was re-formed.
static bool fits(own_part at, const parameter *p, const gw_tensor *mean) {
    return at.number >= 0 && (mean->numel == p->x->numel || mean->numel == at.piece->count);
}

static void prepare(gw_scope *s, gw_optimizer *o, int i, gw_tensor *mean) {
    early *e = &shard_of(o)->early[i];
    const parameter *p = &o->parameters[i];
    own_part at = own_part_of(o, i);
    forget(e);
    if (!fits(at, p, mean)) return;
    if (!prepare_part(s, o, at, mean)) return;
    e->mean = handle_retain(mean);
    e->mean_version = mean->storage->version;
    e->version = p->x->storage->version;
    memcpy(&e->options, &o->groups[p->group], sizeof e->options);
}

// An error here occurs in the step, too, and is reported there.
static void mean_arrived(gw_handle *taker, gw_scope *s, gw_tensor *leaf, gw_tensor *mean) {
    gw_optimizer *o = (gw_optimizer *)(void *)taker;
    shard *x = shard_of(o);
    int i = 0;
    if (!x || !x->early || !begin_early(x)) return;
    gw_scope *t = scope_open_unrecorded(s);
    while (i < x->early_count && o->parameters[i].x != leaf) i++;
    if (i < x->early_count) prepare(t, o, i, mean);
    scope_close_unread(t);
    end_early(x);
}

// ---- The step -----------------------------------------------------------------------------------

static bool is_as_it_was(const gw_scope *s, const gw_optimizer *o, int i) {
    const early *e = &shard_of(o)->early[i];
    const parameter *p = &o->parameters[i];
    if (has_mutation(MUTATION_PREPARED_STEP_KEPT) && e->mean) return true;
    return e->mean && e->mean == grads_find(s, gate_kept_of(p->x)) &&
           e->mean_version == e->mean->storage->version && e->version == p->x->storage->version &&
           memcmp(&e->options, &o->groups[p->group], sizeof e->options) == 0;
}

void shard_discard_stale(const gw_scope *s, gw_optimizer *o) {
    for (int i = 0; i < shard_of(o)->early_count; i++) {
        own_part at = own_part_of(o, i);
        if (at.number < 0 || !at.optimizer->parameters[at.number].is_early) continue;
        if (!is_as_it_was(s, o, i)) optimizer_discard(at.optimizer, at.number);
    }
}

void shard_forget_early(shard *x) {
    for (int i = 0; i < x->early_count; i++) forget(&x->early[i]);
}

bool shard_overlap(gw_scope *s, gw_optimizer *o) {
    shard *x = shard_of(o);
    int known = 0;
    x->early = mem_calloc((size_t)o->parameter_count * sizeof *x->early);
    if (!x->early) return scope_fail(s, GW_NO_MEMORY, "gw_optimizer_shard: no memory");
    x->early_count = o->parameter_count;
    for (int i = 0, leaf; i < o->parameter_count && gw_ok(s); i++) {
        gw_ddp *d = ddp_of_parameter(o->parameters[i].x, &leaf);
        if (d && d->taker != &o->handle) ddp_set_taker(s, d, &o->handle, mean_arrived);
        known += d != NULL;
    }
    if (!known)
        scope_fail(s, GW_INVALID,
                   "gw_optimizer_shard: .overlap needs a model that gw_ddp_open has opened, but no "
                   "parameter belongs to such a model");
    return gw_ok(s);
}
