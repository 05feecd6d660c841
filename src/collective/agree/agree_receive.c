// The messages of agreements that a member receives.
#include "collective/agree/agree.h"

static bool take_proposal(gw_group *g, int from, const group_header *h, reader *in) {
    agreements *x = g->agreements;
    proposal p;
    bool valid = proposal_read(in, &p);
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
