// The service of calls: its functions for the agent.
#include "call/calls.h"

#include "agent/bodies/observe.h"
#include "agent/dispatch/deferred.h"
#include "call/call.h"
#include "call/flow_control.h"
#include "call/promise.h"
#include "call/server.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

// ---- Messages -----------------------------------------------------------------------------------

static gw_status received(agent *a, int from, message *m, gw_error *error) {
    switch ((call_kind)m->kind) {
    case KIND_REQUEST: return served_call_requested_on_loop(a, from, m, error);
    case KIND_REPLY: return call_replied_on_loop(a, from, m, error);
    case KIND_FORWARD: return served_call_forward_on_loop(a, from, m, error);
    case KIND_PROMISE_VALUE: return promise_received_on_loop(a, from, m, error);
    case KIND_CANCEL: return served_call_cancelled_on_loop(a, from, m, error);
    case KIND_WITHDRAWN: break;
    }
    return served_call_withdrawn_on_loop(a, from, m, error);
}

// CALL-17
static bool takes_incomplete(uint8_t kind) {
    (void)kind;
    return true;
}

static size_t find_table(const message *m) {
    switch ((call_kind)m->kind) {
    case KIND_REQUEST: return (uint32_t)deferred_u64_at(m, REQUEST_ATTACHMENTS_FIELD);
    case KIND_PROMISE_VALUE:
    case KIND_REPLY: return (uint32_t)deferred_u64_at(m, REPLY_ATTACHMENTS_FIELD);
    case KIND_FORWARD:
    case KIND_CANCEL:
    case KIND_WITHDRAWN: break;
    }
    return 0;
}

static bool names_unknown(const agent *a, const message *m) {
    switch ((call_kind)m->kind) {
    case KIND_REQUEST:
        if (deferred_is_unknown(a, id_rank(deferred_u64_at(m, offsetof(request_fixed, target)))))
            return true;
        break;
    case KIND_PROMISE_VALUE:
        if (deferred_is_unknown(a, id_rank(deferred_u64_at(m, offsetof(reply_fixed, id)))))
            return true;
        break;
    case KIND_FORWARD:
        return deferred_is_unknown(a, (uint32_t)deferred_u64_at(m, sizeof(uint64_t)));
    case KIND_REPLY:
    case KIND_CANCEL:
    case KIND_WITHDRAWN: break;
    }
    return deferred_table_names_unknown(a, m, find_table(m));
}

// ---- Members ------------------------------------------------------------------------------------

static void lost(agent *a, int rank) {
    calls_lost_on_loop(a, rank);
    served_calls_lost_on_loop(a, rank);
    promises_lost_on_loop(a, rank);
    reply_lost_on_loop(a, rank, agent_member(a, rank)->why);
    flow_wake_on_loop(a, rank);
}

static void writable(agent *a, int rank) {
    served_calls_resume_on_loop(a, rank);
    flow_wake_on_loop(a, rank);
}

static void stop(agent *a, const gw_error *why) {
    served_calls_close_on_loop(a, why);
    calls_close_on_loop(a, why);
    promises_close_on_loop(a, why);
    for (int rank = 0; rank < a->member_count; rank++) reply_lost_on_loop(a, rank, why);
    flow_close_on_loop(a);
}

// Values that no request has mentioned do not block leaving: if a request is under way, so is a
// message (SHUT-4).
static size_t count_promises(const agent *a) {
    size_t count = calls_of(a)->promises.count;
    for (int rank = 0; rank < a->member_count; rank++)
        count -= call_peer_of(a, rank)->unexpected_count;
    return count;
}

static void list_pending(const agent *a, pending *out) {
    const calls *c = calls_of(a);
    pending_add(out, "awaits", c->out.count, "reply", "replies");
    pending_add(out, "serves", c->body_count, "call", "calls");
    pending_add(out, "awaits", count_promises(a), "promise", "promises");
}

// The library's own functions do nothing that others wait for: they only wait for it themselves.
static bool is_own(const char *function) {
    return strncmp(function, "gw.", 3) == 0;
}

// A call whose body has returned a future is completed by another one.
static const served_call *find_acting(const agent *a) {
    for (map_cursor e = { 0 }; map_next(&calls_of(a)->served, &e);) {
        const served_call *s = e.value;
        if (s->state < SERVED_RESULT && !is_own(s->header.function)) return s;
    }
    return NULL;
}

