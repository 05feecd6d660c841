// From a request that came to its turn to run.
#include "call/server.h"

#include "base/failpoint.h"
#include "base/log.h"
#include "base/mem.h"
#include "call/error_trace.h"
#include "call/flow_control.h"
#include "call/reply.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

// ---- Names ----

void served_call_describe(const served_call *s, char *out, size_t size) {
    snprintf(out, size, "%s for %s", s->header.function[0] ? s->header.function : "a value",
             agent_member(s->agent, s->caller)->name);
}

// ---- Refusing ----

#define LOG_EACH_NS INT64_C(1000000000)

// Of a one-way call nobody else will hear. One line a second: whoever sends many is not to fill the log.
void served_call_log_on_loop(agent *a, const gw_error *error) {
    int64_t now_ns = env_now_ns(a->env);
    calls *c = calls_of(a);
    if (c->notified_log_ns && now_ns - c->notified_log_ns < LOG_EACH_NS) return;
    c->notified_log_ns = now_ns;
    log_line("one-way call: %s", error->text);
}

// Without the serving: nothing is known but who called.
void served_call_refuse_unread_on_loop(agent *a, int to, uint64_t call, const gw_error *error) {
    outgoing sh;
    bool filled = !reply_fill(&sh, a, KIND_REPLY, call, SCOPE_NOT_TRACKED, "", gw_none(), error);
    reply_send_on_loop(&sh, a, to, KIND_REPLY, call, filled, false);
    outgoing_fini(&sh);
}

void served_call_refuse_on_loop(served_call *s, const gw_error *error) {
    agent *a = s->agent;
    served_call_apply_on_loop(s, SERVED_REFUSED);
    if (s->result_entry) {
        calls_of(a)->target->make(s->result_entry, result_of_error(error), NULL);
    } else if (s->header.fixed.one_way && !s->abandoned) {
        served_call_log_on_loop(a, error);
    } else if (!s->abandoned) {
        served_call_refuse_unread_on_loop(a, s->caller, s->header.fixed.call, error);
    }
    // Promises of this result are kept by the caller, who learns that none was honoured here.
    call_queue_cancel_on_loop(s);
    served_call_free_on_loop(s);
}

// |trace| unless the sentence names this worker by itself.
void served_call_refuse_with_on_loop(served_call *s, gw_error error, bool trail) {
    const char *self = agent_member(s->agent, s->agent->rank)->name;
    error.outcome = GW_NOT_DELIVERED;
    if (trail) {
        error_add_trace(&error, self, s->header.function);
    } else {
        snprintf(error.worker, sizeof error.worker, "%s", self);
        snprintf(error.function, sizeof error.function, "%s", s->header.function);
    }
    served_call_refuse_on_loop(s, &error);
}

void served_call_free_on_loop(served_call *s) {
    agent *a = s->agent;
    assert(s->state == SERVED_ENDED);
    if (s->expiry.armed) env_set_timer(a->env, &s->expiry, ENV_NEVER);
    continuation_cancel_on_loop(&s->target_made);
    calls *c = calls_of(a);
    call_peer *caller = call_peer_of(a, s->caller);
    caller->served_count--;
    caller->queued_bytes -= s->queued_bytes;
    map_take(&c->served, id_of(s->caller, s->header.fixed.call));
    list_remove(&s->sibling);
    for (list_node *l; (l = list_take(&s->forwards));) {
        mem_free(list_entry(l, wanted, link));
        caller->wanted_count--;
    }
    if (s->incoming) incoming_close_on_loop(a, s->incoming);
    if (s->target) c->target->release(s->target);
    if (s->result_entry) c->target->release(s->result_entry);
    if (s->returned) future_release_on_loop(s->returned);
    work_release_on_loop(s->context.work);
    c->body_count--;
    mem_give(s, sizeof *s);
    leaving_check_on_loop(a);
}

// ---- What is called ----

