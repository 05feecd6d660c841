// Groups as handles: opening, and the functions that query them.
#include "collective/abort.h"
#include "collective/agree.h"

#include "base/check.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/value.h"
#include "collective/backend_run.h"
#include "collective/backward.h"
#include "collective/groups_state.h"
#include "collective/history.h"
#include "collective/hosts.h"
#include <gradwire/membership.h>

#include <stdio.h>
#include <string.h>

// ---- Handles ------------------------------------------------------------------------------------

static void free_group(gw_group *g) {
    map_entry *e;
    for (size_t i = 0; (e = map_next(&g->sequences, &i));) {
        sequence_fini(e->value);
        mem_free(e->value);
    }
    map_fini(&g->sequences);
    backward_forget_unvisited(g);
    sequence_fini(&g->main);
    mem_free(g->final_note);
    for (list_node *l; (l = list_take(&g->reports));) mem_free(list_entry(l, report, link));
    mem_free(g->testimonies);
    group_free_records(g);
    agree_free(g);
    backend_group_close(g);
    handle_release(g->before);
    agent_release(g->agent);
    if (check_enabled)
        check_lay_aside(g, mem_free);
    else
        mem_free(g);
}

// A run under way holds a count, so there is none.
static void destroy_group(gw_handle *h) {
    gw_group *g = (gw_group *)h;
    if (!agent_is_closed(g->agent)) {
        env_enter(g->agent->env);
        agree_leaving_on_loop(g);
        if (g->agreements) env_set_timer(g->agent->env, &g->agreements->poll, ENV_NEVER);
        groups_remove_on_loop(g, agree_released(g));
        for (list_node *l; (l = list_take(&g->unexpected));) {
            unexpected_message *x = list_entry(l, unexpected_message, link);
            if (x->kind == KIND_ENTER && g->agent->phase != AGENT_LEFT)
                group_refuse_closed_on_loop(g->agent, x->from,
                                            g->members[group_leader_on_loop(g)].rank, &x->header);
            unexpected_drop_on_loop(g->agent, x);
        }
        env_leave(g->agent->env);
    }
    free_group(g);
}

static void held_by_scope(gw_handle *h, int by) {
    gw_group *g = (gw_group *)h;
    atomic_fetch_add_explicit(&g->owners, by, memory_order_acq_rel);
}

static const handle_class group_class = { .name = "group",
                                          .destroy = destroy_group,
                                          .held_by_scope = held_by_scope };

// ---- Opening ------------------------------------------------------------------------------------

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

// "w0, w1 and 2 more".
static void name_after_members(gw_group *g) {
    size_t at = 0;
    for (int i = 0; i < g->count; i++) {
        const char *name = group_member_name(g, i);
        if (at + strlen(name) + 24 > sizeof g->name) {
            snprintf(g->name + at, sizeof g->name - at, " and %d more", g->count - i);
            return;
        }
        at += (size_t)snprintf(g->name + at, sizeof g->name - at, "%s%s", i ? ", " : "", name);
    }
}

static gw_group *make_group(agent *a, const gw_worker *workers, int count, gw_group_open_options o,
                            const char *title) {
    gw_group *g = mem_calloc(sizeof *g + (size_t)count * sizeof g->members[0]);
    if (!g) return NULL;
    handle_init(&g->handle, &group_class);
    atomic_init(&g->owners, 1);  // the call that opens it
    g->agent = agent_retain(a);
    g->count = count;
    g->timeout_ms = o.timeout_ms;
    for (int i = 0; i < count; i++) {
        g->members[i] = (group_peer){ workers[i].rank, workers[i].incarnation };
        if (workers[i].rank == a->rank) g->self = i;
    }
    g->has_name = o.name != NULL;
    if (o.name || title)
        snprintf(g->name, sizeof g->name, "%s", o.name ? o.name : title);
    else
        name_after_members(g);
    g->list = group_list_of(g->members, count);
    map_init(&g->sequences);
    map_init(&g->unvisited);
    list_init(&g->unvisited_nodes);
    g->main.next = 1;
    g->final_name = "sequence";
    list_init(&g->runs);
    list_init(&g->detached);
    g->faults = &abort_faults;
    g->backend = &backend_session;
    g->any_order = o.any_order;
    g->wanted_backend = o.backend;
    list_init(&g->waiting);
    list_init(&g->unexpected);
    list_init(&g->reports);
    g->history = history_open();
    return g;
}

// Its name is the quoted part of the title.
gw_group *group_make_pending(agent *a, const gw_worker *workers, int count, uint64_t id,
                             const char *title) {
    gw_group *g =
        make_group(a, workers, count, GW_OPTIONS(gw_group_open_options, .name = title), NULL);
    if (!g) return NULL;
    g->id = id;
    g->is_pending = true;
    snprintf(g->title, sizeof g->title, "%s", title);
    const char *from = strchr(title, '"'), *to = strrchr(title, '"');
    size_t size = from && to > from ? (size_t)(to - from - 1) : 0;
    snprintf(g->name, sizeof g->name, "%.*s", (int)size, size ? from + 1 : "");
    return g;
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
    if (g) held_by_scope(&g->handle, -1);
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
    return add_group(s, a, make_group(a, workers, count, o, title));
}

gw_group *group_open_next(gw_scope *s, agent *a, const decision *d, bool has_name,
                          int64_t timeout_ms) {
    gw_worker *workers = mem_alloc(((size_t)d->member_count + 1) * sizeof *workers);
    for (int i = 0; workers && i < d->member_count; i++)
        workers[i] = agent_member(a, d->members[i].rank)->worker;
    gw_group_open_options o = { .name = has_name ? d->name : NULL, .timeout_ms = timeout_ms };
    gw_group *g = workers ? make_group(a, workers, d->member_count, o, d->name) : NULL;
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
    gw_group *g = workers ? make_group(of->agent, workers, of->count, options, NULL) : NULL;
    mem_free(workers);
    if (g) group_name_child(g, of, number, what);
    return add_group(s, of->agent, g);
}

gw_group *group_open_world(gw_scope *s, agent *a, const gw_worker *workers, int count) {
    if (!check_members(s, a, workers, count)) return &group_poison;
    gw_group_open_options options = GW_OPTIONS(gw_group_open_options);
    gw_group *g = make_group(a, workers, count, options, NULL);
    return add_group_by(s, a, g, groups_add_world_on_loop);
}
