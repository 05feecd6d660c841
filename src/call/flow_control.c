#include "call/flow_control.h"

#include "agent/bodies/observe.h"
#include "call/calls.h"
#include "trace/record.h"

// ---- Requests -----------------------------------------------------------------------------------

typedef struct flow_wait {
    list_node link;
    waiter waiter;
    int to;  // rank
} flow_wait;

static bool is_remote(const agent *a, int rank) {
    return rank != a->rank && a->peers;
}

// A message of that size may have bulk, which small ones do not wait for.
static bool may_have_bulk(uint64_t size) {
    return size > LIMIT_FRAME_BYTES;
}

static list_node *waiting_of(const agent *a, int rank, uint64_t size) {
    call_peer *p = call_peer_of(a, rank);
    return may_have_bulk(size) ? &p->waiting_large : &p->waiting;
}

static bool has_room(const agent *a, int rank, uint64_t size, bool counts) {
    const calls *c = calls_of(a);
    if (counts && call_peer_of(a, rank)->call_count >= c->limits.calls_per_peer) return false;
    if (!is_remote(a, rank)) return true;
    peers_backlog b = peers_get_backlog(a->peers, rank);
    uint64_t backlog = may_have_bulk(size) ? b.all : b.stream;
    // A message larger than the limit is sent when nothing else is queued.
    return !backlog || backlog + size <= c->limits.backlog_bytes;
}

static gw_status overloaded(const agent *a, int rank, bool counts, gw_error *error) {
    const char *name = agent_member(a, rank)->name;
    uint32_t call_count = call_peer_of(a, rank)->call_count;
    if (counts && call_count >= calls_of(a)->limits.calls_per_peer)
        return error_set(error, GW_OVERLOADED, "%s: %u calls to that worker have not returned",
                         name, call_count);
    return error_set(error, GW_OVERLOADED,
                     "%s: %llu bytes are waiting until that worker receives them", name,
                     (unsigned long long)(a->peers ? peers_get_backlog(a->peers, rank).all : 0));
}

static void wake_first_of(agent *a, const list_node *waiting) {
    if (!list_is_empty(waiting))
        env_wake(a->env, &list_entry(waiting->next, flow_wait, link)->waiter);
}

void flow_wake_on_loop(agent *a, int rank) {
    wake_first_of(a, &call_peer_of(a, rank)->waiting);
    wake_first_of(a, &call_peer_of(a, rank)->waiting_large);
}

static void describe(const waiter *w, trace_activity *out) {
    trace_activity_add_rank(out, list_entry(w, flow_wait, waiter)->to);
}

// One after the other, in the order of their arrival: of those that may have bulk a smaller one
// does not overtake a larger one for ever.
static gw_status wait(agent *a, gw_scope *s, int rank, uint64_t size, bool counts, int64_t until_ns,
                      gw_error *error) {
    gw_status status = GW_OK;
    list_node *waiting = waiting_of(a, rank, size);
    flow_wait w = { .waiter = { .what = "flow control", .describe = describe }, .to = rank };
    int64_t begun_ns = env_now_ns(a->env);
    uint64_t id = trace_is_on(TRACE_WIRE) ? trace_unique_id() : 0;
    if (id) trace_record(TRACE_QUEUE_FULL, a->observer.row, id, (uint64_t)rank, 0);
    list_append(waiting, &w.link);
    while (!agent_member(a, rank)->lost && a->phase != AGENT_LEFT) {
        if ((status = context_check_cancelled(s, error))) break;
        if (waiting->next == &w.link && has_room(a, rank, size, counts)) break;
        if (env_now_ns(a->env) >= until_ns) {
            status = overloaded(a, rank, counts, error);
            break;
        }
        if (is_remote(a, rank)) peers_await_writable(a->peers, rank);
        w.waiter.woken = false;
        context_wait_on_loop(a, s, &w.waiter, until_ns);
    }
    list_remove(&w.link);
    if (id) trace_record(TRACE_QUEUE_HAS_ROOM, a->observer.row, id, status, 0);
    agent_member(a, rank)->traffic.waited_ns += env_now_ns(a->env) - begun_ns;
    flow_wake_on_loop(a, rank);
    return status;
}

gw_status flow_wait_on_loop(agent *a, gw_scope *s, int to, uint64_t size, bool counts,
                            int64_t until_ns, gw_error *error) {
    bool room = has_room(a, to, size, counts);
    if (room && list_is_empty(waiting_of(a, to, size))) return GW_OK;
    gw_error ignored;
    if (!context_check_wait(s, &ignored)) return wait(a, s, to, size, counts, until_ns, error);
    return room || agent_member(a, to)->lost ? GW_OK : overloaded(a, to, counts, error);
}

void flow_close_on_loop(agent *a) {
    for (int rank = 0; rank < a->member_count; rank++) flow_wake_on_loop(a, rank);
}

// ---- Replies ------------------------------------------------------------------------------------

bool flow_has_capacity_on_loop(agent *a, int rank) {
    if (!is_remote(a, rank)) return true;
    uint64_t limit = calls_of(a)->limits.backlog_bytes;
    peers_backlog b = peers_get_backlog(a->peers, rank);
    return b.stream <= limit && b.later_bulk <= limit;
}
