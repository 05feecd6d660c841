// Opening groups.
#include "agent/changes/member_events.h"
#include "base/mem.h"
#include "base/value.h"
#include "collective/agree/agree.h"
#include "collective/run/backend_run.h"
#include "collective/group/groups_state.h"
#include "collective/opening/opening.h"
#include "collective/plan/hosts.h"
#include <gradwire/membership.h>

static bool check_members(gw_scope *s, agent *a, const gw_worker *workers, int count) {
    int self = 0;
    if (count < 1 || count > LIMIT_WORKERS || !workers)
        return scope_fail(s, GW_INVALID, "a group of %d workers is impossible%s", count,
                          workers ? "" : ": the list is NULL");
    for (int i = 0; i < count; i++) {
        int rank = workers[i].rank;
        const member *m = rank >= 0 && rank < a->member_count ? agent_member(a, rank) : NULL;
        if (!m || !m->known || m->worker.incarnation != workers[i].incarnation)
            return scope_fail(s, GW_NOT_FOUND,
                              "the list of workers has rank %d, which this worker does not know",
                              rank);
        for (int j = 0; j < i; j++) {
            if (workers[j].rank != rank) continue;
            return scope_fail(s, GW_INVALID, "%s is twice in the list of workers", m->name);
        }
        self += rank == a->rank;
    }
    if (!self) scope_fail(s, GW_INVALID, "this worker, %s, is not in the list of workers", a->name);
    return self;
}

// A failed allocation is an error: no other member would find the same.
static gw_status find_place_on_loop(gw_group *g, gw_error *error) {
    const char **addresses = mem_alloc((size_t)g->count * sizeof *addresses);
    if (!addresses) return error_set(error, GW_NO_MEMORY, "no memory for a group");
    for (int i = 0; i < g->count; i++)
        addresses[i] = agent_member(g->agent, g->members[i].rank)->addresses;
    g->place.host_size = hosts_find_size(addresses, g->count);
    // Without shared memory a center would hold the values of all members.
    if (g->place.host_size == g->count && hosts_share_memory(addresses, g->count))
        g->place.processors = g->agent->env->processor_count;
    mem_free(addresses);
    return GW_OK;
}

// The other members get |why| by their next collective in |g|.
static void refuse(agent *a, gw_group *g, const gw_error *why) {
    gw_error error = group_error_of_self(g, why);
    env_enter(a->env);
    if (!g->generation && groups_refuse_on_loop(g)) {
        unexpected_hand_over_on_loop(g);
        group_break_all_on_loop(g, &error);
    }
    env_leave(a->env);
}

typedef gw_status adding(gw_group *g, gw_error *out_lost, gw_error *error);

// Adds |g| by |add|, with the loop lock, and gives it to |s|.
static gw_group *add_group_by(gw_scope *s, agent *a, gw_group *g, adding *add) {
    gw_error error = { 0 }, lost = { 0 };
    if (!g) {
        scope_fail(s, GW_NO_MEMORY, "no memory for a group");
        return &group_poison;
    }
    gw_status status = backend_group_open(g, g->wanted_backend, &error);
    g->wanted_backend = NULL;
    env_enter(a->env);
    if (!status) status = find_place_on_loop(g, &error);
    if (!status) status = add(g, &lost, &error);
    if (!status) unexpected_hand_over_on_loop(g);
    if (!status && lost.status) group_break_on_loop(g, &lost);
    env_leave(a->env);
    if (status) {
        scope_fail_with(s, &error);
        if (add == groups_add_on_loop) refuse(a, g, &error);
        handle_release(g);
        return &group_poison;
    }
    g = scope_own(s, g);
    if (g) atomic_fetch_sub_explicit(&g->owners, 1, memory_order_acq_rel);  // this call
    return g ? g : &group_poison;
}

static gw_group *add_group(gw_scope *s, agent *a, gw_group *g) {
    return add_group_by(s, a, g, groups_add_on_loop);
}

// A scope for the checks of an opening that |s|, which has failed, refuses; NULL: this worker has no agent, or no
// memory.
static gw_scope *open_for_checks(const gw_scope *s) {
    agent *a = s->agent;
    bool has_agent = a && !agent_is_closed(a) && !is_process_fork(a->mark);
    gw_scope *t = has_agent ? agent_scope_open(a, 0, 0, ENV_NEVER) : NULL;
    return t && t->agent ? t : NULL;
}

// |s| has failed. NULL: the list or the name is not one of a group, so that nothing is known about it.
static gw_group *refuse_group(gw_scope *s, const gw_worker *workers, int count,
                              gw_group_open_options o, const char *title) {
    gw_scope *t = open_for_checks(s);
    if (!t) return &group_poison;
    agent *a = t->agent;
    o.backend = NULL;
    bool is_known = check_members(t, a, workers, count) && (!o.name || group_check_name(t, o.name));
    gw_group *g = is_known ? group_make(a, workers, count, o, title) : NULL;
    if (g) {
        refuse(a, g, scope_error(s));
        handle_release(g);
    }
    scope_close_unread(t);
    return is_known ? &group_poison : NULL;
}

// The same.
static gw_group *try_open(gw_scope *s, const gw_worker *workers, int count, gw_group_open_options o,
                          const char *title) {
    awaits_note_root(s);
    if (s->error) return refuse_group(s, workers, count, o, title);
    agent *a = agent_of(s);
    if (!a || !check_members(s, a, workers, count) || (o.name && !group_check_name(s, o.name)))
        return NULL;
    if (!group_check_options(s, o)) return refuse_group(s, workers, count, o, title);
    return add_group(s, a, group_make(a, workers, count, o, title));
}

