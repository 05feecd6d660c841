// The caller's side: a request is written and sent, and what becomes of it.
#include "call/call.h"

#include "agent/member_table.h"
#include "base/failpoint.h"
#include "base/mem.h"
#include "base/mutation.h"
#include "call/flow_control.h"
#include "call/promise.h"
#include "call/protocol.h"
#include "future/future.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

// ---- Whom it is for -----------------------------------------------------------------------------

gw_status target_resolve(const agent *a, gw_target to, int *out_rank, gw_error *error) {
    const char *self = a->name;
    if (to.rref) {
        const target_class *target = calls_of(a)->target;
        if (target->agent_of(to.rref) != a)
            return error_set(error, GW_INVALID,
                             "the reference is of another agent, or of a call that failed");
        *out_rank = target->owner(to.rref);
        return GW_OK;
    }
    if (to.name) {
        *out_rank = member_table_find((agent *)a, to.name);
        if (*out_rank < 0)
            return error_set(error, GW_NOT_FOUND, "%s knows no worker named \"%.140s\"", self,
                             to.name);
        return GW_OK;
    }
    if (to.workers) return error_set(error, GW_INVALID, "several workers, where one is called");
    if (to.rank == NO_RANK)
        return error_set(error, GW_INVALID, "the worker or reference to call is NULL");
    if (to.rank < 0 || to.rank >= a->member_count || !agent_member(a, (int)to.rank)->known)
        return error_set(error, GW_NOT_FOUND, "%s knows no worker of rank %lld; there are %d", self,
                         (long long)to.rank, a->member_count);
    if (to.is_worker && agent_member(a, (int)to.rank)->worker.incarnation != to.incarnation)
        return error_set(error, GW_NOT_FOUND, "%s knows no such worker: rank %lld is another %s",
                         self, (long long)to.rank, agent_member(a, (int)to.rank)->name);
    *out_rank = (int)to.rank;
    return GW_OK;
}

// ---- Writing a request --------------------------------------------------------------------------

// |out_length_ms| is what an error will say.
static int64_t deadline_of(agent *a, gw_scope *s, gw_call_options options, int64_t *out_length_ms) {
    int64_t timeout_ms =
        options.timeout_ms == GW_AGENT_TIMEOUT ? a->timeout_ms : options.timeout_ms;
    int64_t now = env_now_ns(a->env), length_ns, own = ENV_NEVER;
    if (timeout_ms > 0 && !__builtin_mul_overflow(timeout_ms, INT64_C(1000000), &length_ns) &&
        __builtin_add_overflow(now, length_ns, &own))
        own = ENV_NEVER;
    int64_t outer = context_deadline_ns(s), least = own < outer ? own : outer;
    *out_length_ms = least == ENV_NEVER || least < now ? 0 : (least - now + 999999) / 1000000;
    return least;
}

int64_t call_time_left_ns(gw_scope *s, gw_call_options options) {
    int64_t ignored, until_ns = deadline_of(s->agent, s, options, &ignored);
    if (until_ns == ENV_NEVER) return -1;
    int64_t left_ns = until_ns - env_now_ns(((agent *)s->agent)->env);
    return left_ns > 0 ? left_ns : 0;
}

// Futures that have resolved travel as what they hold.
static gw_status put_future(call *c, gw_scope *s, gw_future *f, gw_error *error) {
    result *r = f->agent == c->agent ? future_result(f) : NULL;
    if (!r) return outgoing_put(&c->outgoing, gw_value_of_future(f), error);
    if (result_error(r)) {
        *error = *result_error(r);
        return error->status;
    }
    gw_scope *inner = gw_scope_open(s);
    gw_value v = result_give(r, inner);
    gw_status status = gw_ok(inner) ? outgoing_put(&c->outgoing, v, error) : GW_OK;
    gw_error failed = gw_scope_close(inner);
    if (!failed.status) return status;
    *error = failed;
    return failed.status;
}

