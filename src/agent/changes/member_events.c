#include "agent/changes/member_events.h"

#include "agent/bodies/context.h"
#include "agent/members/members.h"
#include "base/mem.h"

enum { EVENTS_KEPT = 256 };

typedef struct event {
    gw_member_event_kind kind;
    int rank;
    uint64_t epoch, missed;
} event;

struct gw_watch {
    gw_handle handle;
    agent *agent;
    list_node link;   // in the agent's
    waiter *waiting;  // NULL: none
    uint32_t first, count;
    uint64_t missed;  // since the last event that was kept
    event events[EVENTS_KEPT];
};

static void destroy_watch(gw_handle *h) {
    gw_watch *w = (gw_watch *)h;
    if (!agent_is_closed(w->agent)) {
        env_enter(w->agent->env);
        list_remove(&w->link);
        env_leave(w->agent->env);
    }
    agent_release(w->agent);
    mem_free(w);
}

static const handle_class watch_class = { .name = "watch", .destroy = destroy_watch };

static gw_watch watch_poison = { .handle = { &watch_class, HANDLE_IMMORTAL } };

// ---- Telling ------------------------------------------------------------------------------------

// The latest are kept: older ones are history, which gw_rpc_workers sums up.
static void append(gw_watch *w, event e) {
    if (w->count == EVENTS_KEPT) {
        uint32_t next = (w->first + 1) % EVENTS_KEPT;
        w->events[next].missed += w->events[w->first].missed + 1;
        w->first = next;
        w->count--;
    }
    w->events[(w->first + w->count++) % EVENTS_KEPT] = e;
    if (w->waiting) env_wake(w->agent->env, w->waiting);
}

void watches_notify_on_loop(agent *a, gw_member_event_kind kind, int rank) {
    event e = { .kind = kind, .rank = rank, .epoch = membership_epoch(a->membership->machine) };
    list_each(l, &a->watches) append(list_entry(l, gw_watch, link), e);
}

void watches_close_on_loop(agent *a) {
    list_each(l, &a->watches) {
        gw_watch *w = list_entry(l, gw_watch, link);
        if (w->waiting) env_wake(a->env, w->waiting);
    }
}

// ---- The program's side -------------------------------------------------------------------------

gw_watch *gw_watch_open(gw_scope *s) {
    agent *a = s->error ? NULL : agent_of(s);
    if (!a) return &watch_poison;
    gw_watch *w = mem_calloc(sizeof *w);
    if (!w) {
        scope_fail(s, GW_NO_MEMORY, "no memory for a watch");
        return &watch_poison;
    }
    handle_init(&w->handle, &watch_class);
    w->agent = agent_retain(a);
    env_enter(a->env);
    list_append(&a->watches, &w->link);
    env_leave(a->env);
    return scope_own_or(s, w, &watch_poison);
}

static gw_member_event take(gw_watch *w) {
    event e = w->events[w->first];
    w->first = (w->first + 1) % EVENTS_KEPT;
    w->count--;
    const member *m = agent_member(w->agent, e.rank);
    gw_member_event out = {
        .kind = e.kind, .worker = m->worker, .epoch = e.epoch, .missed = e.missed
    };
    if (e.kind == GW_MEMBER_LEFT || e.kind == GW_MEMBER_DIED) out.why = *m->why;
    return out;
}

// Whether a worker can still join, leave or die.
static bool has_others(const agent *a) {
    if (a->job != GW_JOB_NONE) return true;
    for (int rank = 0; rank < a->member_count; rank++)
        if (rank != a->rank && !agent_member(a, rank)->lost) return true;
    return false;
}

static gw_status wait_for_event(gw_scope *s, gw_watch *w, gw_error *error) {
    agent *a = w->agent;
    gw_status status = w->count ? GW_OK : context_check_wait(s, error);
    if (!status && w->waiting)
        status = error_set(error, GW_WRONG_STATE,
                           "gw_watch_next: another thread waits for this watch already");
    if (!status && !w->count && !has_others(a))
        status = error_set(error, GW_DISCONNECTED,
                           "gw_watch_next: there are no more events: no other worker is left, and "
                           "no worker can join");
    int64_t until_ns = context_deadline_ns(s);
    while (!status && !w->count) {
        if (a->phase == AGENT_LEFT) return agent_left_error(a, "a watch", error);
        waiter waiting = { .what = "an event of membership" };
        w->waiting = &waiting;
        bool woken = context_wait_on_loop(a, s, &waiting, until_ns);
        w->waiting = NULL;
        if (!w->count && context_check_cancelled(s, error)) return error->status;
        if (!woken && !w->count)
            return error_set(error, GW_TIMEOUT,
                             "no member joined or left within the scope's deadline");
    }
    return status;
}

