// What workers tell each other about passes. With the role.
#include "dist/passes.h"

#include "base/mem.h"

#include <string.h>

// ---- Messages that come -------------------------------------------------------------------------

static passes_ended read_ended(reader *r) {
    passes_ended e = { .settled = reader_u64(r) };
    e.failed = reader_u64(r);
    return e;
}

typedef struct gradient_head {
    uint32_t initiator;
    uint64_t number, scope, send;
    passes_ended ended;
    uint8_t flags;
    marks marks;
    size_t values_at;
} gradient_head;

static gw_status read_head(agent *a, const message *m, gradient_head *h, gw_error *error) {
    reader r = reader_of(m->head.data, m->head.size);
    h->initiator = reader_u32(&r);
    h->number = reader_u64(&r);
    h->scope = reader_u64(&r);
    h->ended = read_ended(&r);
    h->flags = reader_u8(&r);
    gw_status status = GW_OK;
    if (h->flags & ACROSS_MARKS) status = marks_read(a, &r, LIMIT_PASS_MARKS, &h->marks, error);
    h->send = reader_u64(&r);
    h->values_at = (size_t)(r.at - m->head.data);
    if (status) return status;
    if (r.failed || h->initiator >= (uint32_t)a->member_count || !h->number || h->flags > 15)
        return error_set(error, GW_PROTOCOL, "gradient: fields that mean nothing");
    return GW_OK;
}

// NULL if it is over, or there is no memory for it, or there are too many.
static across *across_of(agent *a, const gradient_head *h) {
    int from = (int)h->initiator;
    across *x = passes_find_on_loop(a, from, h->number);
    if (x || from == a->rank || passes_is_over_on_loop(a, from, h->number) ||
        agent_member(a, from)->lost)
        return x;
    initiator *in = initiator_of_on_loop(a, from);
    bool may = in && in->open_count < LIMIT_PASSES_PER_INITIATOR;
    x = may ? across_open(a, from, h->number, h->scope) : NULL;
    if (!x) return NULL;
    in->open_count++;
    x->retains = h->flags & ACROSS_RETAINS;
    x->fast = h->flags & ACROSS_FAST;
    x->leafless = h->flags & ACROSS_LEAFLESS;
    list_append(&a->graphs->passes, &x->link);
    return x;
}

static void refuse(agent *a, const gradient_head *h) {
    across x = { .agent = a, .initiator = (int)h->initiator, .number = h->number };
    const initiator *in = map_find(&a->graphs->others, initiator_key(x.initiator));
    gw_error error;
    if (in && in->open_count == LIMIT_PASSES_PER_INITIATOR)
        error_set(&error, GW_LIMIT, "%s: gradients of %d backward passes are kept here", a->name,
                  LIMIT_PASSES_PER_INITIATOR);
    else
        error_set(&error, GW_NO_MEMORY, "%s: no memory for a backward pass", a->name);
    across_abort_on_loop(&x, x.initiator, &error);
}

static bool keep(across *x, int from, message *m, const gradient_head *h) {
    across_mail *mail = mem_take(sizeof *mail);
    if (!mail) return false;
    *mail = (across_mail){
        .message = message_retain(m), .peer = from, .values_at = h->values_at, .send = h->send
    };
    list_append(&x->inbox, &mail->link);
    return true;
}

static gw_status gradient_received(agent *a, int from, message *m, gw_error *error) {
    gradient_head h = { 0 };
    gw_status status = read_head(a, m, &h, error);
    if (status) {
        marks_fini(&h.marks);
        return status;
    }
    passes_note_ended_on_loop(a, (int)h.initiator, h.ended, from);
    across *x = across_of(a, &h);
    if (x && x->state == ACROSS_MARKING && h.flags & ACROSS_MARKS) {
        x->marks = h.marks;
        h.marks = (marks){ 0 };
        x->partial = !h.send;
        x->state = ACROSS_RUNNING;
    }
    marks_fini(&h.marks);
    bool over = !x && (passes_is_over_on_loop(a, (int)h.initiator, h.number) ||
                       (int)h.initiator == a->rank || agent_member(a, (int)h.initiator)->lost);
    if (!over && (!x || (h.send && !keep(x, from, m, &h)))) refuse(a, &h);
    if (x) across_schedule_on_loop(x, message_size(m));
    return GW_OK;
}

static gw_status done_received(agent *a, int from, message *m, gw_error *error) {
    reader r = reader_of(m->head.data, m->head.size);
    uint64_t number = reader_u64(&r);
    if (r.failed) return error_set(error, GW_PROTOCOL, "done: cut off");
    across *x = passes_find_on_loop(a, a->rank, number);
    if (!x || !worker_set_has(&x->undone, from)) return GW_OK;
    x->undone.words[from / 64] &= ~((uint64_t)1 << (from % 64));
    if (--x->undone_count == 0 && x->waiting) env_wake(a->env, x->waiting);
    return GW_OK;
}

