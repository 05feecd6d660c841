// Chains: each member sends only to the next one, from the root on or toward it. A value that a root sends to all is
// cut into pieces, so that a member forwards one while it receives the next: each sends and receives it once, for any
// count of members.
#include "collective/plan/plan_build.h"

static plan_value piece(int i) {
    return (plan_value){ .first = (uint64_t)i, .count = 1, .item = -1 };
}

static void broadcast(plan_builder *b) {
    const plan_request *r = b->request;
    int place = plan_place_of(r, r->rank), next = place + 1;
    for (int i = 0; i < PLAN_PIECES; i++) {
        int source = place ? plan_receive(b, plan_member_at(r, place - 1), piece(i)) : INPUT_OWN;
        if (next < r->member_count) plan_send(b, plan_member_at(r, next), source, piece(i));
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
