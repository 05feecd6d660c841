// The messages of agreements: their encoding and their effects.
#include "agent/deferred.h"
#include "base/mem.h"
#include "base/status.h"
#include "collective/agree.h"
#include "collective/groups_state.h"
#include "wire/codec.h"

// ---- Messages -----------------------------------------------------------------------------------

void agree_answer_on_loop(agent *a, int to, uint8_t kind, const group_header *h) {
    message *m = agent_message_on_loop(a, kind);
    if (!m) return;
    group_header answer = *h;
    if (kind == KIND_ABSENT) answer.number = 0;
    if (kind != KIND_POLL) answer.key = 0;
    group_header_put(&m->head, &answer);
    group_send_on_loop(a, to, m);
}

void proposal_put(bytes *out, const proposal *p) {
    bytes_put_u8(out, p->what);
    bytes_put_u64(out, p->flags);
    bytes_put_u32(out, p->min);
    bytes_put_u8(out, p->grow);
    bytes_put_u8(out, p->error != NULL);
    if (p->error) encode_error(out, error_kept(p->error));
}

void proposal_clear(proposal *p) {
    error_forget(&p->error);
    *p = (proposal){ 0 };
}

// |*out| is the caller's, also on failure.
static bool read_proposal(reader *in, proposal *out) {
    gw_error error, ignored;
    *out = (proposal){ .what = reader_u8(in) };
    out->flags = reader_u64(in);
    out->min = reader_u32(in);
    uint8_t grow = reader_u8(in), fails = reader_u8(in);
    if (in->failed || out->what > AGREE_REFORM || grow > 1 || fails > 1) return false;
    out->grow = grow;
    if (fails && decode_error(in, &error, &ignored)) return false;
    if (fails) error_keep(&out->error, &error);
    return true;
}

// ---- Received messages --------------------------------------------------------------------------

static bool take_proposal(gw_group *g, int from, const group_header *h, reader *in) {
    agreements *x = g->agreements;
    proposal p;
    bool valid = read_proposal(in, &p);
    p.number = h->number;
    if (!valid) {
        proposal_clear(&p);
        return false;
    }
    proposal_clear(&x->proposals[from]);
    if (h->number <= x->released) {  // GRP-15
        proposal_clear(&p);
        agree_answer_on_loop(g->agent, g->members[from].rank, KIND_RELEASED, h);
        return true;
    }
    x->proposals[from] = p;
    agree_consider_on_loop(g);
    return true;
}

static bool take_decision(gw_group *g, int from, const group_header *h, reader *in) {
    agreements *x = g->agreements;
    decision *d;
    if (h->number > agree_number(x) || !decision_decode(in, &d)) return false;
    if (!d) {
        agree_no_memory_on_loop(g);
        return true;
    }
    bool valid = d->size == g->count;
    if (valid && h->number == agree_number(x)) {
        decision_release(x->stored);
        x->stored = decision_retain(d);
    }
    decision_release(d);
    if (valid) agree_answer_on_loop(g->agent, g->members[from].rank, KIND_STORED, h);
    return valid;
}

static bool take_release(gw_group *g, const group_header *h, reader *in) {
    agreements *x = g->agreements;
    (void)in;
    if (h->number > agree_number(x)) return false;
    if (h->number <= x->released) return true;
    if (!x->stored) return false;
    agree_released_on_loop(g);
    return true;
}

static void take_question(gw_group *g, int from, const group_header *h) {
    agreements *x = g->agreements;
    if (h->number <= x->released) {
        agree_answer_on_loop(g->agent, g->members[from].rank, KIND_RELEASED, h);
        return;
    }
    x->polled = h->number;
    if (h->number == agree_number(x) && agree_leader_on_loop(g) == from) agree_propose_on_loop(g);
}

// GRP-18: replies for this member, which is absent.
static void answer_absent(gw_group *g, int from, uint8_t kind, const group_header *h) {
    bool is_over = g->agreements && h->number <= g->agreements->released;
    uint8_t answer = kind == KIND_DECIDED ? KIND_STORED : is_over ? KIND_RELEASED : KIND_ABSENT;
    if (kind == KIND_PROPOSE || kind == KIND_POLL || kind == KIND_DECIDED || kind == KIND_DISMISS)
        agree_answer_on_loop(g->agent, g->members[from].rank, answer, h);
}