// An operator takes no references, but what is behind them.
static gw_status put_value_behind(call *c, gw_scope *s, gw_rref *r, gw_error *error) {
    const target_class *target = calls_of(c->agent)->target;
    if (target->agent_of(r) != c->agent)
        return outgoing_put(&c->outgoing, gw_value_of_rref(r), error);
    gw_future *f = target->value_behind(r);
    if (!f) return error_set(error, GW_NO_MEMORY, "no memory for an argument");
    gw_status status = put_future(c, s, f, error);
    handle_release(f);
    return status;
}

static gw_status put_arg(call *c, gw_scope *s, gw_value v) {
    if (v.kind == GW_FUTURE) return put_future(c, s, v.as.future, &c->error);
    if (v.kind == GW_RREF && c->outgoing.resolves)
        return put_value_behind(c, s, v.as.rref, &c->error);
    return outgoing_put(&c->outgoing, v, &c->error);
}

static gw_status put_args(call *c, gw_scope *s, int count, const gw_value *args) {
    for (int i = 0; i < count; i++) {
        gw_status status = put_arg(c, s, args[i]);
        if (status) return status;
    }
    return GW_OK;
}

// The scope of a body has its caller's id, which other bodies have too: its calls are ordered by a
// number of their own.
static uint64_t draw_order(agent *a) {
    return a->ids.space << ID_COUNT_BITS |
           (1 + atomic_fetch_add_explicit(&a->ids.next, 1, memory_order_relaxed));
}

static void set_context(call *c, gw_scope *s) {
    context *x = context_of(s);
    c->context = x;
    bool of_body = x && x->scope == s && !x->own_memory;
    if (of_body && !x->order) x->order = draw_order(c->agent);
    c->fixed.scope = gw_scope_id(s);
    c->fixed.order = of_body ? x->order : c->fixed.scope;
    c->fixed.depth = (uint8_t)((x ? x->depth : 0) + 1);
    c->fixed.untracked = !s->grad_enabled;
}

static gw_status write_request(call *c, gw_scope *s, gw_target to, const char *function, int count,
                               const gw_value *args) {
    gw_error *e = &c->error;
    gw_status status = target_resolve(c->agent, to, &c->to, e);
    if (status) return status;
    c->through = to.rref;
    set_context(c, s);
    if (c->fixed.depth > LIMIT_DEPTH)
        return error_set(e, GW_LIMIT, "calls made for calls, deeper than %d", LIMIT_DEPTH);
    if (count < 0 || count > LIMIT_ARGS)
        return error_set(e, GW_LIMIT, "%d arguments, at most %d", count, LIMIT_ARGS);
    if (count && !args) return error_set(e, GW_INVALID, "%d arguments at NULL", count);
    c->fixed.key = scope_call_key(s);
    status = outgoing_init(&c->outgoing, c->agent, KIND_REQUEST, e);
    if (status) return status;
    c->outgoing.resolves = !to.rref && registry_find_operator(function);
    if (s->grad_enabled) outgoing_track(&c->outgoing, c->fixed.scope);
    request_write(&c->outgoing.message->head, &c->fixed, function, c->origin, (uint32_t)count);
    return put_args(c, s, count, args);
}

// What is known here about a call that has failed here: whatever ran and failed was one of its
// arguments.
static void explain(call *c, const char *function) {
    gw_error *e = &c->error;
    e->outcome = GW_NOT_DELIVERED;
    if (!e->function[0]) snprintf(e->function, sizeof e->function, "%s", function);
}

static void set_error(call *c, gw_status status, const char *function) {
    if (!c->error.status) c->error.status = status;
    explain(c, function);
}

static gw_status check_name(const char *function, gw_error *error) {
    if (function && options_is_name(function)) return GW_OK;
    if (!function) return error_set(error, GW_INVALID, "the name of the function is NULL");
    return error_set(error, GW_INVALID, "\"%.140s\" is not the name of a function", function);
}

static gw_status check_options(gw_call_options options, gw_error *error) {
    if (options.timeout_ms >= GW_AGENT_TIMEOUT) return GW_OK;
    return error_set(error, GW_INVALID, "a timeout of %lld ms", (long long)options.timeout_ms);
}

