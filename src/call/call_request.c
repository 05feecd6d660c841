// The request of a call: its deadline, its context, its arguments.
#include "call/call.h"

#include "call/protocol.h"
#include "future/future.h"

#include <stdio.h>

static int64_t deadline_of(agent *a, gw_scope *s, gw_call_options options) {
    return context_deadline_within_ns(
        a, s, options.timeout_ms == GW_AGENT_TIMEOUT ? a->timeout_ms : options.timeout_ms);
}

int64_t call_length_ms(const agent *a, int64_t deadline_ns) {
    int64_t now_ns = env_now_ns(a->env);
    if (deadline_ns == ENV_NEVER || deadline_ns < now_ns) return 0;
    return (deadline_ns - now_ns + 999999) / 1000000;
}

int64_t call_time_left_ns(gw_scope *s, gw_call_options options) {
    int64_t until_ns = deadline_of(s->agent, s, options);
    if (until_ns == ENV_NEVER) return -1;
    int64_t left_ns = until_ns - env_now_ns(((agent *)s->agent)->env);
    return left_ns > 0 ? left_ns : 0;
}

// Futures that have resolved travel as their values.
static gw_status put_future(call *c, gw_scope *s, gw_future *f, gw_error *error) {
    result *r = f->agent == c->agent ? future_result(f) : NULL;
    if (!r) return outgoing_put(&c->outgoing, gw_value_of_future(f), error);
    if (result_error(r)) return error_copy(error, result_error(r));
    gw_scope *inner = gw_scope_open(s);
    gw_value v = result_give(r, inner);
    gw_status status = gw_ok(inner) ? outgoing_put(&c->outgoing, v, error) : GW_OK;
    gw_error failed = gw_scope_close(inner);
    if (!failed.status) return status;
    return error_copy(error, &failed);
}

// An operator takes no references, but their values.
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
    c->fixed.has_pass = s->slots[SCOPE_GRADS].data || (of_body && x->has_pass);
}

static gw_status write_request(call *c, gw_scope *s, gw_target to, const char *function, int count,
                               const gw_value *args) {
    gw_error *e = &c->error;
    gw_status status = target_resolve(c->agent, to, &c->to, e);
    if (status) return status;
    c->through = to.rref;
    set_context(c, s);
    if (c->fixed.depth > LIMIT_DEPTH)
        return error_set(e, GW_LIMIT, "functions call each other more than %d levels deep",
                         LIMIT_DEPTH);
    if (count < 0 || count > LIMIT_ARGS)
        return error_set(e, GW_LIMIT, "%d arguments were given, but only 0 to %d are allowed",
                         count, LIMIT_ARGS);
    if (count && !args)
        return error_set(e, GW_INVALID, "%d arguments were given, but their array is NULL", count);
    c->fixed.key = scope_call_key(s);
    status = outgoing_init(&c->outgoing, c->agent, KIND_REQUEST, e);
    if (status) return status;
    c->outgoing.resolves = !to.rref && registry_find_operator(function);
    if (s->grad_enabled) outgoing_track(&c->outgoing, c->fixed.scope);
    request_write(&c->outgoing.message->head, &c->fixed, function, c->origin, (uint32_t)count);
    return put_args(c, s, count, args);
}

// The outcome of a call that has failed here is known: a function that ran and failed was one of its
// arguments.
static void explain(call *c) {
    gw_error *e = &c->error;
    e->outcome = GW_NOT_DELIVERED;
    if (!e->function[0]) snprintf(e->function, sizeof e->function, "%s", c->function);
}

void call_set_error(call *c, gw_status status) {
    if (!c->error.status) c->error.status = status;
    explain(c);
}

static gw_status check_name(const char *function, gw_error *error) {
    if (function && options_is_name(function)) return GW_OK;
    if (!function) return error_set(error, GW_INVALID, "the name of the function is NULL");
    return error_set(error, GW_INVALID, "\"%.140s\" is not the name of a function", function);
}

static gw_status check_options(gw_call_options options, gw_error *error) {
    if (options.timeout_ms >= GW_AGENT_TIMEOUT) return GW_OK;
    return error_set(error, GW_INVALID, "the timeout is %lld ms, but must not be negative",
                     (long long)options.timeout_ms);
}

static gw_status open_future(call *c, const char *name) {
    c->future = future_open(c->agent, name);
    if (!c->future) return error_set(&c->error, GW_NO_MEMORY, "no memory for a call");
    c->future->length_ms = c->length_ms;
    return GW_OK;
}

void call_init_fetch(call *c, gw_scope *s, int owner) {
    *c = (call){
        .agent = s->agent, .scope = s, .function = "gw_to_here", .to = owner, .fixed.depth = 1
    };
    c->deadline_ns = deadline_of(c->agent, s, GW_OPTIONS(gw_call_options));
    c->length_ms = call_length_ms(c->agent, c->deadline_ns);
    context *x = context_of(s);
    c->context = x;
    c->fixed.depth = (uint8_t)((x ? x->depth : 0) + 1);
    if (open_future(c, "gw_to_here"))
        explain(c);
    else
        c->future->once = c->future->fetches = true;
}

void call_init(call *c, gw_scope *s, gw_call_options options, gw_target to, const char *function,
               int count, const gw_value *args, bool wants_reply) {
    // Only a result that stays there has an origin.
    *c = (call){ .agent = s->agent,
                 .scope = s,
                 .to = -1,
                 .origin = wants_reply ? NULL : options.origin,
                 .called_at = options.origin };
    gw_status status = check_name(function, &c->error);
    const char *name = c->function = status ? "" : function;
    if (!status) status = check_options(options, &c->error);
    c->deadline_ns = deadline_of(c->agent, s, options);
    c->length_ms = call_length_ms(c->agent, c->deadline_ns);
    if (wants_reply && open_future(c, name)) status = GW_NO_MEMORY;
    if (c->future) c->future->called_at = options.origin;
    if (!status) status = write_request(c, s, to, function, count, args);
    if (status) call_set_error(c, status);
}

void call_init_again(call *c, gw_scope *s, const call *from, gw_target to) {
    *c = *from;
    c->to = -1;
    c->future = NULL;
    c->outgoing = (outgoing){ 0 };
    gw_status status = c->error.status;
    if (open_future(c, c->function)) status = GW_NO_MEMORY;
    if (!status) status = target_resolve(c->agent, to, &c->to, &c->error);
    if (!status) status = outgoing_init_again(&c->outgoing, &from->outgoing, &c->error);
    c->fixed.key = scope_call_key(s);
    if (status) call_set_error(c, status);
}

void call_fini(call *c) {
    outgoing_fini(&c->outgoing);
    handle_release(c->future);
}
