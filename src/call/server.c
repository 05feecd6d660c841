// Received requests, until all their arguments have arrived.
#include "call/server.h"

#include "base/log.h"
#include "base/mem.h"
#include "call/error_trace.h"
#include "call/protocol.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

// ---- Refusing -----------------------------------------------------------------------------------

enum { ONE_WAY_LINES_MAX = 10 };  // in each second
#define ONE_WAY_LINES_NS INT64_C(1000000000)

// The caller does not get the error of a one-way call. At most so many lines a second: a caller of
// thousands does not fill the log.
void served_call_log_on_loop(agent *a, const gw_error *error) {
    int64_t now_ns = env_now_ns(a->env);
    calls *c = calls_of(a);
    if (!c->one_way_lines || now_ns - c->one_way_lines_ns >= ONE_WAY_LINES_NS) {
        c->one_way_lines = 0;
        c->one_way_lines_ns = now_ns;
    }
    if (c->one_way_lines >= ONE_WAY_LINES_MAX) return;
    bool is_last = ++c->one_way_lines == ONE_WAY_LINES_MAX;
    log_error("one-way call: %s%s", error->text,
              is_last ? " (further errors in this second are not logged)" : "");
}

// Without a served call: only the caller is known.
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
    // Promises of this result are kept by the caller; the reply reports that none was honoured here.
    call_queue_cancel_on_loop(s);
    served_call_free_on_loop(s);
}

// |trace| unless the text names this worker by itself.
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
    if (s->ran) trace_sums_add(&c->bodies, s->header.function, "", s->has_failed, s->took_ns);
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
    if (s->returned) future_await_release_on_loop(s->returned);
    work_release_on_loop(s->context.work);
    c->body_count--;
    mem_give(s, sizeof *s);
    leaving_check_on_loop(a);
}

// ---- The function -----------------------------------------------------------------------------

static gw_status find_method(served_call *s, gw_error *error) {
    const target_class *target = calls_of(s->agent)->target;
    s->object = target->object(s->target, error);
    if (!s->object) return error->status;
    s->class = s->object->class;
    if (s->result_entry) target->set_turn(s->result_entry, s->object->turn);
    s->function = class_find_method(s->class, s->header.function);
    if (s->function) return GW_OK;
    nearest n = nearest_to(s->header.function);
    class_offer_methods(s->class, &n);
    return error_set(error, GW_NOT_FOUND, "%s has no method %s.%s%s",
                     agent_member(s->agent, s->agent->rank)->name, s->class->name,
                     s->header.function, nearest_words(&n));
}

// ---- Arguments ----------------------------------------------------------------------------------

static void ready(served_call *s) {
    const call_peer *caller = call_peer_of(s->agent, s->caller);
    if (s->expiry.armed) env_set_timer(s->agent->env, &s->expiry, ENV_NEVER);
    bool first = list_is_empty(&caller->deferred) || calls_of(s->agent)->is_held;
    served_call_apply_on_loop(s, first && served_call_may_start_on_loop(s) ? SERVED_READY
                                                                           : SERVED_BLOCKED);
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
    error_set(&error, GW_TIMEOUT, "its arguments did not arrive before its deadline");
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

// ---- Leaving ------------------------------------------------------------------------------------

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
    abandon_all(a, rank, CANCELLED_CALLER_LOST, agent_member(a, rank)->why);
}

void served_calls_close_on_loop(agent *a, const gw_error *why) {
    for (int rank = 0; rank < a->member_count; rank++)
        abandon_all(a, rank, CANCELLED_BY_LEAVING, why);
}

// ---- Requests -----------------------------------------------------------------------------------

static void refuse_unserved_on_loop(agent *a, int from, const request_fixed *f,
                                    const gw_error *error) {
    const target_class *target = calls_of(a)->target;
    entry *e;
    if (!f->call) return;
    if (f->one_way) {
        served_call_log_on_loop(a, error);
    } else if (!f->result) {
        served_call_refuse_unread_on_loop(a, from, f->call, error);
    } else if (!target->accept(a, from, f->result, f->result_fork, &e, NULL)) {
        target->make(e, result_of_error(error), NULL);
        target->release(e);
    }
}

