// Futures of the loss of members: gw_member_lost.
#include <gradwire/membership.h>

#include "base/mem.h"
#include "future/future.h"

// The awaited members; in |source_state|.
typedef struct members_awaited {
    int count;
    int ranks[];
} members_awaited;

static void free_awaited(gw_future *f) {
    mem_free(f->source_state);
}

static const future_source lost_source = { .free = free_awaited };

static void fail_because_of(gw_future *f, int rank) {
    const member *m = agent_member(f->agent, rank);
    gw_error error = agent_why_lost(m);
    future_fail_on_loop(f, &error);
}

static bool awaits(const gw_future *f, int rank) {
    const members_awaited *x = f->source_state;
    for (int i = 0; i < x->count; i++)
        if (x->ranks[i] == rank) return true;
    return false;
}

// A continuation of a future may change the list, so the search begins again after each.
static gw_future *find_awaiting(const agent *a, int rank) {
    list_each(l, futures_lost(a)) {
        gw_future *f = list_entry(l, gw_future, sibling);
        if (awaits(f, rank)) return f;
    }
    return NULL;
}

void futures_lost_on_loop(agent *a, int rank) {
    for (gw_future *f; (f = find_awaiting(a, rank));) fail_because_of(f, rank);
}

// ---- The program's side -------------------------------------------------------------------------

static bool are_members(gw_scope *s, const agent *a, const gw_worker *workers, int count) {
    for (int i = 0; i < count; i++) {
        int rank = workers[i].rank;
        if (rank >= 0 && rank < a->member_count && agent_member(a, rank)->known) continue;
        return scope_fail(s, GW_NOT_FOUND, "no worker of rank %d", rank);
    }
    return true;
}

static gw_future *open_lost(agent *a, const gw_worker *workers, int count) {
    members_awaited *x = mem_alloc(sizeof *x + (size_t)count * sizeof x->ranks[0]);
    gw_future *f = x ? future_open(a, "") : NULL;
    if (!f) {
        mem_free(x);
        return NULL;
    }
    x->count = count;
    for (int i = 0; i < count; i++) x->ranks[i] = workers[i].rank;
    f->source = &lost_source;
    f->source_state = x;
    return f;
}

static void start_on_loop(gw_future *f) {
    agent *a = f->agent;
    const members_awaited *x = f->source_state;
    gw_error error;
    if (a->phase == AGENT_LEFT) {
        agent_left_error(a, "a future", &error);
        future_fail_on_loop(f, &error);
        return;
    }
    list_append(futures_lost(a), &f->sibling);
    for (int i = 0; i < x->count && !future_result(f); i++)
        if (agent_member(a, x->ranks[i])->lost) fail_because_of(f, x->ranks[i]);
}

gw_future *gw_member_lost(gw_scope *s, const gw_worker *workers, int count) {
    agent *a = s->error ? NULL : agent_of(s);
    if (!a) return &future_poison;
    if (count < 0 || (count && !workers)) {
        scope_fail(s, GW_INVALID, "gw_member_lost: %d workers were given%s", count,
                   workers ? "" : ", but the array is NULL");
        return &future_poison;
    }
    if (!are_members(s, a, workers, count)) return &future_poison;
    gw_future *f = open_lost(a, workers, count);
    if (!f) {
        scope_fail(s, GW_NO_MEMORY, "no memory for a future");
        return &future_poison;
    }
    env_enter(a->env);
    start_on_loop(f);
    env_leave(a->env);
    return scope_own_or(s, f, &future_poison);
}
