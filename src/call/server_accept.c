// Requests as they come, and forwards of their results.
#include "call/server.h"

#include "base/mem.h"
#include "call/reply.h"

#include <string.h>

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

static gw_status no_function(served_call *s, gw_error *error) {
    return error_set(error, GW_NOT_FOUND, "%s has no function %s",
                     agent_member(s->agent, s->agent->rank)->name, s->header.function);
}

static gw_status find_function(served_call *s, gw_error *error) {
    const char *name = s->header.function;
    s->function = registry_find(calls_of(s->agent)->registry, name);
    if (!s->function) s->op = registry_find_operator(name);
    if (!s->function && !s->op) s->function = library_find(s->agent->service_table, name);
    if (!s->function && !s->op) return no_function(s, error);
    if (s->function && s->function->class && !s->result_entry)
        return error_set(error, GW_INVALID, "a class, not a function: gw_remote makes one of it");
    return GW_OK;
}

static int64_t deadline_of(agent *a, uint64_t time_left_ns) {
    int64_t deadline_ns;
    if (!time_left_ns || time_left_ns > INT64_MAX ||
        __builtin_add_overflow(env_now_ns(a->env), (int64_t)time_left_ns, &deadline_ns))
        return ENV_NEVER;
    return deadline_ns;
}

static served_call *open_served_call(agent *a, int from, const request_header *h, uint64_t size) {
    served_call *s = mem_take(sizeof *s);
    if (!s) return NULL;
    memset(s, 0, sizeof *s);
    if (!map_put(&calls_of(a)->served, id_of(from, h->fixed.call), s)) {
        mem_give(s, sizeof *s);
        return NULL;
    }
    s->agent = a;
    s->caller = from;
    s->header = *h;
    s->deadline_ns = deadline_of(a, h->fixed.time_left_ns);
    list_init(&s->forwards);
    call_peer *caller = call_peer_of(a, from);
    list_append(&caller->served, &s->sibling);
    caller->served_count++;
    s->queued_bytes = size;
    caller->queued_bytes += size;
    calls_of(a)->body_count++;
    calls_of(a)->served_count++;
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
    if (a->phase == AGENT_LEFT)
        return error_set(error, GW_WRONG_STATE, "%s has left the job", self);
    // What it waits for itself may need calls that are made for its own.
    if (a->leaving.alone && f->depth == 1)
        return error_set(error, GW_WRONG_STATE, "%s is leaving the job", self);
    if (p->queued_bytes && p->queued_bytes + size > c->limits.queued_bytes)
        return error_set(error, GW_OVERLOADED, "%s: %llu bytes of calls of %s have not started",
                         self, (unsigned long long)p->queued_bytes, caller);
    if (p->served_count < c->limits.calls_per_peer) return GW_OK;
    return error_set(error, GW_OVERLOADED, "%s: %u calls of %s have not been served", self,
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
        return error_set(out_error, GW_PROTOCOL, "request: call %llu is being served already",
                         (unsigned long long)h.fixed.call);
    }
    status = check_capacity(a, from, &h.fixed, message_size(m), &error);
    served_call *s = status ? NULL : open_served_call(a, from, &h, message_size(m));
    if (!status && !s) status = error_set(&error, GW_NO_MEMORY, "no memory for a call");
    if (status) {
        error.outcome = GW_NOT_DELIVERED;
        refuse_unserved_on_loop(a, from, &h.fixed, &error);
        reply_drop_on_loop(a, from, m, h.fixed.attachments_at);
        return GW_OK;
    }
    // References are taken in first, whatever becomes of the call: so the ids of creating requests come in order.
    status = incoming_open_on_loop(a, from, m, h.fixed.attachments_at, &s->incoming, &error);
    if (status) s->header.origin_size = 0;  // the message is gone
    gw_status found = find_references(s, status ? NULL : &error);
    if (!status) status = found;
    if (!status && !s->target) status = find_function(s, &error);
    if (status) {
        served_call_refuse_with_on_loop(s, error, status != GW_NOT_FOUND);
    } else {
        served_call_await_on_loop(s);
    }
    return GW_OK;
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
    if (r.failed) return error_set(error, GW_PROTOCOL, "cancel: cut off");
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
        reply_drop_on_loop(a, from, m, h.fixed.attachments_at);
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
        return error_set(error, GW_PROTOCOL, "forward: fields that mean nothing");
    served_call *s = find_served_call(a, from, call);
    if (s) want(s, (int)consumer, promise);
    return GW_OK;
}
