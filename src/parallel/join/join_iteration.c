// The iterations of a join: how one begins, shadows of a member that has closed the join, and the end.
#include "autograd/grads.h"
#include "base/log.h"
#include "base/mutation.h"
#include "collective/api/shadow.h"
#include "parallel/join/join.h"
#include "parallel/shard/shard.h"

#include <string.h>

#undef GW_ORIGIN
#define GW_ORIGIN "gw_join"  // of the calls in this file, in errors

// What a member contributes to the count: UNEVEN-1.
enum { ACTIVE = 1, SYNCHRONISED = 2, STOPS = 4 };
enum { SKEW_WARNED_OF = 1000 };

typedef struct census {
    int active, synchronised;
    int last, stops;  // ranks: the highest active one, the lowest that stops; -1
} census;

static census count(const uint8_t *all, int members) {
    census c = { .last = -1, .stops = -1 };
    for (int rank = 0; rank < members; rank++) {
        if (all[rank] & STOPS && c.stops < 0) c.stops = rank;
        if (!(all[rank] & ACTIVE)) continue;
        c.active++;
        c.synchronised += (all[rank] & SYNCHRONISED) != 0;
        c.last = rank;
    }
    return c;
}

// ---- Ending -------------------------------------------------------------------------------------

// UNEVEN-6. An error that the group has reported is known to all members.
void join_fail(gw_scope *s, gw_join *j) {
    j->is_over = true;
    j->error = *scope_error(s);
    env_enter(j->agent->env);
    bool is_known_to_all = group_has_reported(j->group, &j->error);
    env_leave(j->agent->env);
    if (!is_known_to_all) gw_group_fail(s, j->group, j->error.status, "%s", j->error.text);
}

// ---- Beginning ----------------------------------------------------------------------------------

static bool check_census(gw_scope *s, const gw_join *j, const census *c) {
    if (c->stops >= 0 && c->active)
        scope_fail(s, GW_CANCELLED, "%s has no more input",
                   gw_group_worker(s, j->group, c->stops).name);
    else if (c->synchronised && c->synchronised < c->active)
        scope_fail(s, GW_INVALID,
                   "an iteration of a join must be synchronised on all members with input or on "
                   "none, but is on %d of %d",
                   c->synchronised, c->active);
    return gw_ok(s);
}

static void notify_replicas(gw_join *j) {
    env *e = j->agent->env;
    env_enter(e);
    for (int i = 0; i < j->count; i++) {
        gw_ddp *d = j->parts[i].ddp;
        if (!d) continue;
        d->join.awaits_forward = d->join.awaits_pass = j->at.synchronised;
        d->join.buffer_root = j->at.last;
        d->join.is_whole = j->at.active == j->at.members;
        d->join.divisor = j->options.active_divisor ? j->at.active : 0;
    }
    env_leave(e);
}

// UNEVEN-1: this member contributes |own|. Returns the number of active members; with |s| failed the join is over.
static int meet(gw_scope *s, gw_join *j, uint8_t own) {
    int64_t members = j->at.members;
    gw_scope *t = scope_open_unrecorded(s);
    uint8_t *all = gw_alloc(t, (size_t)members);
    if (all) {
        memset(all, 0, (size_t)members);
        all[gw_group_rank(j->group)] = own;
    }
    gw_tensor *mine = all ? gw_from_with(t, GW_U8, all, (gw_shape){ 1, &members }) : NULL;
    gw_tensor *met = gw_all_reduce(t, j->group, mine, GW_BOR);
    census c = { 0 };
    if (gw_ok(t)) c = count(gw_data(met), (int)members);
    bool is_known_to_all = gw_ok(t) && !check_census(t, j, &c);
    if (is_known_to_all) j->is_over = true;
    gw_scope_close_up(t);
    if (is_known_to_all) j->error = *scope_error(s);
    if (!gw_ok(s) && !is_known_to_all) join_fail(s, j);
    if (!gw_ok(s) || !c.active) return 0;
    j->at = (gw_join_iteration){ .number = j->at.number + 1,
                                 .members = (int)members,
                                 .active = c.active,
                                 .last = c.last,
                                 .synchronised = c.synchronised > 0 };
    notify_replicas(j);
    return c.active;
}

// The passes that the shadows of others waited for in the last iteration have happened here.
static bool check_passes(gw_scope *s, const gw_join *j) {
    env *e = j->agent->env;
    bool missing = false;
    env_enter(e);
    for (int i = 0; i < j->count; i++)
        missing |= j->parts[i].ddp && j->parts[i].ddp->join.awaits_pass;
    env_leave(e);
    if (missing)
        scope_fail(s, GW_WRONG_STATE,
                   "iteration %lld of a join has made no backward pass over its model",
                   (long long)j->at.number);
    return !missing;
}