static gw_status abort_received(agent *a, int from, message *m, gw_error *error) {
    reader r = reader_of(m->head.data, m->head.size);
    gw_error why;
    uint32_t by = reader_u32(&r);
    uint64_t number = reader_u64(&r);
    if (decode_error(&r, &why, error)) return error->status;
    if (by == (uint32_t)a->rank) {
        across *x = passes_find_on_loop(a, a->rank, number);
        if (x) across_fail_on_loop(x, &why);
        return GW_OK;
    }
    if (by != (uint32_t)from) return error_set(error, GW_PROTOCOL, "abort: of another's pass");
    initiator *in = initiator_of_on_loop(a, from);
    if (in && !passes_is_over_on_loop(a, from, number)) initiator_remember_aborted(in, number);
    across *x = passes_find_on_loop(a, from, number);
    if (x) across_drop_on_loop(x);
    return GW_OK;
}

static void drop_scope(agent *a, int from, uint64_t scope) {
    list_each(l, &a->graphs->passes) {
        across *x = list_entry(l, across, link);
        if (x->initiator != from || x->scope != scope || x->state < ACROSS_COMPLETE) continue;
        // It has not been aborted, so it has succeeded, also if an older one of another scope has not ended.
        across_settle_on_loop(x);
        across_drop_on_loop(x);
    }
}

static gw_status scope_closed_received(agent *a, int from, message *m, gw_error *error) {
    reader r = reader_of(m->head.data, m->head.size);
    uint64_t scope = reader_u64(&r);
    passes_ended ended = read_ended(&r);
    if (r.failed) return error_set(error, GW_PROTOCOL, "scope closed: cut off");
    passes_note_ended_on_loop(a, from, ended, from);
    drop_scope(a, from, scope);
    return GW_OK;
}

gw_status graphs_received_on_loop(agent *a, int from, message *m, gw_error *error) {
    if (m->kind == KIND_SENDS_RELEASED) return sends_released_on_loop(a, from, m, error);
    gw_status status = GW_OK;
    switch (m->kind) {
    case KIND_GRADIENT: status = gradient_received(a, from, m, error); break;
    case KIND_PASS_DONE: status = done_received(a, from, m, error); break;
    case KIND_PASS_ABORT: status = abort_received(a, from, m, error); break;
    default: status = scope_closed_received(a, from, m, error);
    }
    message_release(m);
    return status;
}

// ---- Messages that go ---------------------------------------------------------------------------

enum { ENDED_AT = 20 };  // in the head of a gradient

void across_send_outbox_on_loop(across *x, list_node *mails) {
    agent *a = x->agent;
    passes_ended ended = passes_ended_on_loop(a, x->initiator);
    for (list_node *l; (l = list_take(mails));) {
        across_mail *mail = list_entry(l, across_mail, link);
        bool more =
            !list_is_empty(mails) && list_entry(mails->next, across_mail, link)->peer == mail->peer;
        if (!mail->message->head.failed)
            memcpy(mail->message->head.data + ENDED_AT, &ended, sizeof ended);
        gw_error error;
        if (agent_send_on_loop(a, mail->peer, mail->message, !more, &error) &&
            x->initiator == a->rank)
            across_fail_on_loop(x, &error);
        mem_give(mail, sizeof *mail);
    }
}

void across_abort_on_loop(const across *x, int to, const gw_error *why) {
    agent *a = x->agent;
    message *m = agent_message_on_loop(a, KIND_PASS_ABORT);
    if (!m) return;
    bytes_put_u32(&m->head, (uint32_t)x->initiator);
    bytes_put_u64(&m->head, x->number);
    encode_error(&m->head, why);
    if (m->head.failed)
        message_release(m);
    else
        agent_send_on_loop(a, to, m, true, NULL);
}

void across_fail_on_loop(across *x, const gw_error *why) {
    if (!x->error.status) x->error = *why;
    if (x->waiting) env_wake(x->agent->env, x->waiting);
}

void across_scope_closed_on_loop(agent *a, int to, uint64_t scope) {
    message *m = agent_message_on_loop(a, KIND_SCOPE_CLOSED);
    if (!m) return;
    bytes_put_u64(&m->head, scope);
    passes_put_ended_on_loop(a, a->rank, &m->head);
    if (m->head.failed)
        message_release(m);
    else
        agent_send_on_loop(a, to, m, true, NULL);
}
