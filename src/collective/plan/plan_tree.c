// Binomial trees. A broadcast doubles the count of members that have the value with each step. A reduction adds pairs
// of subtrees; of two, the one with the root in it receives the sum, else the first.
#include "collective/plan/plan_build.h"

static void broadcast(plan_builder *b) {
    const plan_request *r = b->request;
    // Ranks are counted from the root on. The highest bit of a rank determines its sender.
    int n = r->member_count, place = (r->rank - r->root + n) % n, power = plan_power(place);
    plan_value whole = plan_whole(b);
    int source = INPUT_OWN, first = 1;
    if (place > 0) {
        source = plan_receive(b, (place - power + r->root) % n, whole);
        first = 2 * power;
    }
    // The farthest first: that member has most to forward.
    int farthest = first;
    while (place + 2 * farthest < n) farthest *= 2;
    for (int distance = farthest; distance >= first; distance /= 2)
        if (place + distance < n) plan_send(b, (place + distance + r->root) % n, source, whole);
    plan_put_out(b, source, whole);
}

// The member that has the sum of the |size| leaves from |first| on, a power of two. Leaf i is member i, and the one
// |power| above it, which has the sum if it is the root.
static int holder_of(const plan_request *r, int power, int first, int size) {
    int leaf = r->root % power;
    return leaf >= first && leaf < first + size ? r->root : first;
}

static void reduce(plan_builder *b) {
    const plan_request *r = b->request;
    int power = plan_power(r->member_count), leaf = r->rank % power;
    int partner = r->rank < power ? r->rank + power : r->rank - power;
    plan_value value = plan_whole(b);
    int sum = INPUT_OWN;
    if (holder_of(r, power, leaf, 1) != r->rank) {
        plan_send(b, partner, sum, value);
        return;
    }
    if (partner < r->member_count) {
        int other = plan_receive(b, partner, value);
        int inputs[] = { r->rank < power ? sum : other, r->rank < power ? other : sum };
        value.is_partial = true;
        sum = plan_add(b, inputs, 2, value);
    } else if (plan_widens(r)) {
        value.is_partial = power > 1;
        sum = plan_add(b, &sum, 1, value);
    }
    for (int size = 1; size < power; size *= 2) {
        int mine = leaf & ~(size - 1), other = mine ^ size, pair = mine & ~size;
        int holder = holder_of(r, power, pair, 2 * size);
        if (holder != r->rank) {
            plan_send(b, holder, sum, value);
            return;
        }
        int received = plan_receive(b, holder_of(r, power, other, size), value);
        int inputs[] = { mine < other ? sum : received, mine < other ? received : sum };
        value.is_partial = 2 * size < power;
        sum = plan_add(b, inputs, 2, value);
    }
    plan_put_out(b, sum, value);
}

void plan_tree(plan_builder *b) {
    switch (b->request->operation) {
    case OPERATION_BROADCAST: broadcast(b); break;
    case OPERATION_REDUCE: reduce(b); break;
    default: plan_relay(b);
    }
}