// What a call that has not started waits for.
static trace_queued queued_for(const served_call *s) {
    switch (s->state) {
    case SERVED_ARGUMENTS: return TRACE_QUEUED_ARGUMENTS;
    case SERVED_DEFERRED:
        return calls_of(s->agent)->is_held ? TRACE_QUEUED_SERVE : TRACE_QUEUED_FLOW;
    case SERVED_ORDER: return TRACE_QUEUED_ORDER;
    case SERVED_TURN: return TRACE_QUEUED_TURN;
    case SERVED_RESULT: return TRACE_QUEUED_FUTURE;
    default: return TRACE_QUEUED_THREAD;
    }
}

static void describe_queued(const served_call *s, trace_activity *out) {
    static const char *const texts[TRACE_QUEUED_COUNT] = {
        [TRACE_QUEUED_NOT] = "",
        [TRACE_QUEUED_THREAD] = "a worker thread",
        [TRACE_QUEUED_ARGUMENTS] = "its arguments, or its object to be made",
        [TRACE_QUEUED_FLOW] = "its caller to receive replies (flow control)",
        [TRACE_QUEUED_ORDER] = "earlier calls of its caller to start",
        [TRACE_QUEUED_TURN] = "",  // activity_add_turn
        [TRACE_QUEUED_FUTURE] = "the future that it has returned",
        [TRACE_QUEUED_SERVE] = "gw_rpc_serve",
    };
    out->kind = TRACE_QUEUED;
    out->queued = queued_for(s);
    snprintf(out->in, sizeof out->in, "%s", texts[out->queued]);
    if (out->queued == TRACE_QUEUED_TURN) activity_add_turn(out, s->agent, s->object->turn);
}

static void observe(const agent *a, observation *out) {
    const calls *c = calls_of(a);
    for (map_cursor e = { 0 }; map_next(&c->served, &e);) {
        served_call *s = e.value;
        if (s->state >= SERVED_ENDED) continue;
        trace_activity x = activity_of(TRACE_RUNS, s->header.function, NULL);
        x.caller = s->caller;
        x.call = s->header.fixed.call;
        if (s->state == SERVED_RUNNING) x.tid = s->tid;
        if (s->state < SERVED_RUNNING || s->state == SERVED_RESULT) describe_queued(s, &x);
        observation_add(out, &x, &s->seen_ns);
    }
    out->sums[TRACE_SUMS_MADE] = &c->made;
    out->sums[TRACE_SUMS_SERVED] = &c->bodies;
    out->counters[TRACE_CALLS_MADE] = c->made_count - c->out.count;
    out->counters[TRACE_CALLS_SERVED] = c->served_count - c->served.count;
}

// A future that has resolved with a value, which the reply contains.
static bool has_value(const gw_future *f) {
    const result *r = f ? future_result(f) : NULL;
    return r && !result_error(r);
}

// What the reply needs is there, also for the library's own functions: it is sent before this worker counts as idle.
static bool replies(const agent *a) {
    for (map_cursor e = { 0 }; map_next(&calls_of(a)->served, &e);) {
        const served_call *s = e.value;
        bool is_resolved = s->state == SERVED_RESULT && has_value(s->returned);
        if (is_resolved || s->state == SERVED_SCHEDULED || s->state == SERVED_RUNNING) return true;
    }
    return false;
}

static bool acts(const agent *a) {
    return find_acting(a) || replies(a);
}

static int serves_for(const agent *a) {
    const served_call *s = find_acting(a);
    return s ? s->caller : -1;
}

static bool has_called(const agent *a, int rank) {
    if (rank < 0 || rank >= a->member_count) return false;
    list_each(l, &call_peer_of(a, rank)->calls) {
        const gw_future *f = list_entry(l, gw_future, sibling);
        if (!f->fetches && !is_own(f->function)) return true;
    }
    return false;
}

static bool has_unread(const agent *a, int rank) {
    list_each(l, &call_peer_of(a, rank)->served) {
        const served_call *s = list_entry(l, served_call, sibling);
        if (s->state < SERVED_RUNNING && is_own(s->header.function)) return true;
    }
    return false;
}

const service call_service = {
    .name = "call",
    .data = &call_data,
    .kind_first = KIND_REQUEST,
    .kind_last = CALL_KIND_LAST,
    .attachment = &promise_attachment,
    .open = call_state_open,
    .begins_to_leave = served_calls_begin_on_loop,
    .received = received,
    .find_table = find_table,
    .takes_incomplete = takes_incomplete,
    .names_unknown = names_unknown,
    .lost = lost,
    .writable = writable,
    .pending = list_pending,
    .observe = observe,
    .acts = acts,
    .serves_for = serves_for,
    .has_called = has_called,
    .has_unread = has_unread,
    .stop = stop,
    .free = call_state_free,
};
