// The caller's side: a request is sent, and ends.
#include "call/call.h"

#include "agent/bodies/observe.h"
#include "agent/members/member_table.h"
#include "base/failpoint.h"
#include "base/mutation.h"
#include "call/flow_control.h"
#include "call/protocol.h"
#include "future/future.h"
#include "trace/record.h"

#include <stdio.h>

// ---- Sending ------------------------------------------------------------------------------------

static gw_status check_flight(call *c) {
    agent *a = c->agent;
    gw_status status = GW_OK;
    // The error of an unusable reference is that of the call.
    if (c->through)
        status = calls_of(a)->target->check(c->through, &c->fixed.target, &c->fixed.target_fork,
                                            &c->error);
    if (!status) status = agent_check_on_loop(a, c->to, &c->error);
    if (status) return status;
    if (a->phase == AGENT_DRAINING && c->fixed.depth == 1)
        return error_set(&c->error, GW_WRONG_STATE, "a call is not possible after shutdown");
    if (c->context && (status = context_check_cancelled(c->context->scope, &c->error)))
        return status;
    return GW_OK;
}

void call_await_flow_on_loop(call *c) {
    if (c->error.status) return;
    uint64_t size = c->outgoing.message ? outgoing_size_on_loop(&c->outgoing, c->to) : 0;
    gw_status status = flow_wait_on_loop(c->agent, c->scope, c->to, size, c->future != NULL,
                                         c->deadline_ns, &c->error);
    if (status) call_set_error(c, status);
}

void call_report_interrupt(const call *c) {
    if (c->scope->is_interrupted) scope_fail_with(c->scope, &c->error);
}

static uint64_t time_left_ns(const call *c) {
    if (c->deadline_ns == ENV_NEVER) return 0;
    int64_t left = c->deadline_ns - env_now_ns(c->agent->env);
    return left > 0 ? (uint64_t)left : 1;
}

static void number(call *c) {
    message *m = c->outgoing.message;
    c->fixed.call = ++calls_of(c->agent)->last_call;
    c->fixed.time_left_ns = time_left_ns(c);
    if (c->amend) {
        c->amend(&m->head, c->fixed.call, c->fixed.time_left_ns);
    } else {
        request_amend(&m->head, &c->fixed);
    }
}

static void expire(timer *t) {
    call_expire_on_loop(list_entry(t, gw_future, deadline));
}

static void cancel_made(work_item *item) {
    future_cancel_on_loop(list_entry(item, gw_future, made));
}

// Its reply is expected.
static gw_status expect(call *c) {
    gw_future *f = c->future;
    agent *a = c->agent;
    call_peer *m = call_peer_of(a, c->to);
    bool for_call = c->context && c->context->serves;
    work *w = for_call ? context_work_on_loop(c->context) : NULL;
    if ((for_call && !w) || !map_put(&calls_of(a)->out, c->fixed.call, f))
        return error_set(&c->error, GW_NO_MEMORY, "no memory for a call");
    f->made.cancel = cancel_made;
    if (w) list_append(&w->items, &f->made.link);
    f->makers = 1;
    if (!f->source) f->source = &call_source;  // the value behind a reference has its own
    f->call = c->fixed.call;
    f->to = c->to;
    f->deadline.fire = expire;
    list_append(&m->calls, &f->sibling);
    if (m->call_count++ == 0) member_table_await_on_loop(c->agent, c->to, true);
    handle_retain(f);
    return GW_OK;
}

// The future is not out any more: its reply has arrived, or cannot arrive.
static void forget(gw_future *f) {
    agent *a = f->agent;
    call_close_await_on_loop(f);
    map_take(&calls_of(a)->out, f->call);
    f->call = 0;
    f->makers = 0;
    list_remove(&f->sibling);
    list_remove(&f->made.link);
    if (--call_peer_of(a, f->to)->call_count == 0) member_table_await_on_loop(a, f->to, false);
    flow_wake_on_loop(a, f->to);
}

static void record_end(const gw_future *f, uint64_t call) {
    const agent *a = f->agent;
    const gw_error *e = result_error(future_result(f));
    if (f->function[0]) trace_sums_add(&calls_of(a)->made, f->function, "", e, 0);
    if (trace_is_on(TRACE_CALL))
        trace_record_text(TRACE_CALL_ENDED, a->observer.row, trace_call_id(a->rank, call),
                          e ? e->status : GW_OK, f->function);
}

static void finish(gw_future *f, result *r) {
    agent *a = f->agent;
    uint64_t call = f->call;
    forget(f);
    if (future_result(f)) {
        result_release_on_loop(a, r);
        if (f->keep) f->keep(f);
    } else {
        future_complete_on_loop(f, r);
    }
    record_end(f, call);
    future_release_on_loop(f);
    leaving_check_on_loop(a);
}

