// The body of a call, and its end. Without the loop lock unless stated otherwise.
#include "call/server.h"

#include "base/args.h"
#include "base/failpoint.h"
#include "base/mem.h"
#include "agent/settings/process_fork.h"
#include "call/error_trace.h"
#include "call/protocol.h"
#include "trace/record.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

enum { ARGS_ON_STACK = 8 };

// ---- The body -----------------------------------------------------------------------------------

typedef struct label {
    char text[2 * LIMIT_NAME_BYTES + 2];
} label;

// "my_add", "counter.add".
static label label_of(const served_call *s) {
    label out;
    if (s->class) {
        snprintf(out.text, sizeof out.text, "%s.%s", s->class->name, s->header.function);
    } else {
        memcpy(out.text, s->header.function, sizeof s->header.function);
    }
    return out;
}

typedef struct body_run {
    served_call *call;
    const gw_args *args;
    gw_value result;
} body_run;

static void run_function(void *context) {
    body_run *r = context;
    served_call *s = r->call;
    const function *f = s->function;
    r->result =
        f->body ? f->body(s->scope, r->args) : f->method(s->scope, s->object->self, r->args);
}

static gw_value call_function(served_call *s, const gw_args *args) {
    body_run r = { s, args, gw_none() };
    scope_lend(s->scope);
    scope_run(s->scope, run_function, &r);
    scope_take_back(s->scope);
    return r.result;
}

static gw_value call_body(served_call *s, const gw_args *args, object **out_made) {
    const function *f = s->function;
    gw_value v = gw_none();
    if (s->op) return op_run_value(s->scope, s->op, args->values, args->count);
    if (f->body || f->method) {
        v = call_function(s, args);
    } else {
        *out_made =
            object_open(s->agent, s->scope, f->class, s->header.fixed.key, &s->context, args);
    }
    if (is_process_fork(s->agent->mark)) process_fork_end(args->label);
    return v;
}

static gw_status decode_args(served_call *s, gw_value *values, gw_error *error) {
    decoder d = incoming_decoder(s->incoming, s->header.args_at, s->scope);
    for (uint32_t i = 0; i < s->header.arg_count; i++) {
        gw_status status = decode_value(&d, &values[i], error);
        if (status) return status;
    }
    if (s->scope->error) return error_copy(error, s->scope->error);
    return s->op
               ? GW_OK
               : signature_check(&s->function->signature, (int)s->header.arg_count, values, error);
}

// An error before the body is reported as such.
static void fail_before(served_call *s, gw_error *error) {
    error->outcome = GW_NOT_DELIVERED;
    gw_scope_clear(s->scope);
    scope_fail_with(s->scope, error);
}

static void record(const served_call *s, trace_kind kind, uint64_t value, const char *name) {
    trace_record_text(kind, s->agent->observer.row, trace_call_id(s->caller, s->header.fixed.call),
                      value, name);
}

static gw_value run_body(served_call *s, object **out_made) {
    gw_error error;
    gw_value on_stack[ARGS_ON_STACK], *values = on_stack;
    uint32_t count = s->header.arg_count;
    body_start began = context_body_starts(&s->context);
    if (began.now_ns >= s->deadline_ns) {
        error_set(&error, GW_TIMEOUT, "its deadline has passed before it could start");
        fail_before(s, &error);
        return gw_none();
    }
    if (context_check_cancelled(s->scope, &error)) {
        fail_before(s, &error);
        return gw_none();
    }
    if (count > ARGS_ON_STACK) values = gw_alloc(s->scope, count * sizeof *values);
    if (!values) return gw_none();
    if (decode_args(s, values, &error)) {
        fail_before(s, &error);
        return gw_none();
    }
    label name = label_of(s);
    gw_args args = { .label = name.text,
                     .count = (int)count,
                     .values = values,
                     .caller = agent_member(s->agent, s->caller)->worker };
    s->ran = true;
    atomic_store_explicit(&s->tid, trace_thread_id(), memory_order_relaxed);
    failpoint("running");
    bool is_recorded = trace_is_on(TRACE_CALL);
    if (is_recorded) record(s, TRACE_BODY_BEGUN, (uint64_t)s->caller, name.text);
    gw_value v = call_body(s, &args, out_made);
    s->has_failed = s->scope->error != NULL;
    if (is_recorded)
        record(s, TRACE_BODY_ENDED, s->scope->error ? s->scope->error->status : GW_OK, name.text);
    s->took_ns = context_report_if_long(&s->context, began);
    if (s->took_ns >= TRACE_SLOW_NS && trace_is_on(TRACE_SLOW))
        record(s, TRACE_SLOW_BODY, (uint64_t)s->took_ns, name.text);
    return v;
}

