// Receiving gradient messages: checks their contents and bounds the memory that they take here. With the loop lock
// held.
#include "distributed/autograd/passes.h"

#include "base/mem.h"
#include "agent/dispatch/deferred.h"

#include <string.h>

// ---- Reading ------------------------------------------------------------------------------------

typedef struct gradient_head {
    int from;
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
    h->ended.settled = reader_u64(&r);
    h->ended.failed = reader_u64(&r);
    h->flags = reader_u8(&r);
    gw_status status = GW_OK;
    if (h->flags & DISTRIBUTED_PASS_MARKS)
        status = marks_read(a, &r, LIMIT_PASS_MARKS, &h->marks, error);
    h->send = reader_u64(&r);
    h->values_at = (size_t)(r.at - m->head.data);
    if (status) return status;
    if (r.failed || h->initiator >= (uint32_t)a->member_count || !h->number ||
        h->flags > DISTRIBUTED_PASS_FLAGS)
        return error_set(error, GW_PROTOCOL, "malformed gradient message: invalid fields");
    if (!h->send && (h->from != (int)h->initiator || !(h->flags & DISTRIBUTED_PASS_MARKS)))
        return error_set(error, GW_PROTOCOL,
                         "malformed gradient: its marks are not from the initiator");
    return GW_OK;
}

bool gradient_names_unknown(const agent *a, const message *m) {
    reader r = reader_of(m->head.data, m->head.size);
    uint32_t initiator = reader_u32(&r);
    for (int i = 0; i < 4; i++) reader_u64(&r);  // number, scope, settled, failed
    uint8_t flags = reader_u8(&r);
    if (r.failed) return false;
    return deferred_is_unknown(a, initiator) ||
           (flags & DISTRIBUTED_PASS_MARKS && marks_name_unknown(a, &r));
}

// ---- The pass -----------------------------------------------------------------------------------

// The pass of the message, opened if it is new. NULL if the pass is over, or with |error| set at a
// limit or without memory.
static distributed_pass *distributed_pass_of(agent *a, const gradient_head *h, gw_error *error) {
    int initiator = (int)h->initiator;
    distributed_pass *x = passes_find_on_loop(a, initiator, h->number);
    if (x || initiator == a->rank || passes_is_over_on_loop(a, initiator, h->number) ||
        agent_member(a, initiator)->lost)
        return x;
    passes_peer *by = passes_peer_of_on_loop(a, h->from);
    if (by && by->open_count >= LIMIT_PASSES_PER_PEER) {
        error_set(
            error, GW_LIMIT,
            "%s: no more than %d backward passes reported by %s can be under way on this worker",
            a->name, LIMIT_PASSES_PER_PEER, agent_member(a, h->from)->name);
        return NULL;
    }
    x = by ? distributed_pass_open(a, initiator, h->number, h->scope) : NULL;
    if (!x) {
        error_set(error, GW_NO_MEMORY, "%s: no memory for a backward pass", a->name);
        return NULL;
    }
    by->open_count++;
    x->by = h->from;
    x->retains = h->flags & DISTRIBUTED_PASS_RETAINS;
    x->fast = h->flags & DISTRIBUTED_PASS_FAST;
    x->leafless = h->flags & DISTRIBUTED_PASS_LEAFLESS;
    x->not_synchronised = h->flags & DISTRIBUTED_PASS_NOT_SYNCHRONISED;
    list_append(&graphs_of(a)->passes, &x->link);
    return x;
}

bool distributed_pass_awaits(const distributed_pass *x, int rank) {
    for (uint32_t i = 0; i < x->marks.count; i++)
        if (x->marks.items[i].rank == (uint32_t)rank) return true;
    return false;
}

static bool same_marks(const marks *a, const marks *b) {
    return a->count == b->count &&
           (!a->count || !memcmp(a->items, b->items, a->count * sizeof *a->items));
}

// PASS-8: all messages of a pass have the same scope, flags and marks. A worker that had received other
// marks could wait for ever.
static bool agrees(const distributed_pass *x, const gradient_head *h) {
    if (h->scope != x->scope || (h->flags & ~DISTRIBUTED_PASS_MARKS) != distributed_pass_flags(x))
        return false;
    return x->state == DISTRIBUTED_PASS_MARKING || !(h->flags & DISTRIBUTED_PASS_MARKS) ||
           (x->partial == !h->send && same_marks(&x->marks, &h->marks));
}

// ---- Queueing -----------------------------------------------------------------------------------

