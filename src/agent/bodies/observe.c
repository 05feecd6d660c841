#include "agent/bodies/observe.h"

#include "agent/state/traffic.h"
#include "trace/kinds.h"
#include "trace/record.h"
#include "trace/region.h"

#include <stdio.h>
#include <string.h>

#define INTERVAL_NS INT64_C(1000000000)

// ---- A table ------------------------------------------------------------------------------------

trace_activity activity_of(trace_activity_kind kind, const char *what, gw_scope *s) {
    const context *c = s ? context_of(s) : NULL;
    trace_activity out = { .kind = kind, .caller = -1 };
    snprintf(out.what, sizeof out.what, "%s", what && what[0] ? what : "a future");
    if (c && c->serves) {
        out.caller = c->caller;
        out.call = c->call;
    }
    return out;
}

void activity_set_site(trace_activity *out, const char *origin) {
    const char *slash = origin ? strrchr(origin, '/') : NULL;
    snprintf(out->site, sizeof out->site, "%s", slash ? slash + 1 : origin ? origin : "");
}

void activity_add_turn(trace_activity *out, const agent *a, const turn *t) {
    const context *c = t->own ? context_of(t->own) : NULL;
    snprintf(out->in, sizeof out->in, "the turn of an object of class \"%.40s\"",
             t->class_name ? t->class_name : "?");
    out->number = c && c->serves ? trace_call_id(c->caller, c->call) : 0;
    trace_activity_add_rank(out, a->rank);
}

void observation_add(observation *out, trace_activity *activity, int64_t *since_ns) {
    if (!*since_ns) *since_ns = out->now_ns;
    activity->since_ns = *since_ns;
    out->count++;
    trace_table_add(&out->table, activity);
}

static void add_waits(const agent *a, observation *out) {
    list_each(l, &a->waits) {
        context_wait *w = list_entry(l, context_wait, link);
        if (w->waiter->woken) continue;  // its thread continues
        trace_activity x = activity_of(TRACE_WAITS_OTHER, w->waiter->what, w->scope);
        x.tid = w->tid;
        if (w->waiter->describe) w->waiter->describe(w->waiter, &x);
        observation_add(out, &x, &w->since_ns);
    }
}

static trace_phase_of_worker phase_of(const agent *a) {
    if (a->fence.status) return TRACE_IS_FENCED;
    switch (a->phase) {
    case AGENT_JOINING: return TRACE_JOINING;
    case AGENT_SERVING: return TRACE_SERVING;
    case AGENT_LEFT: return TRACE_LEFT;
    default: return TRACE_LEAVING;
    }
}

static void count_messages(const agent *a, uint64_t counters[TRACE_COUNTERS]) {
    peers_stats p = a->peers ? peers_get_stats(a->peers) : a->final_stats;
    counters[TRACE_MESSAGES_SENT] = a->messages_sent;
    counters[TRACE_MESSAGES_RECEIVED] = a->messages_received;
    for (int i = 0; i < p.transport_count; i++) {
        counters[TRACE_BYTES_SENT] += p.over[i].bytes_sent;
        counters[TRACE_BYTES_RECEIVED] += p.over[i].bytes_received;
    }
}

static trace_peer peer_of(int rank, const gw_peer_stats *of) {
    trace_peer out = {
        .rank = rank,
        .workers = 1,
        .counters = { [TRACE_PEER_CALLS_MADE] = of->calls_made,
                      [TRACE_PEER_CALLS_SERVED] = of->calls_served,
                      [TRACE_PEER_MESSAGES_SENT] = of->messages_sent,
                      [TRACE_PEER_MESSAGES_RECEIVED] = of->messages_received,
                      [TRACE_PEER_BYTES_SENT] = of->bytes_sent,
                      [TRACE_PEER_BYTES_RECEIVED] = of->bytes_received,
                      [TRACE_PEER_SHARED_SENT] = of->shared_sent,
                      [TRACE_PEER_SHARED_RECEIVED] = of->shared_received,
                      [TRACE_PEER_RECONNECTS] = of->reconnects,
                      [TRACE_PEER_QUEUED] = of->queued_bytes,
                      [TRACE_PEER_QUEUED_MAX] = of->queued_bytes_max,
                      [TRACE_PEER_LENT] = of->lent_bytes,
                      [TRACE_PEER_WAITED_US] = of->waited_us },
    };
    if (of->transport) snprintf(out.transport, sizeof out.transport, "%s", of->transport);
    return out;
}

static void add_peers(const agent *a, trace_peers *out) {
    for (int rank = 0; rank < a->member_count; rank++) {
        gw_peer_stats of = traffic_with(a, rank);
        trace_peer x = peer_of(rank, &of);
        trace_peers_add(out, &x);
    }
}

void observe_on_loop(const agent *a, observation *out) {
    uint64_t memory[MEMORY_KINDS];
    *out = (observation){ .now_ns = env_now_ns(a->env) };
    trace_table_begin(&out->table, out->now_ns, phase_of(a));
    add_waits(a, out);
    for (int i = 0; i < a->service_count; i++)
        if (a->services[i].service->observe) a->services[i].service->observe(a, out);
    count_messages(a, out->counters);
    add_peers(a, &out->peers);
    memory_read(memory);
    trace_table_counts counts = { out->counters, memory, &out->peers, { NULL } };
    memcpy(counts.sums, out->sums, sizeof counts.sums);
    trace_table_end(&out->table, &counts);
}

// ---- Publishing ---------------------------------------------------------------------------------

static int publish(agent *a) {
    observation o;
    observe_on_loop(a, &o);
    if (!o.table.failed) trace_agent_publish(a->observer.row, o.table.data, o.table.size);
    bytes_fini(&o.table);
    return o.count;
}

static void fire(timer *t) {
    agent *a = list_entry(t, agent, observer.timer);
    if (publish(a) || a->phase == AGENT_JOINING) observe_begin_on_loop(a);
}

void observe_begin_on_loop(agent *a) {
    timer *t = &a->observer.timer;
    if (!t->armed && a->observer.row >= 0)
        env_set_timer(a->env, t, env_now_ns(a->env) + INTERVAL_NS);
}

void observe_open(agent *a) {
    a->observer = (agent_observer){ .row = trace_agent_open(), .timer.fire = fire };
}

void observe_identify(const agent *a) {
    const trace_identity is = {
        .name = a->name, .rank = a->rank, .world_size = a->world_size, .incarnation = a->incarnation
    };
    trace_agent_identify(a->observer.row, &is);
    if (a->phase != AGENT_JOINING)
        trace_record_text(TRACE_JOINED, a->observer.row, a->incarnation, (uint64_t)a->rank,
                          a->name);
}

void observe_close_on_loop(agent *a) {
    env_set_timer(a->env, &a->observer.timer, ENV_NEVER);
    if (a->observer.row >= 0) publish(a);
    trace_agent_close(a->observer.row);
    a->observer.row = -1;
}