// A linker drops registrations of a static library, as nothing refers to it.
static gw_status no_function(served_call *s, gw_error *error) {
    bool is_ours = strncmp(s->header.function, "gw.", 3) == 0, may_be_class = s->result_entry;
    nearest n = nearest_to(s->header.function);
    registry_offer(calls_of(s->agent)->registry, s->agent->service_table, may_be_class, &n);
    const char *near = nearest_words(&n);
    if (!*near && !is_ours) near = "; is its object linked? (gradwire/function.h)";
    return error_set(error, GW_NOT_FOUND, "%s has no %s %s%s",
                     agent_member(s->agent, s->agent->rank)->name,
                     may_be_class ? "function or class" : "function", s->header.function, near);
}

static gw_status find_function(served_call *s, gw_error *error) {
    const char *name = s->header.function;
    s->function = registry_find(calls_of(s->agent)->registry, name);
    if (!s->function) s->op = registry_find_operator(name);
    if (!s->function && !s->op) s->function = library_find(s->agent->service_table, name);
    if (!s->function && !s->op) return no_function(s, error);
    const char *caller = agent_member(s->agent, s->caller)->name;
    if (s->function && !function_allows(s->function, caller))
        return error_set(error, GW_UNSUPPORTED, "only workers named \"%s\" may call it, not %s",
                         s->function->callers, caller);
    if (s->function && s->function->class && !s->result_entry)
        return error_set(error, GW_INVALID,
                         "it is a class, not a function: gw_remote opens an object of it");
    return GW_OK;
}

static served_call *open_served_call(agent *a, int from, const request_header *h, uint64_t size) {
    served_call *s = mem_take_zeros(sizeof *s);
    if (!s) return NULL;
    if (!map_put(&calls_of(a)->served, id_of(from, h->fixed.call), s)) {
        mem_give(s, sizeof *s);
        return NULL;
    }
    s->agent = a;
    s->caller = from;
    s->header = *h;
    s->deadline_ns = deadline_after_ns(env_now_ns(a->env), h->fixed.time_left_ns);
    list_init(&s->forwards);
    call_peer *caller = call_peer_of(a, from);
    list_append(&caller->served, &s->sibling);
    caller->served_count++;
    s->queued_bytes = size;
    caller->queued_bytes += size;
    calls_of(a)->body_count++;
    calls_of(a)->served_count++;
    agent_member(a, from)->traffic.calls_served++;
    a->leaving.has_served |= a->phase == AGENT_ASKED;
    return s;
}

static gw_status find_references(served_call *s, gw_error *error) {
    const request_fixed *f = &s->header.fixed;
    const target_class *target = calls_of(s->agent)->target;
    gw_status status = GW_OK;
    if (f->result)
        status =
            target->accept(s->agent, s->caller, f->result, f->result_fork, &s->result_entry, error);
    if (s->result_entry)
        target->set_origin(s->result_entry, (const char *)s->header.origin, s->header.origin_size);
    if (!status && f->target)
        status = target->find(s->agent, s->caller, f->target, f->target_fork, &s->target, error);
    return status;
}

static gw_status check_capacity(agent *a, int from, const request_fixed *f, uint64_t size,
                                gw_error *error) {
    const char *self = a->name, *caller = agent_member(a, from)->name;
    const call_peer *p = call_peer_of(a, from);
    const calls *c = calls_of(a);
    // The calls that it waits for may need calls that are made for its own.
    if (a->phase == AGENT_LEFT || (a->leaving.alone && f->depth == 1)) {
        error_set(error, GW_DISCONNECTED, "%s %s the job", self,
                  a->phase == AGENT_LEFT ? "has left" : "is leaving");
        error_set_lost(error, GW_LOSS_LEFT, a->rank, a->incarnation, self);
        return error->status;
    }
    if (p->queued_bytes && p->queued_bytes + size > c->limits.queued_bytes)
        return error_set(error, GW_OVERLOADED, "%s: %llu bytes of calls of %s have not started yet",
                         self, (unsigned long long)p->queued_bytes, caller);
    if (p->served_count < c->limits.calls_per_peer) return GW_OK;
    return error_set(error, GW_OVERLOADED, "%s: %u calls of %s have not been served yet", self,
                     p->served_count, caller);
}