// A member waits for this one, which will not send a proposal: GRP-18.
static void take_dismissal(gw_group *g, const group_header *h) {
    agreements *x = g->agreements;
    if (h->number != agree_number(x) || !awaits_is_idle_on_loop(g->agent)) return;
    agree_leaving_on_loop(g);
}

bool agree_received_on_loop(gw_group *g, int from, uint8_t kind, const group_header *h,
                            reader *in) {
    if (g->is_absent && kind != KIND_ABSENT) {
        answer_absent(g, from, kind, h);
        return true;
    }
    agreements *x = agree_of_on_loop(g);
    bool valid = true;
    if (!x) {
        g->is_absent = true;
        answer_absent(g, from, kind, h);
        return true;
    }
    handle_retain(g);
    switch (kind) {
    case KIND_PROPOSE: valid = take_proposal(g, from, h, in); break;
    case KIND_POLL: take_question(g, from, h); break;
    case KIND_DECIDED: valid = take_decision(g, from, h, in); break;
    case KIND_STORED:
        if (x->leads && h->number == agree_number(x)) {
            x->has_stored[from] = true;
            agree_consider_on_loop(g);
        }
        break;
    case KIND_RELEASED: valid = take_release(g, h, in); break;
    case KIND_DISMISS: take_dismissal(g, h); break;
    default: agree_is_out_on_loop(g, from);
    }
    group_release_on_loop(g);
    return valid;
}

// ---- Groups that are not open here --------------------------------------------------------------

static void answer_not_called(agent *a, int to, const group_header *h) {
    static const proposal not_called;
    message *m = agent_message_on_loop(a, KIND_PROPOSE);
    if (!m) return;
    group_header_put(&m->head, h);
    proposal_put(&m->head, &not_called);
    group_send_on_loop(a, to, m);
}

static bool unknown_decided(agent *a, int from, const group_header *h, reader *in, bool is_closed,
                            bool *out_keeps) {
    decision *d;
    if (!decision_decode(in, &d)) return false;
    if (!d) return true;  // its leader waits for this worker until the deadline
    bool is_joining = decision_has_member(d, a->rank, a->incarnation);
    *out_keeps = !is_joining && !is_closed;
    agree_answer_on_loop(a, from, KIND_STORED, h);
    if (is_joining && !is_closed)
        join_request_decided_on_loop(a, h, d);
    else
        decision_release(d);
    return true;
}

bool agree_unknown_received_on_loop(agent *a, int from, uint8_t kind, const group_header *h,
                                    reader in, bool *out_keeps) {
    const closed_group *was = groups_find_closed_on_loop(a, h);
    *out_keeps = false;
    switch (kind) {
    case KIND_PROPOSE:
    case KIND_POLL:
        if (was && h->number <= was->released)
            agree_answer_on_loop(a, from, KIND_RELEASED, h);
        else if (was)
            agree_answer_on_loop(a, from, KIND_ABSENT, h);
        else if (kind == KIND_POLL)
            answer_not_called(a, from, h);
        else
            *out_keeps = true;
        return true;
    case KIND_DISMISS:
        if (awaits_is_idle_on_loop(a)) agree_answer_on_loop(a, from, KIND_ABSENT, h);
        return true;
    case KIND_DECIDED: return unknown_decided(a, from, h, &in, was, out_keeps);
    case KIND_RELEASED: *out_keeps = !was && !join_request_released_on_loop(a, h); return true;
    default: return true;
    }
}

// ---- Unknown ranks ------------------------------------------------------------------------------

bool agree_names_unknown(const agent *a, const message *m) {
    decision *d = NULL;
    bool is_unknown = false;
    if (m->kind != KIND_DECIDED || m->head.size < GROUP_HEADER_BYTES) return false;
    reader in = reader_of(m->head.data + GROUP_HEADER_BYTES, m->head.size - GROUP_HEADER_BYTES);
    decision_decode(&in, &d);
    for (int i = 0; d && i < d->member_count; i++)
        is_unknown |= deferred_is_unknown(a, (uint64_t)d->members[i].rank);
    decision_release(d);
    return is_unknown;
}