static gw_status open_future(call *c, const char *name, int64_t length_ms) {
    c->future = future_open(c->agent, name);
    if (!c->future) return error_set(&c->error, GW_NO_MEMORY, "no memory for a call");
    c->future->length_ms = length_ms;
    c->future->source = &call_source;
    return GW_OK;
}

void call_init_fetch(call *c, gw_scope *s, int owner) {
    int64_t length_ms;
    *c = (call){
        .agent = s->agent, .scope = s, .function = "gw_to_here", .to = owner, .fixed.depth = 1
    };
    c->deadline_ns = deadline_of(c->agent, s, GW_OPTIONS(gw_call_options), &length_ms);
    context *x = context_of(s);
    c->context = x;
    c->fixed.depth = (uint8_t)((x ? x->depth : 0) + 1);
    if (open_future(c, "gw_to_here", length_ms))
        explain(c, "gw_to_here");
    else
        c->future->once = c->future->fetches = true;
}

void call_init(call *c, gw_scope *s, gw_call_options options, gw_target to, const char *function,
               int count, const gw_value *args, bool wants_reply) {
    // Only what stays there has a place where it was asked for.
    *c = (call){ .agent = s->agent,
                 .scope = s,
                 .to = -1,
                 .origin = wants_reply ? NULL : options.origin,
                 .called_at = options.origin };
    gw_status status = check_name(function, &c->error);
    const char *name = c->function = status ? "" : function;
    if (!status) status = check_options(options, &c->error);
    int64_t length_ms;
    c->deadline_ns = deadline_of(c->agent, s, options, &length_ms);
    c->length_ms = length_ms;
    if (wants_reply && open_future(c, name, length_ms)) status = GW_NO_MEMORY;
    if (c->future) c->future->called_at = options.origin;
    if (!status) status = write_request(c, s, to, function, count, args);
    if (status) set_error(c, status, name);
}

void call_init_again(call *c, gw_scope *s, const call *from, gw_target to) {
    *c = *from;
    c->to = -1;
    c->future = NULL;
    c->outgoing = (outgoing){ 0 };
    gw_status status = c->error.status;
    if (open_future(c, c->function, c->length_ms)) status = GW_NO_MEMORY;
    if (!status) status = target_resolve(c->agent, to, &c->to, &c->error);
    if (!status) status = outgoing_init_again(&c->outgoing, &from->outgoing, &c->error);
    c->fixed.key = scope_call_key(s);
    if (status) set_error(c, status, c->function);
}

void call_fini(call *c) {
    outgoing_fini(&c->outgoing);
    handle_release(c->future);
}

// ---- Sending ------------------------------------------------------------------------------------

static gw_status check_flight(call *c) {
    agent *a = c->agent;
    gw_status status = GW_OK;
    // A reference that is of no use says why.
    if (c->through)
        status = calls_of(a)->target->check(c->through, &c->fixed.target, &c->fixed.target_fork,
                                            &c->error);
    if (!status) status = agent_check_on_loop(a, c->to, &c->error);
    if (status) return status;
    if (a->phase == AGENT_DRAINING && c->fixed.depth == 1)
        return error_set(&c->error, GW_WRONG_STATE, "a call after shutdown");
    if (c->context && (status = context_check_cancelled(c->context->scope, &c->error)))
        return status;
    return GW_OK;
}

void call_await_flow_on_loop(call *c) {
    if (c->error.status) return;
    uint64_t size = c->outgoing.message ? outgoing_size_on_loop(&c->outgoing, c->to) : 0;
    gw_status status = flow_wait_on_loop(c->agent, c->scope, c->to, size, c->future != NULL,
                                         c->deadline_ns, &c->error);
    if (status) set_error(c, status, c->function);
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
    f->call = c->fixed.call;
    f->to = c->to;
    f->deadline.fire = expire;
    list_append(&m->calls, &f->sibling);
    if (m->call_count++ == 0) member_table_await_on_loop(c->agent, c->to, true);
    handle_retain(f);
    return GW_OK;
}

