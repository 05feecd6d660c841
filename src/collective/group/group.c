// Groups as handles: their counts, checks, and the functions that query them.
#include "collective/group/groups_state.h"

#include "base/check.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/status.h"
#include "base/value.h"
#include <gradwire/membership.h>

#include <string.h>

// ---- Handles ------------------------------------------------------------------------------------

static const handle_class poison_class = { .name = "group" };

gw_group group_poison = { .handle = { &poison_class, HANDLE_IMMORTAL } };

static void destroy_later(task *t) {
    gw_handle *h = &list_entry(t, gw_group, deferred_free)->handle;
    h->class->destroy(h);
}

void group_release_on_loop(gw_group *g) {
    if (!handle_uncount(&g->handle)) return;
    g->deferred_free.run = destroy_later;
    env_defer(g->agent->env, &g->deferred_free);
}

void group_free_records(gw_group *g) {
    for (uint32_t i = 0; g->final_aborts && i < LIMIT_FINAL_ABORTS; i++)
        error_forget(&g->final_aborts[i].error);
    mem_free(g->final_aborts);
    mem_free(g->history);
    mem_free(g->queried_ns);
    g->final_aborts = NULL;
    g->history = NULL;
    g->queried_ns = NULL;
}

// ---- Checks -------------------------------------------------------------------------------------

void group_check_live(const gw_group *g) {
    if (check_enabled && g && check_is_aside(g))
        check_die("the group was dropped, or the scope that held it is closed");
}

bool group_is_given(gw_scope *s, const gw_group *g, const char *what) {
    group_check_live(g);
    if (!g || g == &group_poison) {
        if (gw_ok(s))
            scope_fail(s, GW_INVALID, "%s: %s", what,
                       g ? "the group could not be opened" : "the group is NULL");
        return false;
    }
    if (agent_is_closed(g->agent) || s->agent != g->agent) {
        if (gw_ok(s))
            scope_fail(s, GW_INVALID, "%s: the group belongs to another agent than the scope",
                       what);
        return false;
    }
    return true;
}

bool group_is_usable(gw_scope *s, const gw_group *g) {
    group_check_live(g);
    if (gw_ok(s) && (!g || g == &group_poison))
        scope_fail(s, GW_INVALID, g ? "the group could not be opened" : "the group is NULL");
    return g && g != &group_poison;
}

bool group_check_options(gw_scope *s, gw_group_open_options o) {
    if (o.timeout_ms < 0)
        scope_fail(s, GW_INVALID, "the timeout is %lld ms, but must not be negative",
                   (long long)o.timeout_ms);
    return gw_ok(s);
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

// ---- Queries ------------------------------------------------------------------------------------

uint64_t group_list_of(const group_peer *members, int count) {
    uint64_t hash = hash_u64((uint64_t)count);
    for (int i = 0; i < count; i++)
        hash = hash_u64(hash ^ (uint64_t)members[i].rank) ^ members[i].incarnation;
    return hash_u64(hash);
}

gw_worker group_worker_of(const gw_group *g, int index) {
    return agent_member(g->agent, g->members[index].rank)->worker;
}

int gw_group_rank(const gw_group *g) {
    return g ? g->self : 0;
}

int gw_group_size(const gw_group *g) {
    return g && g != &group_poison ? g->count : 1;
}

int gw_group_generation(const gw_group *g) {
    return g ? (int)g->generation : 0;
}

const char *gw_group_name(const gw_group *g) {
    return g ? g->name : "";
}

gw_worker gw_group_worker(gw_scope *s, const gw_group *g, int rank) {
    if (!group_is_usable(s, g)) return (gw_worker){ .name = "", .rank = -1 };
    if (rank >= 0 && rank < g->count) return group_worker_of(g, rank);
    scope_fail(s, GW_INVALID, "rank %d is out of range for group \"%s\" of %d members", rank,
               g->name, g->count);
    return (gw_worker){ .name = "", .rank = -1 };
}

// Also when |s| has failed: then an error is logged.
static bool may_fail(gw_scope *s, const gw_group *g, gw_status status) {
    gw_error error;
    group_check_live(g);
    if (!g || g == &group_poison)
        error_set(&error, GW_INVALID, "gw_group_fail: %s",
                  g ? "the group could not be opened" : "the group is NULL");
    else if (!status_is_of_error(status))
        error_set(&error, GW_INVALID, "gw_group_fail: %d is not the status of an error",
                  (int)status);
    else
        return true;
    if (s->error) log_error("%s", error.text);
    return scope_fail_with(s, &error);
}

void gw_group_fail(gw_scope *s, gw_group *g, gw_status status, const char *format, ...) {
    gw_error error;
    if (!may_fail(s, g, status)) return;
    va_list args;
    va_start(args, format);
    error_setv(&error, status, format, args);
    va_end(args);
    error = group_error_of_self(g, &error);
    env_enter(g->agent->env);
    group_break_all_on_loop(g, &error);
    env_leave(g->agent->env);
}