static void open_scope(served_call *s) {
    const request_fixed *f = &s->header.fixed;
    agent *a = s->agent;
    s->scope = agent_scope_open(a, f->key, f->scope, s->deadline_ns);
    s->context.scope = s->scope;
    if (s->scope->error) return;
    s->scope->may_wait = s->context.may_wait;
    if (s->op) s->scope->tensor_bytes_max = LIMIT_TENSOR_BYTES;
    scope_set_slot(s->scope, SCOPE_TURN, &s->context, NULL);
}

static void close_scope(served_call *s) {
    scope_close_unread(s->scope);
    s->scope = NULL;
}

// ---- Replying -----------------------------------------------------------------------------------

static void explain(served_call *s, gw_error *out, const gw_error *error) {
    *out = *error;
    out->outcome = s->ran ? GW_RAN_AND_FAILED : GW_NOT_DELIVERED;
    label name = label_of(s);
    error_add_trace(out, agent_member(s->agent, s->agent->rank)->name, name.text);
}

static void send_promised(served_call *s, list_node *forwards, gw_value v, const gw_error *error) {
    agent *a = s->agent;
    for (list_node *l; (l = list_take(forwards));) {
        wanted *w = list_entry(l, wanted, link);
        outgoing sh;
        bool filled = !reply_fill(&sh, a, KIND_PROMISE_VALUE, w->promise, s->header.fixed.scope,
                                  s->header.function, v, error);
        env_enter(a->env);
        reply_send_on_loop(&sh, a, w->consumer, KIND_PROMISE_VALUE, w->promise, filled, true);
        env_leave(a->env);
        outgoing_fini(&sh);
        mem_free(w);
    }
}

// Puts the number of forwards that will be honoured into the reply; from here on none is.
static void send_reply_on_loop(served_call *s, outgoing *sh, bool filled, list_node *out_forwards,
                               bool flush) {
    uint32_t count = 0;
    s->forwards_end = true;
    if (s->abandoned || s->header.fixed.one_way) return;
    list_each(l, &s->forwards) count++;
    if (filled) {
        call_peer_of(s->agent, s->caller)->wanted_count -= count;
        // Without memory for the reply the caller sends the promised values: the error that it does not have them
        // either.
        list_splice(out_forwards, &s->forwards);
        memcpy(sh->message->head.data + offsetof(reply_fixed, forwarded), &count, sizeof count);
    }
    reply_send_on_loop(sh, s->agent, s->caller, KIND_REPLY, s->header.fixed.call, filled, flush);
}

static bool others_follow(const served_call *s) {
    return s->queue && !list_is_empty(&s->queue->inlined);
}

enum { TOGETHER_NS = 20 * 1000 };

// Replies to calls of one turn go out together, at its end, but none waits long for the others.
static bool must_flush_on_loop(agent *a) {
    int64_t now_ns = env_now_ns(a->env);
    calls *c = calls_of(a);
    if (!c->unflushed_since_ns) {
        c->unflushed_since_ns = now_ns;
        return false;
    }
    if (now_ns - c->unflushed_since_ns < TOGETHER_NS) return false;
    c->unflushed_since_ns = 0;
    return true;
}

// The end of the body, as far as others wait for it. Returns the next call of its call queue.
static served_call *end_order_on_loop(served_call *s) {
    if (!s->queue) return NULL;
    if (!s->object) return call_queue_next_on_loop(s);
    call_queue_started_on_loop(s);
    return NULL;
}

static void end(served_call *s) {
    env *e = s->agent->env;
    env_enter(e);
    if (s->object) turn_end_on_loop(&s->held);
    served_call_free_on_loop(s);
    env_leave(e);
}

static void detach_and_free_on_loop(served_call *s) {
    if (!s->scope->error) scope_set_slot(s->scope, SCOPE_TURN, NULL, NULL);
    served_call_free_on_loop(s);
}

static served_call *reply_value(served_call *s, gw_value v, const gw_error *error, bool late) {
    agent *a = s->agent;
    outgoing sh;
    list_node forwards;
    list_init(&forwards);
    bool one_way = s->header.fixed.one_way;
    const request_fixed *f = &s->header.fixed;
    bool filled =
        !reply_fill(&sh, a, KIND_REPLY, f->call, f->untracked ? SCOPE_NOT_TRACKED : f->scope,
                    s->header.function, one_way ? gw_none() : v, error);
    env_enter(a->env);
    failpoint("before_reply");
    served_call_apply_on_loop(s, SERVED_REPLIED);
    if (error && one_way && !s->abandoned) served_call_log_on_loop(a, error);
    bool flush = late || (!others_follow(s) && must_flush_on_loop(a));
    send_reply_on_loop(s, &sh, filled, &forwards, flush);
    served_call *next = end_order_on_loop(s);
    // The turn ends with the scope, which may hold values that the object's next method uses.
    bool again = s->object || s->context.entered || !list_is_empty(&forwards);
    gw_scope *scope = s->scope;
    if (!again) detach_and_free_on_loop(s);
    env_leave(a->env);
    outgoing_fini(&sh);
    if (!again) {
        scope_close_unread(scope);
        return next;
    }
    send_promised(s, &forwards, v, error);
    close_scope(s);
    end(s);
    return next;
}

