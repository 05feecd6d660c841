// Groups as handles: opening, and the functions that query them.
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

// Its sequences, aborts and agreements.
static void free_record(gw_group *g) {
    for (uint32_t i = 0; g->final_aborts && i < LIMIT_FINAL_ABORTS; i++)
        error_forget(&g->final_aborts[i].error);
    mem_free(g->final_aborts);
    mem_free(g->history);
    mem_free(g->queried_ns);
    g->final_aborts = NULL;
    g->history = NULL;
    g->queried_ns = NULL;
    agree_free(g);
}

void group_end_on_loop(gw_group *g) {
    if (!list_is_empty(&g->detached))
        return;  // its messages still need the group: called again when they have ended
    groups_remove_on_loop(g);
    free_record(g);
}

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
    free_record(g);
    backend_group_close(g);
    handle_release(g->before);
    agent_release(g->agent);
    if (check_enabled)
        check_lay_aside(g, mem_free);
    else
        mem_free(g);
}

void group_check_live(const gw_group *g) {
    if (check_enabled && g && check_is_aside(g))
        check_die("a group was dropped, or the scope that held it is closed");
}

// A run under way holds a count, so there is none.
static void destroy_group(gw_handle *h) {
    gw_group *g = (gw_group *)h;
    if (!agent_is_closed(g->agent)) {
        env_enter(g->agent->env);
        agree_leaving_on_loop(g);
        if (g->agreements) env_set_timer(g->agent->env, &g->agreements->poll, ENV_NEVER);
        groups_remove_on_loop(g);
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

static void destroy_later(task *t) {
    destroy_group(&list_entry(t, gw_group, deferred_free)->handle);
}

void group_release_on_loop(gw_group *g) {
    if (!handle_uncount(&g->handle)) return;
    g->deferred_free.run = destroy_later;
    env_defer(g->agent->env, &g->deferred_free);
}

static void held_by_scope(gw_handle *h, int by) {
    gw_group *g = (gw_group *)h;
    atomic_fetch_add_explicit(&g->owners, by, memory_order_acq_rel);
}

static const handle_class group_class = { .name = "group",
                                          .destroy = destroy_group,
                                          .held_by_scope = held_by_scope };

gw_group group_poison = { .handle = { &group_class, HANDLE_IMMORTAL } };

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

bool group_check_name(gw_scope *s, const char *name) {
    size_t size = name ? strlen(name) : 0;
    if (size == 0 || size > LIMIT_NAME_BYTES)
        scope_fail(s, GW_INVALID, "the name of a group has 1 to %d bytes", LIMIT_NAME_BYTES);
    else if (!text_may_quote(name))
        scope_fail(s, GW_INVALID,
                   "the name of a group has control characters, a %%, or is not UTF-8");
    return gw_ok(s);
}

// All but the name, which the other members may have given.
bool group_check_options(gw_scope *s, gw_group_open_options o) {
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

uint64_t group_list_of(const group_peer *members, int count) {
    uint64_t hash = hash_u64((uint64_t)count);
    for (int i = 0; i < count; i++)
        hash = hash_u64(hash ^ (uint64_t)members[i].rank) ^ members[i].incarnation;
    return hash_u64(hash);
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

// The other members get |why| by their next collective in |g|.
static void refuse(agent *a, gw_group *g, const gw_error *why) {
    gw_error error = *why;
    error_prefix(&error, group_member_name(g, g->self));
    env_enter(a->env);
    if (!g->generation) groups_refuse_on_loop(g, &error);
    env_leave(a->env);
}

typedef gw_status adding(gw_group *g, gw_error *error);

// Adds |g| by |add|, with the loop lock, and gives it to |s|.
static gw_group *add_group_by(gw_scope *s, agent *a, gw_group *g, adding *add) {
    gw_error error = { 0 };
    if (!g) {
        scope_fail(s, GW_NO_MEMORY, "no memory for a group");
        return &group_poison;
    }
    gw_status status = backend_group_open(g, g->wanted_backend, &error);
    g->wanted_backend = NULL;
    env_enter(a->env);
    if (!status) status = find_hosts_on_loop(g, &error);
    if (!status) status = add(g, &error);
    env_leave(a->env);
    if (status) {
        scope_fail_with(s, &error);
        if (add == groups_add_on_loop) refuse(a, g, &error);
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
    gw_group *g = is_known ? make_group(a, workers, count, o, title) : NULL;
    if (g) {
        refuse(a, g, scope_error(s));
        handle_release(g);
    }
    (void)!gw_scope_close(t).status;
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
    return add_group(s, a, make_group(a, workers, count, o, title));
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
    gw_scope *t = s->error ? open_for_checks(s) : s;
    int count;
    const gw_worker *workers = t ? gw_rpc_workers(t, &count) : NULL;
    gw_group *g =
        workers && gw_ok(t) ? open_group(s, workers, count, options, "world") : &group_poison;
    if (t && t != s) (void)!gw_scope_close(t).status;
    return g;
}

bool group_is_given(gw_scope *s, const gw_group *g, const char *what) {
    group_check_live(g);
    if (!g || g == &group_poison) {
        if (gw_ok(s))
            scope_fail(s, GW_INVALID, "%s: %s", what,
                       g ? "a group that could not be opened" : "the group is NULL");
        return false;
    }
    if (agent_is_closed(g->agent) || s->agent != g->agent) {
        if (gw_ok(s))
            scope_fail(s, GW_INVALID, "%s: the group is of another agent than the scope", what);
        return false;
    }
    return true;
}

// Also if |s| has failed.
static bool is_usable(gw_scope *s, const gw_group *g) {
    group_check_live(g);
    if (gw_ok(s) && (!g || g == &group_poison))
        scope_fail(s, GW_INVALID, g ? "a group that could not be opened" : "the group is NULL");
    return g && g != &group_poison;
}

static gw_worker worker_of(const gw_group *g, int index) {
    return agent_member(g->agent, g->members[index].rank)->worker;
}

// |s| has failed, and this member does not know the list: the other members get the error by the next call of |g|.
static gw_group *refuse_list(const gw_scope *s, gw_group *g) {
    if (agent_is_closed(g->agent) || is_process_fork(g->agent->mark)) return &group_poison;
    gw_error error = *s->error;
    error_prefix(&error, group_member_name(g, g->self));
    env_enter(g->agent->env);
    if (!group_has_reported(g, s->error)) call_fail_next_on_loop(&g->main, &error);
    env_leave(g->agent->env);
    return &group_poison;
}

static bool check_ranks(gw_scope *s, const gw_group *g, const int *ranks, int count) {
    bool is_given = count >= 1 && count <= g->count && ranks;
    if (!is_given && gw_ok(s))
        scope_fail(s, GW_INVALID, "%d ranks of group \"%s\", which has %d", count, g->name,
                   g->count);
    for (int i = 0; is_given && i < count; i++) {
        if (ranks[i] >= 0 && ranks[i] < g->count) continue;
        if (gw_ok(s))
            scope_fail(s, GW_INVALID, "rank %d of group \"%s\", which has %d", ranks[i], g->name,
                       g->count);
        return false;
    }
    return is_given;
}

gw_group *gw_group_of_with(gw_scope *s, gw_group *g, const int *ranks, int count,
                           gw_group_open_options options) {
    if (!is_usable(s, g)) return &group_poison;
    if (!check_ranks(s, g, ranks, count)) return refuse_list(s, g);
    gw_worker *workers = mem_alloc((size_t)count * sizeof *workers);
    for (int i = 0; workers && i < count; i++) workers[i] = worker_of(g, ranks[i]);
    if (!workers && gw_ok(s)) scope_fail(s, GW_NO_MEMORY, "no memory for a group");
    gw_group *out = workers ? try_open(s, workers, count, options, NULL) : NULL;
    mem_free(workers);
    return out ? out : refuse_list(s, g);
}

gw_group *gw_group_blocks_with(gw_scope *s, gw_group *g, int size, gw_group_open_options options) {
    if (!is_usable(s, g)) return &group_poison;
    if (size < 1 || g->count % size) {
        if (gw_ok(s))
            scope_fail(s, GW_INVALID, "group \"%s\" of %d has no blocks of %d", g->name, g->count,
                       size);
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
    for (int i = 0; workers && i < of->count; i++) workers[i] = worker_of(of, i);
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

// ---- Queries ------------------------------------------------------------------------------------

int gw_group_rank(const gw_group *g) {
    return g ? g->self : 0;
}

int gw_group_size(const gw_group *g) {
    return g && g != &group_poison ? g->count : 1;
}

const char *gw_group_name(const gw_group *g) {
    return g ? g->name : "";
}

gw_worker gw_group_worker(gw_scope *s, const gw_group *g, int rank) {
    if (!is_usable(s, g)) return (gw_worker){ .name = "", .rank = -1 };
    if (rank >= 0 && rank < g->count) return worker_of(g, rank);
    scope_fail(s, GW_INVALID, "rank %d of group \"%s\", which has %d", rank, g->name, g->count);
    return (gw_worker){ .name = "", .rank = -1 };
}

// Also when |s| has failed: then an error is logged.
static bool may_fail(gw_scope *s, const gw_group *g, gw_status status) {
    gw_error error;
    group_check_live(g);
    if (!g || g == &group_poison)
        error_set(&error, GW_INVALID, "gw_group_fail: %s",
                  g ? "a group that could not be opened" : "the group is NULL");
    else if (!status_is_of_error(status))
        error_set(&error, GW_INVALID, "gw_group_fail: %d is no status of an error", (int)status);
    else
        return true;
    if (s->error) log_error("%s", error.text);
    scope_fail_with(s, &error);
    return false;
}

void gw_group_fail(gw_scope *s, gw_group *g, gw_status status, const char *format, ...) {
    gw_error error;
    if (!may_fail(s, g, status)) return;
    va_list args;
    va_start(args, format);
    error_setv(&error, status, format, args);
    va_end(args);
    error_prefix(&error, g->agent->name);
    env_enter(g->agent->env);
    group_break_all_on_loop(g, &error);
    env_leave(g->agent->env);
}
