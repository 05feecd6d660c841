// Chains: each member sends only to the next one, from the root on or toward it. A value that a root sends to all is
// cut into pieces, so that a member forwards one while it receives the next: each sends and receives it once, for any
// count of members.
#include "collective/plan/plan_build.h"

// Members are counted along the chain, from the root on.
static int member_at(const plan_request *r, int place) {
    return (r->root + place) % r->member_count;
}

static int place_of(const plan_request *r, int member) {
    return (member - r->root + r->member_count) % r->member_count;
}

static plan_value piece(int i) {
    return (plan_value){ .first = (uint64_t)i, .count = 1, .item = -1 };
}

static void broadcast(plan_builder *b) {
    const plan_request *r = b->request;
    int place = place_of(r, r->rank), next = place + 1;
    for (int i = 0; i < PLAN_PIECES; i++) {
        int source = place ? plan_receive(b, member_at(r, place - 1), piece(i)) : INPUT_OWN;
        if (next < r->member_count) plan_send(b, member_at(r, next), source, piece(i));
        if (place) plan_put_out(b, source, piece(i));
    }
    if (!place) plan_put_out(b, INPUT_OWN, plan_whole(b));
}

void plan_chain(plan_builder *b) {
    if (b->request->operation == OPERATION_BROADCAST)
        broadcast(b);
    else
        plan_relay(b);
}
