// Halving and doubling (Rabenseifner). Pairs of members exchange halves of their values and add them, then pairs of
// pairs halves of these, to the end: then each member has its piece of the sum, and the pieces are exchanged back the
// same way. It takes as many messages as recursive doubling, twice, of as many bytes as a direct plan. The members
// above the largest power of two send their inputs to their partners first, and receive the sum from them.
#include "collective/plan/plan_build.h"

enum { LEVELS = 16 };

// The first or second half of |v|, of whole cache lines.
static plan_value half_of(const plan_request *r, plan_value v, bool second) {
    uint64_t end = v.first + v.count;
    uint64_t middle = v.first + plan_round_to_lines(r, (v.count + 1) / 2);
    if (middle > end) middle = end;
    if (second) v.first = middle;
    v.count = second ? end - middle : middle - v.first;
    return v;
}

static void follow(plan_builder *b) {
    const plan_request *r = b->request;
    int leader = r->rank - plan_power(r->member_count);
    plan_send(b, leader, INPUT_OWN, plan_whole(b));
    plan_put_out(b, plan_receive(b, leader, plan_whole(b)), plan_whole(b));
}

static int add_pair(plan_builder *b, int first, int second, plan_value v) {
    int inputs[] = { first, second };
    return plan_add(b, inputs, 2, v);
}

// Adds the input of the partner above the power of two, if there is one.
static int begin(plan_builder *b, plan_value *v) {
    const plan_request *r = b->request;
    int power = plan_power(r->member_count), follower = r->rank + power, own = INPUT_OWN;
    if (follower >= r->member_count && !plan_widens(r)) return own;
    v->is_partial = power > 1;
    if (follower >= r->member_count) return plan_add(b, &own, 1, *v);
    return add_pair(b, own, plan_receive(b, follower, plan_whole(b)), *v);
}

// The final pieces of a member, in the order of elements: its own, and the received ones.
typedef struct pieces {
    int steps[LEVELS + 1];
    plan_value values[LEVELS + 1];
    int count;
} pieces;

static void put_piece(pieces *p, int step, plan_value v, bool in_front) {
    for (int i = p->count; in_front && i > 0; i--) {
        p->steps[i] = p->steps[i - 1];
        p->values[i] = p->values[i - 1];
    }
    int at = in_front ? 0 : p->count;
    p->steps[at] = step;
    p->values[at] = v;
    p->count++;
}

static int join_pieces(plan_builder *b, const pieces *p, plan_value v) {
    return p->count == 1 ? p->steps[0] : plan_join(b, p->steps, p->count, v);
}

static void lead(plan_builder *b) {
    const plan_request *r = b->request;
    int power = plan_power(r->member_count), levels = 0;
    plan_value whole[LEVELS + 1], value = plan_whole(b);
    int sum = begin(b, &value);
    for (int distance = 1; distance < power; distance *= 2, levels++) {
        int peer = r->rank ^ distance;
        bool is_second = r->rank & distance;
        whole[levels] = value;
        plan_send(b, peer, sum, half_of(r, value, !is_second));
        value = half_of(r, value, is_second);
        int received = plan_receive(b, peer, value);
        value.is_partial = 2 * distance < power;
        sum = is_second ? add_pair(b, received, sum, value) : add_pair(b, sum, received, value);
    }
    pieces all = { { sum }, { value }, 1 };
    for (int distance = power / 2; distance > 0; distance /= 2) {
        int peer = r->rank ^ distance;
        bool is_second = r->rank & distance;
        plan_value missing = half_of(r, whole[--levels], !is_second);
        missing.is_partial = false;
        plan_send(b, peer, join_pieces(b, &all, value), value);
        put_piece(&all, plan_receive(b, peer, missing), missing, is_second);
        value = whole[levels];
        value.is_partial = false;
    }
    if (r->rank + power < r->member_count)
        plan_send(b, r->rank + power, join_pieces(b, &all, value), value);
    for (int i = 0; i < all.count; i++) plan_put_out(b, all.steps[i], all.values[i]);
}

void plan_halving(plan_builder *b) {
    if (b->request->rank >= plan_power(b->request->member_count))
        follow(b);
    else
        lead(b);
}