gw_status call_send_on_loop(call *c) {
    agent *a = c->agent;
    gw_status status = c->error.status;
    if (!status) status = check_flight(c);
    if (!status) {
        number(c);
        if (c->future) status = expect(c);
    }
    if (status) {
        call_set_error(c, status);
        return status;
    }
    calls_of(a)->made_count++;
    agent_member(a, c->to)->traffic.calls_made++;
    if (trace_is_on(TRACE_CALL))
        trace_record_text(TRACE_CALL_MADE, a->observer.row, trace_call_id(a->rank, c->fixed.call),
                          (uint64_t)c->to, c->future ? c->future->function : "");
    failpoint("before_send");
    status = outgoing_send_on_loop(&c->outgoing, c->to, REQUEST_ATTACHMENTS_FIELD, true, &c->error);
    if (!status) {
        if (c->future) c->future->message = c->outgoing.id;
        return GW_OK;
    }
    call_set_error(c, status);
    if (c->future) {
        forget(c->future);
        future_release_on_loop(c->future);
    }
    return status;
}

// ---- Its end -------------------------------------------------------------------------

// Of a request that was sent: whether the callee can have it.
static gw_outcome outcome_of(const gw_future *f) {
    agent *a = f->agent;
    bool gone =
        f->to == a->rank || !f->message || !a->peers || peers_has_sent(a->peers, f->to, f->message);
    return gone ? GW_MAY_HAVE_RUN : GW_NOT_DELIVERED;
}

// The caller waits no longer.
static void give_up(gw_future *f, gw_error *error) {
    error_prefix(error, f->function);
    error_prefix(error, agent_member(f->agent, f->to)->name);
    snprintf(error->function, sizeof error->function, "%s", f->function);
    future_fail_on_loop(f, error);
    // Promises that the callee was to keep still need its reply.
    if (f->call && !list_is_empty(&f->forwards)) return;
    agent *a = f->agent;
    if (f->call) {
        record_end(f, f->call);
        forget(f);
    }
    future_release_on_loop(f);
    leaving_check_on_loop(a);
}

void call_expire_on_loop(gw_future *f) {
    gw_error error;
    error_set(&error, GW_TIMEOUT, "no reply within %lld ms", (long long)f->length_ms);
    error.outcome = GW_MAY_HAVE_RUN;
    give_up(f, &error);
}

void call_end_wait_on_loop(gw_future *f, gw_scope *s) {
    gw_error error;
    if (!context_check_cancelled(s, &error)) {
        call_expire_on_loop(f);
    } else {
        error.outcome = GW_MAY_HAVE_RUN;
        give_up(f, &error);
    }
}

static void notify_callee(const gw_future *f) {
    message *m = agent_message_on_loop(f->agent, KIND_CANCEL);
    if (!m) return;
    bytes_put_u64(&m->head, f->call);
    agent_post_on_loop(f->agent, f->to, m);
}

bool call_end_on_loop(gw_future *f, gw_error error) {
    agent *a = f->agent;
    if (!f->call) return false;
    list_remove(&f->made.link);
    bool withdrawn = f->message && !f->fetches && a->peers &&
                     peers_withdraw(a->peers, f->to, f->message, KIND_WITHDRAWN);
    error.outcome = withdrawn ? GW_NOT_DELIVERED : GW_MAY_HAVE_RUN;
    if (withdrawn) {
        forget(f);  // no reply will arrive
    } else {
        notify_callee(f);
    }
    give_up(f, &error);
    return true;
}

bool call_cancel_on_loop(gw_future *f) {
    gw_error error;
    error_set(&error, GW_CANCELLED, "cancelled");
    return call_end_on_loop(f, error);
}

static int producer(const gw_future *f) {
    return f->call && f->to != f->agent->rank ? f->to : -1;
}

// Without memory for it this worker sends the value itself, later.
static bool forward_result(gw_future *f, int consumer, uint64_t promise) {
    message *m = agent_message_on_loop(f->agent, KIND_FORWARD);
    if (!m) return false;
    bytes_put_u64(&m->head, f->call);
    bytes_put_u32(&m->head, (uint32_t)consumer);
    bytes_put_u64(&m->head, promise);
    return agent_send_on_loop(f->agent, f->to, m, true, NULL) == GW_OK;
}

static void describe(const gw_future *f, trace_activity *out) {
    if (!f->call) return;
    out->kind = TRACE_WAITS_REPLY;
    out->number = f->call;
    trace_activity_add_rank(out, f->to);
}

const future_source call_source = { .cancel = call_cancel_on_loop,
                                    .producer = producer,
                                    .forward = forward_result,
                                    .describe = describe };

static void resolve_call(void *user, result *r) {
    gw_future *f = user;
    if (f->call) {
        finish(f, r);
    } else {
        result_release_on_loop(f->agent, r);
    }
    future_release_on_loop(f);
}

#ifdef GW_MUTATIONS
static gw_future *oldest_call(agent *a, int to) {
    list_node *calls = &call_peer_of(a, to)->calls;
    return list_is_empty(calls) ? NULL : list_entry(calls->next, gw_future, sibling);
}
#else
#define oldest_call(a, to) NULL
#endif

