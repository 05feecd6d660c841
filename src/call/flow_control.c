#include "call/flow_control.h"

#include "call/cancel.h"
#include "call/server.h"

// ---- Requests ----

typedef struct room_wait {
    list_node link;
    waiter waiter;
} room_wait;

static bool is_remote(const agent *a, int rank) {
    return rank != a->rank && a->peers;
}

static bool has_room(const agent *a, const member *m, uint64_t size, bool counts) {
    if (counts && m->call_count >= a->limits.calls_per_peer) return false;
    if (!is_remote(a, m->worker.rank)) return true;
    // What is larger than the limit goes when nothing else does.
    uint64_t backlog = peers_backlog_bytes(a->peers, m->worker.rank);
    return !backlog || backlog + size <= a->limits.backlog_bytes;
}

static gw_status overloaded(const agent *a, const member *m, bool counts, gw_error *error) {
    if (counts && m->call_count >= a->limits.calls_per_peer)
        return error_set(error, GW_OVERLOADED, "%s: %u calls to it have not returned", m->name,
                         m->call_count);
    return error_set(
        error, GW_OVERLOADED, "%s: %llu bytes are waiting to be received by it", m->name,
        (unsigned long long)(a->peers ? peers_backlog_bytes(a->peers, m->worker.rank) : 0));
}

static void wake_first(agent *a, member *m) {
    if (list_is_empty(&m->flow_waiting)) return;
    env_wake(a->env, &list_entry(m->flow_waiting.next, room_wait, link)->waiter);
}

// One after the other, in the order in which they came: a small request does not overtake a large one for ever.
static gw_status wait(agent *a, gw_scope *s, member *m, uint64_t size, bool counts,
                      int64_t until_ns, gw_error *error) {
    gw_status status = GW_OK;
    room_wait w = { .waiter.what = "room for a request" };
    list_append(&m->flow_waiting, &w.link);
    while (!m->lost && a->phase != AGENT_LEFT) {
        if (m->flow_waiting.next == &w.link && has_room(a, m, size, counts)) break;
        if ((status = context_check_cancelled(s, error))) break;
        if (env_now_ns(a->env) >= until_ns) {
            status = overloaded(a, m, counts, error);
            break;
        }
        if (is_remote(a, m->worker.rank)) peers_await_writable(a->peers, m->worker.rank);
        w.waiter.woken = false;
        context_wait_on_loop(a, s, &w.waiter, until_ns);
    }
    list_remove(&w.link);
    wake_first(a, m);
    return status;
}

gw_status flow_wait_on_loop(agent *a, gw_scope *s, int to, uint64_t size, bool counts,
                            int64_t until_ns, gw_error *error) {
    member *m = agent_member(a, to);
    bool room = has_room(a, m, size, counts);
    if (room && list_is_empty(&m->flow_waiting)) return GW_OK;
    gw_error ignored;
    if (!context_check_wait(s, &ignored)) return wait(a, s, m, size, counts, until_ns, error);
    return room || m->lost ? GW_OK : overloaded(a, m, counts, error);
}

// ---- Replies ----

bool flow_has_capacity_on_loop(agent *a, int rank) {
    return !is_remote(a, rank) || peers_backlog_bytes(a->peers, rank) <= a->limits.backlog_bytes;
}

void flow_defer_on_loop(served_call *s, bool admitted) {
    member *m = agent_member(s->agent, s->caller);
    s->state = SERVING_ROOM;
    list_append(admitted ? &m->deferred_admitted : &m->held, &s->held_link);
    peers_await_writable(s->agent->peers, s->caller);
}

static void release_held(agent *a, member *m) {
    int rank = m->worker.rank;
    while (flow_has_capacity_on_loop(a, rank)) {
        // Those that their call queue have let go came first.
        list_node *l = list_take(&m->deferred_admitted);
        if (l) {
            served_call_admit_on_loop(list_entry(l, served_call, held_link));
        } else if ((l = list_take(&m->held))) {
            served_call_queue_on_loop(list_entry(l, served_call, held_link));
        } else {
            return;
        }
    }
    peers_await_writable(a->peers, rank);
}

// ---- Both ----

void flow_resume_on_loop(agent *a, int rank) {
    member *m = agent_member(a, rank);
    if (!m->lost && a->phase != AGENT_LEFT) release_held(a, m);
    wake_first(a, m);
}

void flow_call_ended_on_loop(agent *a, member *m) {
    wake_first(a, m);
}

void flow_close_on_loop(agent *a) {
    for (int rank = 0; rank < a->member_count; rank++) wake_first(a, agent_member(a, rank));
}
