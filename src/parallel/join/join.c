// The functions of gradwire/join.h: opening and closing a join, and its joinables.
#include "parallel/join/join.h"

#include "base/map.h"
#include "base/mem.h"
#include "base/value.h"
#include "collective/group/group.h"
#include "collective/opening/opening.h"
#include "parallel/shard/shard.h"

static gw_join join_poison;

// ---- Joinables ----------------------------------------------------------------------------------

static void attach(gw_ddp *d, gw_join *j, bool is_first) {
    env_enter(d->agent->env);
    d->join = (ddp_in_join){ .join = j, .begin = join_begin_iteration, .is_first = is_first };
    env_leave(d->agent->env);
}

static void detach(gw_join *j) {
    for (int i = 0; i < j->count; i++)
        if (j->parts[i].ddp && j->parts[i].ddp->join.join == j)
            attach(j->parts[i].ddp, NULL, false);
}

static bool check_part(gw_scope *s, const gw_joinable *p, int i) {
    bool has_functions = p->shadow || p->finish || p->context || p->group;
    if (!p->ddp + !p->optimizer + !has_functions != 2) {
        scope_fail(s, GW_INVALID,
                   "gw_join_open: joinable %d must have exactly one of a gw_ddp, an optimizer, and "
                   "functions",
                   i);
    } else if (p->ddp) {
        if (ddp_is_usable(s, "gw_join_open", p->ddp) && p->ddp->join.join)
            scope_fail(s, GW_WRONG_STATE, "gw_join_open: joinable %d is in another join", i);
    } else if (p->optimizer) {
        if (optimizer_check(s, p->optimizer, "gw_join_open") && p->optimizer->remote &&
            !shard_of(p->optimizer))
            scope_fail(s, GW_INVALID, "gw_join_open: joinable %d has parameters of other workers",
                       i);
    }
    return gw_ok(s);
}

static void check_once(gw_scope *s, const gw_joinable *parts, int count) {
    map seen = { 0 };  // by its address, the number of the joinable behind it
    for (int i = 0; gw_ok(s) && i < count; i++) {
        const void *is = parts[i].ddp ? (const void *)parts[i].ddp : parts[i].optimizer;
        intptr_t before = is ? (intptr_t)map_find(&seen, (uintptr_t)is) : 0;
        if (before)
            scope_fail(s, GW_DUPLICATE, "gw_join_open: joinables %d and %d are the same %s",
                       (int)before - 1, i, parts[i].ddp ? "gw_ddp" : "optimizer");
        else if (is && !map_put(&seen, (uintptr_t)is, (void *)((intptr_t)i + 1)))
            scope_fail(s, GW_NO_MEMORY, "gw_join_open: no memory for %d joinables", count);
    }
    map_fini(&seen);
}

static gw_group *group_of_part(const gw_joinable *p) {
    gw_group *g = joinable_group(p);
    return g == &group_poison ? NULL : g;
}

// The group whose members all of them have; NULL for that of all workers.
static gw_group *first_group(const gw_joinable *parts, int count) {
    gw_group *g = NULL;
    for (int i = 0; i < count && !g; i++) g = group_of_part(&parts[i]);
    return g;
}

static void check_groups(gw_scope *s, const gw_joinable *parts, int count, const gw_group *first) {
    for (int i = 0; i < count; i++) {
        const gw_group *g = group_of_part(&parts[i]);
        if (g && g->list != first->list)
            scope_fail(s, GW_INVALID, "gw_join_open: joinable %d has a group with other members",
                       i);
    }
}

// ---- Life ---------------------------------------------------------------------------------------

static void destroy(gw_handle *h) {
    gw_join *j = (gw_join *)(void *)h;
    if (!j->is_over && !agent_is_closed(j->agent)) {
        gw_scope *s = agent_scope_open(j->agent, 0, 0, ENV_NEVER);
        scope_fail(s, GW_WRONG_STATE, "the scope of the join was closed before gw_join_close");
        join_fail(s, j);
        scope_close_unread(s);
    }
    detach(j);
    scope_close_unread(j->own);
    agent_release(j->agent);
    mem_free(j);
}

static const handle_class join_class = { .name = "join", .destroy = destroy };
static gw_join join_poison = { .handle = { .class = &join_class, .count = HANDLE_IMMORTAL } };

