// Recursive doubling: pairs of members exchange partial sums, then pairs of pairs. The members above the largest
// power of two send their inputs to their partners first, and receive the sum from them at the end.
#include "collective/plan/plan_build.h"

#include "base/mutation.h"

// Adds this member's sum and the received one, in the order of ranks.
static int add_pair(plan_builder *b, int own, int other, bool own_is_first, plan_value v) {
    int inputs[] = { own_is_first ? own : other, own_is_first ? other : own };
    return plan_add(b, inputs, 2, v);
}

// For a member below the power of two the one above it, and the other way round; the count of members if there is
// none.
static int partner_of(const plan_request *r) {
    int power = plan_power(r->member_count), rank = r->rank, behind = r->member_count - power;
    if (has_mutation(MUTATION_WRONG_FOLD) && rank < behind) return r->member_count - 1 - rank;
    if (has_mutation(MUTATION_WRONG_FOLD) && rank >= power) return r->member_count - 1 - rank;
    return rank >= power ? rank - power : rank < behind ? rank + power : r->member_count;
}

// A member above the power of two.
static void follow(plan_builder *b) {
    plan_value whole = plan_whole(b);
    plan_send(b, partner_of(b->request), INPUT_OWN, whole);
    int sum = plan_receive(b, partner_of(b->request), whole);
    if (b->request->operation != OPERATION_BARRIER) plan_put_out(b, sum, whole);
}

static void lead(plan_builder *b) {
    const plan_request *r = b->request;
    int power = plan_power(r->member_count), rank = r->rank, follower = partner_of(r);
    plan_value whole = plan_whole(b), value = whole;
    int sum = INPUT_OWN;
    if (follower < r->member_count) {
        int received = plan_receive(b, follower, whole);
        value.is_partial = true;
        sum = add_pair(b, sum, received, true, value);
    } else if (plan_widens(r)) {
        value.is_partial = power > 1;
        sum = plan_add(b, &sum, 1, value);
    }
    for (int distance = 1; distance < power; distance *= 2) {
        int peer = rank ^ distance;
        plan_send(b, peer, sum, value);
        int received = plan_receive(b, peer, value);
        value.is_partial = 2 * distance < power;
        sum = add_pair(b, sum, received, rank < peer, value);
    }
    if (follower < r->member_count) plan_send(b, follower, sum, whole);
    if (r->operation != OPERATION_BARRIER) plan_put_out(b, sum, whole);
}

void plan_doubling(plan_builder *b) {
    if (b->request->rank >= plan_power(b->request->member_count))
        follow(b);
    else
        lead(b);
}