// The future is not out any more: its reply came, or will not be known.
static void forget(gw_future *f) {
    agent *a = f->agent;
    map_take(&calls_of(a)->out, f->call);
    f->call = 0;
    f->makers = 0;
    list_remove(&f->sibling);
    list_remove(&f->made.link);
    if (--call_peer_of(a, f->to)->call_count == 0) member_table_await_on_loop(a, f->to, false);
    flow_call_ended_on_loop(a, f->to);
}

static void finish(gw_future *f, result *r) {
    agent *a = f->agent;
    forget(f);
    if (future_result(f)) {
        result_release_on_loop(a, r);
        if (f->keep) f->keep(f);
    } else {
        future_complete_on_loop(f, r);
    }
    future_release_on_loop(f);
    leaving_check_on_loop(a);
}

gw_status call_send_on_loop(call *c) {
    agent *a = c->agent;
    const char *function = c->function;
    gw_status status = c->error.status;
    if (!status) status = check_flight(c);
    if (!status) {
        number(c);
        if (c->future) status = expect(c);
    }
    if (status) {
        set_error(c, status, function);
        return status;
    }
    calls_of(a)->made_count++;
    failpoint("before_send");
    status = outgoing_send_on_loop(&c->outgoing, c->to, REQUEST_ATTACHMENTS_FIELD, true, &c->error);
    if (!status) {
        if (c->future) c->future->message = c->outgoing.id;
        return GW_OK;
    }
    set_error(c, status, function);
    if (c->future) {
        forget(c->future);
        future_release_on_loop(c->future);
    }
    return status;
}

// ---- What becomes of it -------------------------------------------------------------------------

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
    // Promises that the callee was asked to keep still need its reply to be known.
    if (f->call && !list_is_empty(&f->forwards)) return;
    agent *a = f->agent;
    if (f->call) forget(f);
    future_release_on_loop(f);
    leaving_check_on_loop(a);
}

void call_expire_on_loop(gw_future *f) {
    gw_error error;
    error_set(&error, GW_TIMEOUT, "no reply within %lld ms", (long long)f->length_ms);
    error.outcome = GW_MAY_HAVE_RUN;
    give_up(f, &error);
}

static void tell_callee(const gw_future *f) {
    message *m = agent_message_on_loop(f->agent, KIND_CANCEL);
    if (!m) return;
    bytes_put_u64(&m->head, f->call);
    if (m->head.failed) {
        message_release(m);
    } else {
        agent_send_on_loop(f->agent, f->to, m, true, NULL);
    }
}

bool call_cancel_on_loop(gw_future *f) {
    gw_error error;
    agent *a = f->agent;
    if (!f->call) return false;
    list_remove(&f->made.link);
    bool withdrawn = f->message && !f->fetches && a->peers &&
                     peers_withdraw(a->peers, f->to, f->message, KIND_WITHDRAWN);
    error_set(&error, GW_CANCELLED, "cancelled");
    error.outcome = withdrawn ? GW_NOT_DELIVERED : GW_MAY_HAVE_RUN;
    if (withdrawn) {
        forget(f);  // no reply will come
    } else {
        tell_callee(f);
    }
    give_up(f, &error);
    return true;
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
    if (!m->head.failed) return agent_send_on_loop(f->agent, f->to, m, true, NULL) == GW_OK;
    message_release(m);
    return false;
}

const future_source call_source = { .cancel = call_cancel_on_loop,
                                    .producer = producer,
                                    .forward = forward_result };

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
        reply_drop_on_loop(a, from, m, fixed.attachments_at);
        return GW_OK;
    }
    f->honoured = fixed.forwarded;
    reply_resolve_on_loop(a, from, m, &fixed, value_at, !f->once, resolve_call, handle_retain(f));
    return GW_OK;
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
        call_expire_on_loop(c->future);
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

// An error goes into the future.
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