// For gw_remote: the value stays here.
static served_call *keep_value(served_call *s, gw_value v, const gw_error *error, object *made) {
    agent *a = s->agent;
    result *r = NULL;
    if (error)
        r = result_of_error(error);
    else if (!made && !(r = result_of_value(v))) {
        gw_error none;
        error_set(&none, GW_NO_MEMORY, "no memory for a value");
        r = result_of_error(&none);
    }
    close_scope(s);
    env_enter(a->env);
    served_call_apply_on_loop(s, SERVED_REPLIED);
    calls_of(a)->target->make(s->result_entry, r, made);
    served_call *next = end_order_on_loop(s);
    if (s->object) turn_end_on_loop(&s->held);
    served_call_free_on_loop(s);
    env_leave(a->env);
    return next;
}

// ---- A future as the result ---------------------------------------------------------------------

static void finish_returned(served_call *s) {
    gw_scope *scope = agent_scope_open(s->agent, 0, 0, ENV_NEVER);
    result *r = s->gave_up ? NULL : future_result(s->returned);
    gw_value v = r ? result_give(r, scope) : gw_none();
    if (!r && s->context.cancelled)
        scope_fail(scope, GW_CANCELLED,
                   "cancelled before the future that it returned had resolved");
    else if (!r)
        scope_fail(scope, GW_TIMEOUT,
                   "the future that it returned did not resolve before its deadline");
    gw_error error;
    if (scope->error) explain(s, &error, scope->error);
    s->scope = scope;
    if (s->result_entry) {
        keep_value(s, v, scope->error ? &error : NULL, NULL);
    } else {
        reply_value(s, v, scope->error ? &error : NULL, true);
    }
}

static void finish_returned_task(task *t) {
    finish_returned(list_entry(t, served_call, task));
}

static void finish_soon(served_call *s) {
    if (s->expiry.armed) env_set_timer(s->agent->env, &s->expiry, ENV_NEVER);
    s->task.run = finish_returned_task;
    env_defer(s->agent->env, &s->task);
}

static void returned_done(continuation *c) {
    finish_soon(list_entry(c, served_call, returned_done));
}

// Others may wait for the same future: then it continues for them.
static void give_up_returned(served_call *s) {
    s->gave_up = true;
    continuation_cancel_on_loop(&s->returned_done);
    future_abandon_on_loop(s->returned);
}

// No caller waits for it any more, and it must not block leaving.
static void returned_expired(timer *t) {
    served_call *s = list_entry(t, served_call, expiry);
    give_up_returned(s);
    finish_soon(s);
}

void served_call_stop_awaiting_on_loop(served_call *s) {
    if (!list_has(&s->returned_done.link)) return;  // it has resolved
    give_up_returned(s);
    finish_soon(s);
}

// The body has ended, and with it turn, call queue and scope; the reply has not.
static served_call *await_returned(served_call *s, gw_future *f) {
    agent *a = s->agent;
    s->returned = future_await_retain(f);
    close_scope(s);
    env_enter(a->env);
    served_call *next = end_order_on_loop(s);
    if (s->object) turn_end_on_loop(&s->held);
    s->object = NULL;
    served_call_apply_on_loop(s, SERVED_RETURNED);
    s->returned_done.run = returned_done;
    if (s->context.cancelled) give_up_returned(s);
    bool later = !s->gave_up && future_await_on_loop(f, &s->returned_done);
    if (later && s->deadline_ns != ENV_NEVER) {
        s->expiry.fire = returned_expired;
        env_set_timer(a->env, &s->expiry, s->deadline_ns);
    }
    if (later) leaving_check_on_loop(a);
    env_leave(a->env);
    if (!later) finish_returned(s);
    return next;
}

// ---- Running ------------------------------------------------------------------------------------

static served_call *run(served_call *s, bool late) {
    object *made = NULL;
    gw_value v = gw_none();
    gw_error error;
    open_scope(s);
    if (!s->scope->error) v = run_body(s, &made);
    if (s->object) object_report_error(s->object, s->scope);
    const gw_error *failed = NULL;
    if (s->scope->error) {
        explain(s, &error, s->scope->error);
        failed = &error;
    }
    if (!failed && v.kind == GW_FUTURE && v.as.future->agent == s->agent)
        return await_returned(s, v.as.future);
    if (s->result_entry) return keep_value(s, v, failed, made);
    return reply_value(s, v, failed, late);
}

void served_call_run(served_call *s) {
    served_call *next = run(s, true);
    assert(!next);
    (void)next;
}

served_call *served_call_run_inline(served_call *s, bool late) {
    return run(s, late);
}