static gw_group *open_group(gw_scope *s, const gw_worker *workers, int count,
                            gw_group_open_options o, const char *title) {
    gw_group *g = try_open(s, workers, count, o, title);
    return g ? g : &group_poison;
}

gw_group *group_open_next(gw_scope *s, agent *a, const decision *d, bool has_name,
                          int64_t timeout_ms) {
    gw_worker *workers = mem_alloc(((size_t)d->member_count + 1) * sizeof *workers);
    for (int i = 0; workers && i < d->member_count; i++)
        workers[i] = agent_member(a, d->members[i].rank)->worker;
    gw_group_open_options o = { .name = has_name ? d->name : NULL, .timeout_ms = timeout_ms };
    gw_group *g = workers ? group_make(a, workers, d->member_count, o, d->name) : NULL;
    mem_free(workers);
    if (g) {
        g->id = d->id;
        g->generation = d->generation;
    }
    g = add_group(s, a, g);
    if (g != &group_poison || agent_is_closed(a)) return g;
    env_enter(a->env);
    reform_break_next_on_loop(a, d, scope_error(s));
    env_leave(a->env);
    return g;
}

gw_group *gw_group_open_with(gw_scope *s, const gw_worker *workers, int count,
                             gw_group_open_options options) {
    return open_group(s, workers, count, options, NULL);
}

gw_group *gw_group_world_with(gw_scope *s, gw_group_open_options options) {
    gw_scope *t = s->error ? open_for_checks(s) : s;
    int count;
    const gw_worker *workers = t ? agent_workers_of_job(t, &count) : NULL;
    gw_group *g =
        workers && gw_ok(t) ? open_group(s, workers, count, options, "world") : &group_poison;
    if (t && t != s) scope_close_unread(t);
    return g;
}

// |s| has failed, and this member does not know the list: the other members get the error by the next call of |g|.
static gw_group *refuse_list(const gw_scope *s, gw_group *g) {
    if (agent_is_closed(g->agent) || is_process_fork(g->agent->mark)) return &group_poison;
    gw_error error = group_error_of_self(g, s->error);
    env_enter(g->agent->env);
    if (!group_has_reported(g, s->error)) call_fail_next_on_loop(&g->main, &error);
    env_leave(g->agent->env);
    return &group_poison;
}

static bool check_ranks(gw_scope *s, const gw_group *g, const int *ranks, int count) {
    bool is_given = count >= 1 && count <= g->count && ranks;
    if (!is_given && gw_ok(s))
        scope_fail(s, GW_INVALID, "the list has %d ranks, but group \"%s\" has %d members", count,
                   g->name, g->count);
    for (int i = 0; is_given && i < count; i++) {
        if (ranks[i] >= 0 && ranks[i] < g->count) continue;
        if (gw_ok(s))
            scope_fail(s, GW_INVALID, "rank %d is out of range for group \"%s\" of %d members",
                       ranks[i], g->name, g->count);
        return false;
    }
    return is_given;
}

gw_group *gw_group_of_with(gw_scope *s, gw_group *g, const int *ranks, int count,
                           gw_group_open_options options) {
    if (!group_is_usable(s, g)) return &group_poison;
    if (!check_ranks(s, g, ranks, count)) return refuse_list(s, g);
    gw_worker *workers = mem_alloc((size_t)count * sizeof *workers);
    for (int i = 0; workers && i < count; i++) workers[i] = group_worker_of(g, ranks[i]);
    if (!workers && gw_ok(s)) scope_fail(s, GW_NO_MEMORY, "no memory for a group");
    gw_group *out = workers ? try_open(s, workers, count, options, NULL) : NULL;
    mem_free(workers);
    return out ? out : refuse_list(s, g);
}

gw_group *gw_group_blocks_with(gw_scope *s, gw_group *g, int size, gw_group_open_options options) {
    if (!group_is_usable(s, g)) return &group_poison;
    if (size < 1 || g->count % size) {
        if (gw_ok(s))
            scope_fail(s, GW_INVALID,
                       "group \"%s\" has %d members, which cannot be divided into blocks of %d",
                       g->name, g->count, size);
        return refuse_list(s, g);
    }
    int *ranks = mem_alloc((size_t)size * sizeof *ranks);
    for (int i = 0; ranks && i < size; i++) ranks[i] = g->self / size * size + i;
    if (!ranks && gw_ok(s)) scope_fail(s, GW_NO_MEMORY, "no memory for a group");
    gw_group *out = ranks ? gw_group_of_with(s, g, ranks, size, options) : refuse_list(s, g);
    mem_free(ranks);
    return out;
}

// ---- For other rooms ----------------------------------------------------------------------------

// Its id follows from that of |of|, which differs in each generation, and from a number that all members have.
gw_group *group_open_child(gw_scope *s, gw_group *of, uint64_t number, const char *what) {
    gw_worker *workers = mem_alloc((size_t)of->count * sizeof *workers);
    for (int i = 0; workers && i < of->count; i++) workers[i] = group_worker_of(of, i);
    gw_group_open_options options =
        GW_OPTIONS(gw_group_open_options, .timeout_ms = of->timeout_ms,
                   .backend = of->backend->name, .any_order = of->any_order);
    gw_group *g = workers ? group_make(of->agent, workers, of->count, options, NULL) : NULL;
    mem_free(workers);
    if (g) group_name_child(g, of, number, what);
    return add_group(s, of->agent, g);
}

gw_group *group_open_world(gw_scope *s, agent *a, const gw_worker *workers, int count) {
    if (!check_members(s, a, workers, count)) return &group_poison;
    gw_group_open_options options = GW_OPTIONS(gw_group_open_options);
    gw_group *g = group_make(a, workers, count, options, NULL);
    return add_group_by(s, a, g, groups_add_world_on_loop);
}