static gw_join *take(gw_scope *s, agent *a, const gw_joinable *parts, int count,
                     gw_join_options options) {
    gw_join *j = mem_calloc(sizeof *j);
    if (!j) {
        scope_fail(s, GW_NO_MEMORY, "gw_join_open: no memory");
        return NULL;
    }
    handle_init(&j->handle, &join_class);
    j->agent = agent_retain(a);
    j->own = agent_scope_open(a, 0, 0, ENV_NEVER);
    j->options = options;
    j->is_over = true;  // until it is open
    j->parts = gw_alloc(j->own, (size_t)count * sizeof *j->parts);
    for (int i = 0; j->parts && i < count; i++) {
        j->parts[i] = parts[i];
        if (parts[i].ddp) scope_own(j->own, handle_retain(parts[i].ddp));
        if (parts[i].optimizer) scope_own(j->own, handle_retain(parts[i].optimizer));
    }
    if (gw_ok(j->own)) return j;
    scope_fail_with(s, scope_error(j->own));
    handle_release(j);
    return NULL;
}

static const char *kind_of(gw_scope *s, const gw_joinable *p) {
    if (p->ddp) return gw_format(s, "a gw_ddp of %s", gw_module_name(p->ddp->model));
    if (!p->optimizer) return "functions";
    return shard_of(p->optimizer) ? "a sharded optimizer" : "an optimizer";
}

// Each member may end the join early for all: |fail_early| is its own.
static gw_list *describe(gw_scope *s, const gw_join *j, int count) {
    gw_list *all = gw_list_open(s);
    const gw_join_options *o = &j->options;
    gw_list_add(s, all, gw_format(s, ".off = %s", o->off ? "true" : "false"));
    gw_list_add(s, all, gw_format(s, ".active_divisor = %s", o->active_divisor ? "true" : "false"));
    for (int i = 0; i < count; i++)
        gw_list_add(s, all, gw_format(s, "joinable %d = %s", i, kind_of(s, &j->parts[i])));
    return all;
}

static bool open_group(gw_scope *s, gw_join *j, gw_group *of, int count) {
    gw_scope *t = gw_scope_open(s);
    opening how = { .function = "gw_join_open", .options = describe(t, j, count) };
    gw_group *g = group_open_own(t, j->own, of, &how);
    gw_scope_close_up(t);
    if (!gw_ok(s)) return false;
    j->group = g;
    j->at.members = j->at.active = gw_group_size(g);
    j->at.last = j->at.members - 1;
    return true;
}

gw_join *gw_join_open_with(gw_scope *s, const gw_joinable *joinables, int count,
                           gw_join_options options) {
    agent *a = gw_ok(s) ? agent_of(s) : NULL;
    gw_group *of = NULL;
    if (a && (count < 1 || !joinables))
        scope_fail(s, GW_INVALID, "gw_join_open: %d joinables were given%s", count,
                   joinables ? "" : ", but the array is NULL");
    for (int i = 0; a && gw_ok(s) && i < count; i++) check_part(s, &joinables[i], i);
    if (a && gw_ok(s)) check_once(s, joinables, count);
    of = joinables && count > 0 ? first_group(joinables, count) : NULL;
    if (a && gw_ok(s)) check_groups(s, joinables, count, of);
    gw_join *j = a && gw_ok(s) ? take(s, a, joinables, count, options) : NULL;
    if (!j) {
        bool is_known = joinables && count > 0;  // which group the others open it in
        if (is_known) group_open_own_failed(s, of);
        return &join_poison;
    }
    if (!open_group(s, j, of, count) || !(j = scope_own(s, j))) {
        if (j) handle_release(j);
        return &join_poison;
    }
    if (options.off) return j;
    j->count = count;
    j->is_over = false;
    for (int i = 0; i < count; i++)
        if (joinables[i].ddp) attach(joinables[i].ddp, j, i == 0);
    return j;
}

static bool is_usable(gw_scope *s, const char *what, const gw_join *j) {
    if (j && j != &join_poison) return true;
    return scope_fail(s, GW_INVALID, "%s: %s", what,
                      j ? "the join could not be opened" : "the join is NULL");
}

void gw_join_close(gw_scope *s, gw_join *j) {
    if (!is_usable(s, "gw_join_close", j)) return;
    if (!j->is_over && gw_ok(s)) join_shadow_active(s, j);
    if (!j->is_over) join_fail(s, j);
    detach(j);
}

// ---- Iterations ---------------------------------------------------------------------------------

void gw_join_notify(gw_scope *s, gw_join *j) {
    if (!is_usable(s, "gw_join_notify", j) || j->options.off) return;
    if (j->parts[0].ddp)
        scope_fail(s, GW_INVALID,
                   "gw_join_notify: iterations of this join begin when its model is called");
    else
        join_begin_iteration(s, j, !s->not_synchronised);
}

gw_join_iteration gw_join_get_iteration(const gw_join *j) {
    return j ? j->at : (gw_join_iteration){ 0 };
}
