// The messages of agreements of groups that are not open here.
#include "collective/agree/agree.h"
#include "collective/group/groups_state.h"
#include "collective/opening/join.h"

static void answer_not_called(agent *a, int to, const group_header *h) {
    static const proposal not_called;
    message *m = agent_message_on_loop(a, KIND_PROPOSE);
    if (!m) return;
    group_header_put(&m->head, h);
    proposal_put(&m->head, &not_called);
    agent_post_on_loop(a, to, m);
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
