// Opening groups.
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
    if (count < 1 || count > LIMIT_WORKERS || !workers) {
        scope_fail(s, GW_INVALID, "a group of %d workers%s", count, workers ? "" : " at NULL");
        return false;
    }
    for (int i = 0; i < count; i++) {
        int rank = workers[i].rank;
        const member *m = rank >= 0 && rank < a->member_count ? agent_member(a, rank) : NULL;
        if (!m || !m->known || m->worker.incarnation != workers[i].incarnation) {
            scope_fail(s, GW_NOT_FOUND, "a group with a worker of rank %d, which is not known here",
                       rank);
            return false;
        }
        for (int j = 0; j < i; j++) {
            if (workers[j].rank != rank) continue;
            scope_fail(s, GW_INVALID, "%s is twice in the group", m->name);
            return false;
        }
        self += rank == a->rank;
    }
    if (!self) scope_fail(s, GW_INVALID, "%s is not a member of the group", a->name);
    return self;
}

static bool check_options(gw_scope *s, gw_group_open_options o) {
    if (o.name && !group_check_name(s, o.name)) return false;
    if (o.timeout_ms < 0)
        scope_fail(s, GW_INVALID, "a timeout of %lld ms", (long long)o.timeout_ms);
    return gw_ok(s);
}

// A failed allocation is an error: no other member would find the same.
static gw_status find_hosts_on_loop(gw_group *g, gw_error *error) {
    const char **addresses = mem_alloc((size_t)g->count * sizeof *addresses);
    if (!addresses) return error_set(error, GW_NO_MEMORY, "no memory for a group");
    for (int i = 0; i < g->count; i++)
        addresses[i] = agent_member(g->agent, g->members[i].rank)->addresses;
    g->host_size = hosts_find_size(addresses, g->count);
    mem_free(addresses);
    return GW_OK;
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
    if (!status) status = find_hosts_on_loop(g, &error);
    if (!status) status = add(g, &lost, &error);
    if (!status) unexpected_hand_over_on_loop(g);
    if (!status && lost.status) group_break_on_loop(g, &lost);
    env_leave(a->env);
    if (status) {
        scope_fail_with(s, &error);
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

static gw_group *open_group(gw_scope *s, const gw_worker *workers, int count,
                            gw_group_open_options o, const char *title) {
    awaits_note_root(s);
    agent *a = s->error ? NULL : agent_of(s);
    if (!a || !check_members(s, a, workers, count) || !check_options(s, o)) return &group_poison;
    return add_group(s, a, group_make(a, workers, count, o, title));
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
    int count;
    const gw_worker *workers = gw_rpc_workers(s, &count);
    return s->error ? &group_poison : open_group(s, workers, count, options, "world");
}

gw_group *gw_group_of_with(gw_scope *s, gw_group *g, const int *ranks, int count,
                           gw_group_open_options options) {
    if (!group_is_usable(s, g)) return &group_poison;
    if (count < 1 || count > g->count || !ranks) {
        scope_fail(s, GW_INVALID, "%d ranks of group \"%s\", which has %d", count, g->name,
                   g->count);
        return &group_poison;
    }
    gw_worker *workers = gw_alloc(s, (size_t)count * sizeof *workers);
    for (int i = 0; workers && i < count; i++) {
        if (ranks[i] < 0 || ranks[i] >= g->count) {
            scope_fail(s, GW_INVALID, "rank %d of group \"%s\", which has %d", ranks[i], g->name,
                       g->count);
            return &group_poison;
        }
        workers[i] = group_worker_of(g, ranks[i]);
    }
    return workers ? open_group(s, workers, count, options, NULL) : &group_poison;
}

gw_group *gw_group_blocks_with(gw_scope *s, gw_group *g, int size, gw_group_open_options options) {
    if (!group_is_usable(s, g)) return &group_poison;
    if (size < 1 || g->count % size) {
        scope_fail(s, GW_INVALID, "group \"%s\" of %d has no blocks of %d", g->name, g->count,
                   size);
        return &group_poison;
    }
    int *ranks = gw_alloc(s, (size_t)size * sizeof *ranks);
    for (int i = 0; ranks && i < size; i++) ranks[i] = g->self / size * size + i;
    return ranks ? gw_group_of_with(s, g, ranks, size, options) : &group_poison;
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
