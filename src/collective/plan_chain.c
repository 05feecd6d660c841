// Chains: each member sends to the next one only, beginning at the root or ending there. What a root
// gives to all goes in pieces, so that a member sends one on while the next one comes: each sends and
// receives it once, however many they are.
#include "collective/plan_build.h"

#include "base/mem.h"

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

// Each sends what it brings, then what comes from those behind it, the nearest first.
static void gather(plan_builder *b) {
    const plan_request *r = b->request;
    int place = place_of(r, r->rank), n = r->member_count;
    int *from = mem_alloc((size_t)n * sizeof *from);
    if (!from) {
        b->is_out_of_memory = true;
        return;
    }
    from[place] = INPUT_OWN;
    for (int i = place; i < n; i++) {
        if (i > place) from[i] = plan_receive(b, member_at(r, place + 1), plan_whole(b));
        if (place) plan_send(b, member_at(r, place - 1), from[i], plan_whole(b));
    }
    for (int i = 0; i < n && !place; i++) plan_put_out(b, from[place_of(r, i)], plan_whole(b));
    mem_free(from);
}

// What goes farthest goes first, so that what comes last is for whom it comes to.
static void scatter(plan_builder *b) {
    const plan_request *r = b->request;
    int place = place_of(r, r->rank), last = INPUT_OWN;
    plan_value v = plan_whole(b);
    for (int i = r->member_count - 1; i >= place; i--) {
        if (place) last = plan_receive(b, member_at(r, place - 1), plan_whole(b));
        if (!place) v.item = member_at(r, i);
        if (i > place) plan_send(b, member_at(r, place + 1), last, v);
    }
    plan_put_out(b, last, v);
}

void plan_chain(plan_builder *b) {
    switch (b->request->operation) {
    case OPERATION_BROADCAST: broadcast(b); break;
    case OPERATION_GATHER: gather(b); break;
    default: scatter(b);
    }
}