static gw_status find_method(served_call *s, gw_error *error) {
    const target_class *target = calls_of(s->agent)->target;
    s->object = target->object(s->target, error);
    if (!s->object) return error->status;
    s->class = s->object->class;
    if (s->result_entry) target->set_turn(s->result_entry, s->object->turn);
    s->function = class_find_method(s->class, s->header.function);
    if (s->function) return GW_OK;
    return error_set(error, GW_NOT_FOUND, "%s has no method %s.%s",
                     agent_member(s->agent, s->agent->rank)->name, s->class->name,
                     s->header.function);
}

static bool is_inline(const served_call *s) {
    if (s->op) return message_size(s->incoming->message) <= LIMIT_OPERATOR_BYTES_INLINE;
    const function *f = s->function;
    if (f->is_inline) return f->is_inline(s->object->self, message_size(s->incoming->message));
    return f->where == GW_INLINE;
}

// ---- From queue to queue ----

const void *served_call_queue(served_call *s) {
    if (s->object) return s->object;
    return is_inline(s) ? (const void *)s->queue : (const void *)&s->agent->pool;
}

static void run_task(task *t) {
    served_call_run(list_entry(t, served_call, task));
}

static void run_job(pool_job *j) {
    served_call_run(list_entry(j, served_call, job));
}

void served_call_start_on_loop(served_call *s) {
    call_peer_of(s->agent, s->caller)->queued_bytes -= s->queued_bytes;
    s->queued_bytes = 0;
}

static bool job_taken(pool_job *j);

// They keep their order, which they would lose one by one.
static void hold_jobs(agent *a, int caller) {
    list_each(l, &a->pool.queue) {
        pool_job *j = list_entry(l, pool_job, link);
        if (j->taken != job_taken) continue;
        served_call *s = list_entry(j, served_call, job);
        if (s->caller != caller || s->object) continue;
        pool_withdraw_on_loop(&a->pool, j);
        served_call_apply_on_loop(s, SERVED_BLOCKED);
    }
}

static bool job_taken(pool_job *j) {
    served_call *s = list_entry(j, served_call, job);
    if (!s->object && !flow_has_capacity_on_loop(s->agent, s->caller)) {
        served_call_apply_on_loop(s, SERVED_BLOCKED);
        hold_jobs(s->agent, s->caller);
        return false;
    }
    served_call_apply_on_loop(s, SERVED_STARTED);
    call_queue_started_on_loop(s);
    return true;
}

void served_call_schedule_on_loop(served_call *s) {
    bool inline_ = is_inline(s);
    s->context = (context){ .agent = s->agent,
                            .serves = true,
                            .caller = s->caller,
                            .caller_scope = s->header.fixed.scope,
                            .may_wait = !inline_,
                            .has_place = !inline_,
                            .depth = s->header.fixed.depth,
                            .deadline_ns = s->deadline_ns,
                            .function = s->header.function };
    list_init(&s->context.turns);
    if (s->object) turn_begin_on_loop(&s->held, s->object->turn, &s->context, true);
    if (!inline_) {
        s->job = (pool_job){ .depth = s->header.fixed.depth, .taken = job_taken, .run = run_job };
        pool_submit_on_loop(&s->agent->pool, &s->job);
        failpoint("queued");
    } else if (s->object) {
        served_call_apply_on_loop(s, SERVED_STARTED);
        s->task.run = run_task;
        pool_run_soon_on_loop(&s->agent->pool, &s->task);
    } else {
        call_queue_run_on_loop(s);
    }
}

static bool may_start(const served_call *s) {
    return flow_has_capacity_on_loop(s->agent, s->caller);
}

static void turn_granted(turn_request *r) {
    served_call *s = list_entry(r, served_call, turn);
    served_call_apply_on_loop(s, may_start(s) ? SERVED_GRANTED : SERVED_BLOCKED);
}

void served_call_take_turn_on_loop(served_call *s) {
    s->turn.granted = turn_granted;
    if (turn_take_on_loop(s->object->turn, &s->turn)) served_call_apply_on_loop(s, SERVED_GRANTED);
}