gw_status served_call_requested_on_loop(agent *a, int from, message *m, gw_error *out_error) {
    request_header h;
    gw_error error;
    gw_status status = request_read(m, &h, out_error);
    if (status) {
        message_release(m);
        return status;
    }
    if (map_find(&calls_of(a)->served, id_of(from, h.fixed.call))) {
        message_release(m);
        return error_set(out_error, GW_PROTOCOL,
                         "malformed request: call %llu is being served already",
                         (unsigned long long)h.fixed.call);
    }
    uint64_t size = message_size(m) + m->fetched_bytes;
    status = check_capacity(a, from, &h.fixed, size, &error);
    served_call *s = status ? NULL : open_served_call(a, from, &h, size);
    if (!status && !s) status = error_set(&error, GW_NO_MEMORY, "no memory for a call");
    if (status) {
        error.outcome = GW_NOT_DELIVERED;
        refuse_unserved_on_loop(a, from, &h.fixed, &error);
        return reply_drop_on_loop(a, from, m, h.fixed.attachments_at, out_error);
    }
    // References are taken in first, whatever the end of the call is: so the ids of creating requests
    // arrive in order.
    gw_status opened =
        incoming_open_on_loop(a, from, m, h.fixed.attachments_at, &s->incoming, &error);
    status = opened;
    if (opened == GW_PROTOCOL) *out_error = error;  // CALL-18
    if (status) s->header.origin_size = 0;          // the message is gone
    if (!status) incoming_await_segments_on_loop(s->incoming, call_queue_whole_on_loop);
    gw_status found = find_references(s, status ? NULL : &error);
    if (!status) status = found;
    if (!status && !s->target) status = find_function(s, &error);
    if (status) {
        served_call_refuse_with_on_loop(s, error, status != GW_NOT_FOUND);
    } else {
        served_call_await_on_loop(s);
    }
    return opened == GW_PROTOCOL ? opened : GW_OK;
}

static void want(served_call *s, int consumer, uint64_t promise) {
    // The caller learns how many were honoured, so after one that cannot be kept in mind none is.
    call_peer *caller = call_peer_of(s->agent, s->caller);
    bool may = !s->forwards_end && caller->wanted_count < LIMIT_WANTED_PER_PEER;
    wanted *w = may ? mem_calloc(sizeof *w) : NULL;
    s->forwards_end = !w;
    if (!w) return;
    caller->wanted_count++;
    w->consumer = consumer;
    w->promise = promise;
    list_append(&s->forwards, &w->link);
}

static served_call *find_served_call(agent *a, int from, uint64_t call) {
    return call >> ID_COUNT_BITS ? NULL : map_find(&calls_of(a)->served, id_of(from, call));
}

// It may have ended meanwhile.
gw_status served_call_cancelled_on_loop(agent *a, int from, message *m, gw_error *error) {
    reader r = reader_of(m->head.data, m->head.size);
    uint64_t call = reader_u64(&r);
    message_release(m);
    if (r.failed) return error_set(error, GW_PROTOCOL, "malformed cancel message: truncated");
    served_call *s = find_served_call(a, from, call);
    gw_error why;
    if (!s || s->result_entry) return GW_OK;
    error_set(&why, GW_CANCELLED, "cancelled by %s", agent_member(a, from)->name);
    served_call_cancel_on_loop(s, CANCELLED_BY_CALLER, &why);
    return GW_OK;
}

// "A request whose caller does not want it any more: what it refers to is given back."
gw_status served_call_withdrawn_on_loop(agent *a, int from, message *m, gw_error *error) {
    request_header h;
    gw_status status = request_read(m, &h, error);
    if (status) {
        message_release(m);
    } else {
        status = reply_drop_on_loop(a, from, m, h.fixed.attachments_at, error);
    }
    return status;
}

gw_status served_call_forward_on_loop(agent *a, int from, message *m, gw_error *error) {
    reader r = reader_of(m->head.data, m->head.size);
    uint64_t call = reader_u64(&r);
    uint32_t consumer = reader_u32(&r);
    uint64_t promise = reader_u64(&r);
    message_release(m);
    if (r.failed || consumer >= (uint32_t)a->member_count || id_rank(promise) != (uint64_t)from)
        return error_set(error, GW_PROTOCOL, "malformed forward message: invalid fields");
    served_call *s = find_served_call(a, from, call);
    if (s) want(s, (int)consumer, promise);
    return GW_OK;
}