gw_status call_replied_on_loop(agent *a, int from, message *m, gw_error *error) {
    reply_fixed fixed;
    size_t value_at;
    gw_status status = reply_read(m, &fixed, &value_at, error);
    if (status) {
        message_release(m);
        return status;
    }
    gw_future *f = map_find(&calls_of(a)->out, fixed.id);
    if (has_mutation(MUTATION_REPLY_NOT_DEDUPLICATED) && !f) f = oldest_call(a, from);
    if (!f || f->to != from) {
        calls_of(a)->replies_dropped++;
        return reply_drop_on_loop(a, from, m, fixed.attachments_at, error);
    }
    f->honoured = fixed.forwarded;
    return reply_resolve_on_loop(a, from, m, &fixed, value_at, !f->once, resolve_call,
                                 handle_retain(f), error);
}

// "ps: slow: " in front of why it is lost.
static void fail_lost(gw_future *f, const gw_error *why) {
    gw_error error = *why;
    error.outcome = outcome_of(f);
    if (f->function[0]) error_prefix(&error, f->function);
    error_prefix(&error, agent_member(f->agent, f->to)->name);
    snprintf(error.function, sizeof error.function, "%s", f->function);
    finish(f, result_of_error(&error));
}

void calls_lost_on_loop(agent *a, int rank) {
    call_peer *p = call_peer_of(a, rank);
    while (!list_is_empty(&p->calls))
        fail_lost(list_entry(p->calls.next, gw_future, sibling), agent_member(a, rank)->why);
}

void calls_close_on_loop(agent *a, const gw_error *why) {
    for (int rank = 0; rank < a->member_count; rank++) {
        call_peer *p = call_peer_of(a, rank);
        while (!list_is_empty(&p->calls))
            fail_lost(list_entry(p->calls.next, gw_future, sibling), why);
    }
}

// ---- The functions of gradwire/rpc.h ------------------------------------------------------------

static void fail_here(gw_scope *s, const call *c) {
    error_origin = c->called_at;
    scope_fail_with(s, &c->error);
    error_origin = NULL;
}

gw_value call_sync(call *c, gw_scope *s) {
    agent *a = c->agent;
    scope_enter(s);
    env_enter(a->env);
    call_await_flow_on_loop(c);
    if (call_send_on_loop(c) == GW_OK && !future_wait_on_loop(c->future, s, c->deadline_ns))
        call_end_wait_on_loop(c->future, s);
    env_leave(a->env);
    scope_leave(s);
    if (c->error.status) {
        fail_here(s, c);
        return gw_none();
    }
    return future_give(c->future, s);
}

gw_value gw_rpc_sync_with(gw_scope *s, gw_target to, const char *function, gw_values args,
                          gw_call_options options) {
    agent *a = s->error ? NULL : agent_of(s);
    if (!a) return gw_none();
    gw_error error;
    if (context_check_wait(s, &error)) {
        error.outcome = GW_NOT_DELIVERED;
        scope_fail_with(s, &error);
        return gw_none();
    }
    call c;
    call_init(&c, s, options, to, function, args.count, args.items, true);
    if (c.future) c.future->once = true;
    gw_value v = call_sync(&c, s);
    call_fini(&c);
    return v;
}

// An error goes into the future; an interrupt also fails the scope.
void call_start(call *c) {
    agent *a = c->agent;
    env_enter(a->env);
    call_await_flow_on_loop(c);
    if (call_send_on_loop(c)) {
        future_fail_on_loop(c->future, &c->error);
    } else if (c->deadline_ns != ENV_NEVER) {
        env_set_timer(a->env, &c->future->deadline, c->deadline_ns);
    }
    env_leave(a->env);
    call_report_interrupt(c);
}

gw_future *gw_rpc_async_with(gw_scope *s, gw_target to, const char *function, gw_values args,
                             gw_call_options options) {
    agent *a = s->error ? NULL : agent_of(s);
    if (!a) return &future_poison;
    call c;
    call_init(&c, s, options, to, function, args.count, args.items, true);
    gw_future *f = c.future;
    if (f) {
        call_start(&c);
        f = scope_own(s, handle_retain(f));
    } else {
        fail_here(s, &c);
    }
    call_fini(&c);
    return f ? f : &future_poison;
}

void gw_rpc_notify_with(gw_scope *s, gw_target to, const char *function, gw_values args,
                        gw_call_options options) {
    agent *a = s->error ? NULL : agent_of(s);
    if (!a) return;
    call c;
    call_init(&c, s, options, to, function, args.count, args.items, false);
    c.fixed.one_way = 1;
    env_enter(a->env);
    call_await_flow_on_loop(&c);
    call_send_on_loop(&c);
    env_leave(a->env);
    if (c.error.status) fail_here(s, &c);
    call_fini(&c);
}