bool join_begin_iteration(gw_scope *s, gw_join *j, bool synchronised) {
    if (j->is_over) return scope_fail_with(s, &j->error);
    check_passes(s, j);
    meet(s, j, synchronised ? ACTIVE | SYNCHRONISED : ACTIVE);
    for (int i = 0; gw_ok(s) && synchronised && i < j->count; i++)
        if (j->parts[i].ddp) gate_note(s, &j->parts[i].ddp->gate);
    return gw_ok(s);
}

// ---- Shadows ------------------------------------------------------------------------------------

static void shadow(gw_scope *s, const gw_join *j, const gw_joinable *p) {
    if (p->ddp)
        ddp_shadow(s, p->ddp, j->at.synchronised);
    else if (p->optimizer && j->at.synchronised)
        gw_optimizer_step(s, p->optimizer);
    else if (p->shadow)
        p->shadow(s, &j->at, p->context);
}

gw_group *joinable_group(const gw_joinable *p) {
    const shard *x = p->optimizer ? shard_of(p->optimizer) : NULL;
    return p->ddp ? p->ddp->group : x ? x->group : p->group;
}

// A group of the join has reported |error|, so that the members of that iteration have it.
static bool is_reported(const gw_join *j, const gw_error *error) {
    env *e = j->agent->env;
    bool is_known_to_all = false;
    env_enter(e);
    for (int i = 0; i < j->count; i++) {
        const gw_group *g = joinable_group(&j->parts[i]);
        is_known_to_all |= group_has_reported(g ? g : j->group, error);
    }
    env_leave(e);
    return is_known_to_all;
}

static void shadow_all(gw_scope *s, gw_join *j) {
    gw_scope *t = gw_scope_open(s);
    grads_note_pass(t);  // a shadow steps by the passes of the others
    for (int i = 0; i < j->count; i++) shadow(t, j, &j->parts[i]);
    if (!gw_ok(t) && is_reported(j, scope_error(t))) gw_scope_clear(t);
    gw_scope_close_up(t);
}

// ---- The end ------------------------------------------------------------------------------------

// UNEVEN-5.
static void await_all(gw_scope *s, gw_join *j) {
    gw_scope *t = gw_scope_open(s);
    int64_t members = j->at.members;
    gw_tensor *bytes = gw_zeros_with(t, GW_U8, (gw_shape){ 1, &members });
    gw_all_to_all(t, j->group, bytes);
    gw_scope_close_up(t);
}

static void finish(gw_scope *s, gw_join *j) {
    gw_scope *t = gw_scope_open(s);
    for (int i = 0; i < j->count && gw_ok(t); i++) {
        const gw_joinable *p = &j->parts[i];
        bool buffers = p->ddp && p->ddp->options.buffers != GW_BUFFERS_LEFT;
        if (p->ddp)
            replicas_broadcast(t, p->ddp, true, buffers, j->at.last);
        else if (p->finish)
            p->finish(t, &j->at, p->context);
    }
    gw_scope_close_up(t);
}

// The collectives of functions are theirs.
static bool is_known(void *context, const gw_group *g) {
    const gw_join *j = context;
    for (int i = 0; i < j->count; i++)
        if (j->parts[i].group == g) return true;
    return false;
}

void join_shadow_active(gw_scope *s, gw_join *j) {
    if (!check_passes(s, j)) return;
    uint64_t list = j->group->list;
    uint8_t own = j->options.fail_early ? STOPS : 0;
    bool counted = has_mutation(MUTATION_JOINED_COUNTED_LATE);
    shadow_begin(j->agent, list, is_known, j);
    for (int64_t since = 1; meet(s, j, counted ? ACTIVE | SYNCHRONISED : own); since++) {
        counted = false;
        shadow_all(s, j);
        if (since == SKEW_WARNED_OF)
            log_line("%s has had no input for %d iterations of a join, but other members still "
                     "have input",
                     j->agent->name, SKEW_WARNED_OF);
    }
    if (gw_ok(s)) await_all(s, j);
    shadow_end(j->agent, list);
    gw_barrier(s, j->group);  // behind which the others may call collectives of theirs
    if (gw_ok(s)) finish(s, j);
    if (gw_ok(s)) j->is_over = true;
}