// Counts a gradient that arrives before the marks of its pass: it is not decided yet whether it is awaited. The first
// of a peer may have any size, so that each gradient can be sent.
static gw_status count_unexpected(const distributed_pass *x, int from, uint64_t size,
                                  gw_error *error) {
    agent *a = x->agent;
    passes_peer *p = passes_peer_of_on_loop(a, from);
    if (!p) return error_set(error, GW_NO_MEMORY, "%s: no memory for a gradient", a->name);
    if (p->unexpected_count >= LIMIT_UNEXPECTED_GRADIENTS ||
        (p->unexpected_count && p->unexpected_bytes + size > LIMIT_UNEXPECTED_GRADIENT_BYTES))
        return error_set(
            error, GW_OVERLOADED,
            "%s: %u gradients of %s, of %llu bytes, have arrived before their pass was announced",
            a->name, p->unexpected_count, agent_member(a, from)->name,
            (unsigned long long)p->unexpected_bytes);
    p->unexpected_count++;
    p->unexpected_bytes += size;
    return GW_OK;
}

static gw_status put_into_inbox(distributed_pass *x, message *m, const gradient_head *h,
                                gw_error *error) {
    if (x->state != DISTRIBUTED_PASS_MARKING && x->received >= x->awaited)
        return error_set(error, GW_PROTOCOL, "%s: %s has sent a gradient that is not awaited",
                         x->agent->name, agent_member(x->agent, h->from)->name);
    distributed_pass_mail *mail = mem_take(sizeof *mail);
    if (!mail)
        return error_set(error, GW_NO_MEMORY, "%s: no memory for a gradient", x->agent->name);
    gw_status status = GW_OK;
    if (x->state == DISTRIBUTED_PASS_MARKING)
        status = count_unexpected(x, h->from, message_size(m), error);
    if (status) {
        mem_give(mail, sizeof *mail);
        return status;
    }
    *mail = (distributed_pass_mail){
        .message = message_retain(m), .peer = h->from, .values_at = h->values_at, .send = h->send
    };
    list_append(&x->inbox, &mail->link);
    x->received++;
    return GW_OK;
}

static gw_status take(distributed_pass *x, message *m, gradient_head *h, gw_error *error) {
    bool own = x->initiator == x->agent->rank;
    // A COMPLETE part needs no more gradients. The initiator ignores workers that take no part.
    if (x->state >= DISTRIBUTED_PASS_COMPLETE ||
        (own && h->from != x->initiator && !distributed_pass_awaits(x, h->from)))
        return GW_OK;
    if (!own && !agrees(x, h))
        return error_set(
            error, GW_PROTOCOL,
            "%s: %s has announced a pass with another scope or other marks than before",
            x->agent->name, agent_member(x->agent, h->from)->name);
    if (x->state == DISTRIBUTED_PASS_MARKING && h->flags & DISTRIBUTED_PASS_MARKS) {
        passes_peer *by = own || x->by < 0 ? NULL : passes_peer_find_on_loop(x->agent, x->by);
        if (by && by->mark_count + h->marks.count > LIMIT_MARKS_PER_PEER)
            return error_set(
                error, GW_LIMIT,
                "%s: %llu tensors between workers are too many for the passes reported by %s",
                x->agent->name, (unsigned long long)by->mark_count + h->marks.count,
                agent_member(x->agent, x->by)->name);
        if (by) by->mark_count += x->counted_marks = h->marks.count;
        x->marks = h->marks;
        h->marks = (marks){ 0 };
        x->partial = !h->send;
        distributed_pass_apply_on_loop(x, DISTRIBUTED_PASS_MARKED);
    }
    if (h->ended.settled > x->relayed.settled && h->ended.settled <= x->number)
        x->relayed = h->ended;
    return h->send ? put_into_inbox(x, m, h, error) : GW_OK;
}

// ---- Together -----------------------------------------------------------------------------------

// PASS-8: answers a gradient of a pass that failed here by the abort, because the initiator may not
// have received that.
static void refuse(agent *a, const gradient_head *h, gw_error *error) {
    distributed_pass x = { .agent = a, .initiator = (int)h->initiator, .number = h->number };
    if (x.initiator == a->rank || agent_member(a, x.initiator)->lost) return;
    if (!error->status) {
        const passes_peer *in = passes_peer_find_on_loop(a, x.initiator);
        if (in && h->number < in->ended.settled) return;
        error_set(error, GW_WRONG_STATE, "%s: this backward pass has been ended on this worker",
                  a->name);
    }
    distributed_pass_abort_on_loop(&x, x.initiator, error);
}

gw_status passes_gradient_received_on_loop(agent *a, int from, message *m, gw_error *error) {
    gradient_head h = { .from = from };
    gw_status status = read_head(a, m, &h, error);
    gw_error why = { 0 };
    if (!status && from == (int)h.initiator)
        passes_note_ended_on_loop(a, from, h.ended);
    else if (!status && h.ended.settled <= h.number)
        passes_note_relayed_on_loop(a, (int)h.initiator, h.ended);
    distributed_pass *x = status ? NULL : distributed_pass_of(a, &h, &why);
    if (x && !take(x, m, &h, &why)) {
        distributed_pass_schedule_on_loop(x, message_size(m));
    } else if (x) {
        distributed_pass_fail_part_on_loop(x, &why);
    } else if (!status) {
        refuse(a, &h, &why);
    }
    marks_fini(&h.marks);
    return status;
}