void served_call_admit_on_loop(served_call *s) {
    served_call_event event = s->object ? SERVED_TO_OBJECT : SERVED_ADMITTED;
    served_call_apply_on_loop(s, may_start(s) ? event : SERVED_BLOCKED);
}

// ---- Arguments ----

static void ready(served_call *s) {
    const call_peer *caller = call_peer_of(s->agent, s->caller);
    if (s->expiry.armed) env_set_timer(s->agent->env, &s->expiry, ENV_NEVER);
    bool first = list_is_empty(&caller->deferred);
    served_call_apply_on_loop(s, first && may_start(s) ? SERVED_READY : SERVED_BLOCKED);
}

void served_call_enter_queue_on_loop(served_call *s) {
    gw_error error;
    const gw_error *failed = incoming_error(s->incoming);
    gw_status status;
    if (failed) {
        served_call_refuse_with_on_loop(s, *failed, true);
        return;
    }
    status = s->target ? find_method(s, &error) : GW_OK;
    if (!status) status = call_queue_enter_on_loop(s->agent, s, &error);
    if (status) served_call_refuse_with_on_loop(s, error, status != GW_NOT_FOUND);
}

// The target first, so that calls through one reference keep their order.
static void arguments_ready(incoming *p) {
    served_call *s = p->user;
    if (!s->target || !list_has(&s->target_made.link)) ready(s);
}

static void target_made(continuation *c) {
    served_call *s = list_entry(c, served_call, target_made);
    if (!s->incoming->missing) ready(s);
}

static void expired(timer *t) {
    served_call *s = list_entry(t, served_call, expiry);
    gw_error error;
    error_set(&error, GW_TIMEOUT, "its arguments did not come within its deadline");
    served_call_refuse_with_on_loop(s, error, true);
}

void served_call_await_on_loop(served_call *s) {
    s->target_made.run = target_made;
    bool waits = incoming_await_on_loop(s->incoming, arguments_ready, s);
    if (s->target && calls_of(s->agent)->target->await(s->target, &s->target_made)) waits = true;
    if (!waits) {
        ready(s);
    } else if (s->deadline_ns != ENV_NEVER) {
        s->expiry.fire = expired;
        env_set_timer(s->agent->env, &s->expiry, s->deadline_ns);
    }
}

// ---- Leaving ----

// One that is at work ends by itself.
static bool is_at_work(served_call *s) {
    if (s->state != SERVED_SCHEDULED) return s->state > SERVED_SCHEDULED;
    return s->job.run && !pool_withdraw_on_loop(&s->agent->pool, &s->job);
}

void served_call_cancel_on_loop(served_call *s, cancel_reason reason, const gw_error *why) {
    if (!is_at_work(s)) {
        served_call_refuse_with_on_loop(s, *why, true);
        return;
    }
    context_cancel_on_loop(&s->context, reason);
    if (s->state == SERVED_RESULT) served_call_stop_awaiting_on_loop(s);
}

// Dropping one may start or drop others, so each is looked at where it stands by then.
static void abandon_all(agent *a, int rank, cancel_reason reason, const gw_error *why) {
    call_peer *p = call_peer_of(a, rank);
    list_node all;
    list_init(&all);
    list_splice(&all, &p->served);
    for (list_node *l; (l = list_take(&all));) {
        served_call *s = list_entry(l, served_call, sibling);
        list_append(&p->served, l);
        s->abandoned = true;
        served_call_cancel_on_loop(s, reason, why);
    }
}

void served_calls_lost_on_loop(agent *a, int rank) {
    abandon_all(a, rank, CANCELLED_CALLER_LOST, &agent_member(a, rank)->why);
}

void served_calls_close_on_loop(agent *a, const gw_error *why) {
    for (int rank = 0; rank < a->member_count; rank++)
        abandon_all(a, rank, CANCELLED_BY_LEAVING, why);
}