gw_member_event gw_watch_next(gw_scope *s, gw_watch *w) {
    gw_member_event out = { .kind = GW_MEMBER_NONE, .worker = { .name = "", .rank = -1 } };
    gw_error error;
    if (s->error) return out;
    if (!w || w == &watch_poison) {
        scope_fail(s, GW_INVALID, "gw_watch_next: %s",
                   w ? "the watch could not be opened" : "the watch is NULL");
        return out;
    }
    agent *a = w->agent;
    if (agent_is_closed(a)) {
        scope_fail(s, GW_WRONG_STATE, "a watch is not possible after shutdown");
        return out;
    }
    env_enter(a->env);
    gw_status status = wait_for_event(s, w, &error);
    if (!status) out = take(w);
    env_leave(a->env);
    if (status) scope_fail_with(s, &error);
    return out;
}

bool gw_watch_ready(gw_watch *w) {
    if (!w || w == &watch_poison || agent_is_closed(w->agent)) return true;
    env_enter(w->agent->env);
    bool ready = w->count || w->agent->phase == AGENT_LEFT;
    env_leave(w->agent->env);
    return ready;
}

const char *gw_member_event_name(gw_member_event_kind kind) {
    static const char *const names[] = {
        [GW_MEMBER_NONE] = "none",           [GW_MEMBER_JOINED] = "joined",
        [GW_MEMBER_SUSPECTED] = "suspected", [GW_MEMBER_RECOVERED] = "recovered",
        [GW_MEMBER_LEFT] = "left",           [GW_MEMBER_DIED] = "died",
    };
    return (unsigned)kind < sizeof names / sizeof names[0] ? names[kind] : "unknown event";
}

// ---- Members -----------------------------------------------------------------------------------

static int copy_workers(agent *a, bool with_lost, gw_worker *out) {
    int count = 0;
    for (int rank = 0; rank < a->member_count; rank++) {
        const member *m = agent_member(a, rank);
        if (!m->known || (m->lost && !with_lost)) continue;
        if (out) out[count] = m->worker;
        count++;
    }
    return count;
}

static gw_worker *list_workers(gw_scope *s, agent *a, bool with_lost, int *out_count) {
    int count = 0;
    if (out_count) *out_count = 0;
    if (!a) return NULL;
    env_enter(a->env);
    gw_worker *all = gw_alloc(s, (size_t)copy_workers(a, with_lost, NULL) * sizeof *all);
    if (all) count = copy_workers(a, with_lost, all);
    env_leave(a->env);
    if (out_count) *out_count = count;
    return all;
}

static gw_worker *list_present(gw_scope *s, int *out_count) {
    return list_workers(s, s->error ? NULL : agent_of(s), false, out_count);
}

const gw_worker *agent_workers_of_job(gw_scope *s, int *out_count) {
    agent *a = s->error ? NULL : agent_of(s);
    return list_workers(s, a, a && a->world_size, out_count);
}

const gw_worker *gw_rpc_workers(gw_scope *s, int *out_count) {
    return list_present(s, out_count);
}

const gw_worker *gw_rpc_workers_named(gw_scope *s, const char *name, int *out_count) {
    if (out_count) *out_count = 0;
    if (gw_ok(s) && (!name || !options_is_pattern(name)))
        scope_fail(s, GW_INVALID,
                   "\"%.140s\" is malformed: it must be a worker's name, in which one %%d may "
                   "stand for digits",
                   name ? name : "");
    int count, kept = 0;
    gw_worker *all = list_present(s, &count);
    for (int i = 0; i < count; i++)
        if (options_fits_name(name, all[i].name)) all[kept++] = all[i];
    if (out_count) *out_count = kept;
    return all;
}
