// The messages of passes other than gradients: done, abort, scope closed, sends released. With the
// loop lock held.
#include "distributed/autograd/passes.h"

#include "base/mem.h"
#include "base/mutation.h"

#include <string.h>

// ---- Receiving ----------------------------------------------------------------------------------

static passes_ended read_ended(reader *r) {
    passes_ended e = { .settled = reader_u64(r) };
    e.failed = reader_u64(r);
    return e;
}

static gw_status done_received(agent *a, int from, message *m, gw_error *error) {
    reader r = reader_of(m->head.data, m->head.size);
    uint64_t number = reader_u64(&r);
    if (r.failed) return error_set(error, GW_PROTOCOL, "done: cut off");
    distributed_pass *x = passes_find_on_loop(a, a->rank, number);
    if (!x || !worker_set_has(&x->undone, from)) return GW_OK;
    worker_set_remove(&x->undone, from);
    x->undone_count--;
    if (x->waiting) env_wake(a->env, x->waiting);
    return GW_OK;
}

static gw_status abort_received(agent *a, int from, message *m, gw_error *error) {
    reader r = reader_of(m->head.data, m->head.size);
    gw_error why;
    uint32_t by = reader_u32(&r);
    uint64_t number = reader_u64(&r);
    if (decode_error(&r, &why, error)) return error->status;
    if (by == (uint32_t)a->rank) {
        distributed_pass *x = passes_find_on_loop(a, a->rank, number);
        if (x && distributed_pass_awaits(x, from)) distributed_pass_fail_on_loop(x, &why);
        return GW_OK;
    }
    if (by != (uint32_t)from) return error_set(error, GW_PROTOCOL, "abort: of another's pass");
    passes_peer *in = passes_peer_of_on_loop(a, from);
    bool forgets = has_mutation(MUTATION_ABORT_FORGOTTEN);
    if (in && !forgets && !passes_is_over_on_loop(a, from, number))
        passes_peer_remember_aborted(in, number);
    distributed_pass *x = passes_find_on_loop(a, from, number);
    if (x) x->error = why;
    if (x) distributed_pass_apply_on_loop(x, DISTRIBUTED_PASS_FAILED);
    return GW_OK;
}

static void close_scope(agent *a, int from, uint64_t scope) {
    list_each(l, &graphs_of(a)->passes) {
        distributed_pass *x = list_entry(l, distributed_pass, link);
        if (x->initiator == from && x->scope == scope)
            distributed_pass_apply_on_loop(x, DISTRIBUTED_PASS_CLOSED);
    }
}

static gw_status scope_closed_received(agent *a, int from, message *m, gw_error *error) {
    reader r = reader_of(m->head.data, m->head.size);
    uint64_t scope = reader_u64(&r);
    passes_ended ended = read_ended(&r);
    if (r.failed) return error_set(error, GW_PROTOCOL, "scope closed: cut off");
    passes_note_ended_on_loop(a, from, ended);
    if (from != a->rank) close_scope(a, from, scope);
    return GW_OK;
}

gw_status graphs_received_on_loop(agent *a, int from, message *m, gw_error *error) {
    if (m->kind == KIND_SENDS_RELEASED) return sends_released_on_loop(a, from, m, error);
    gw_status status = GW_OK;
    switch (m->kind) {
    case KIND_GRADIENT: status = passes_gradient_received_on_loop(a, from, m, error); break;
    case KIND_PASS_DONE: status = done_received(a, from, m, error); break;
    case KIND_PASS_ABORT: status = abort_received(a, from, m, error); break;
    default: status = scope_closed_received(a, from, m, error);
    }
    message_release(m);
    return status;
}

// ---- Sending ------------------------------------------------------------------------------------

enum { ENDED_AT = 20 };  // in the head of a gradient

void distributed_pass_send_outbox_on_loop(distributed_pass *x, list_node *mails) {
    agent *a = x->agent;
    passes_ended ended = passes_ended_on_loop(a, x->initiator);
    if (x->relayed.settled > ended.settled) ended = x->relayed;
    gw_error error = { 0 };
    while (!list_is_empty(mails) && !error.status && x->state != DISTRIBUTED_PASS_DROPPED) {
        distributed_pass_mail *mail = list_entry(list_take(mails), distributed_pass_mail, link);
        bool more = !list_is_empty(mails) &&
                    list_entry(mails->next, distributed_pass_mail, link)->peer == mail->peer;
        if (!mail->message->head.failed)
            memcpy(mail->message->head.data + ENDED_AT, &ended, sizeof ended);
        agent_send_on_loop(a, mail->peer, mail->message, !more, &error);
        mem_give(mail, sizeof *mail);
    }
    if (error.status) distributed_pass_fail_part_on_loop(x, &error);
}

void distributed_pass_abort_on_loop(const distributed_pass *x, int to, const gw_error *why) {
    passes_report_on_loop(
        x->agent,
        (pass_report){
            .kind = KIND_PASS_ABORT, .to = to, .initiator = x->initiator, .number = x->number },
        why);
}

void distributed_pass_fail_on_loop(distributed_pass *x, const gw_error *why) {
    if (!x->error.status) x->error = *why;
    if (x->waiting) env_wake(x->agent->env, x->waiting);
}
