// Gather and scatter by relays: a value for, or from, another member passes the members between it and the root,
// along a chain or a binomial tree. So each member has few partners, for any count of members; it forwards the values
// of the members behind it, one by one.
#include "collective/plan/plan_build.h"

#include "base/mem.h"

static bool is_chain(const plan_builder *b) {
    return b->plan->kind == PLAN_CHAIN;
}

// The members behind |place| are itself and every further one at this distance. In a tree the highest bit of a place
// determines the member before it: so the members behind it have its bits as their lowest ones.
static int distance_behind(const plan_builder *b, int place) {
    if (is_chain(b)) return 1;
    return place ? 2 * plan_power(place) : 1;
}

static int place_before(const plan_builder *b, int place) {
    return is_chain(b) ? place - 1 : place - plan_power(place);
}

// The next place on the way from |place| to |last|, which is behind it.
static int place_towards(const plan_builder *b, int place, int last) {
    int way = last - place;
    return is_chain(b) ? place + 1 : place + (way & -way);
}

// Each sends its input, then the values of the members behind it, the nearest first.
static void gather(plan_builder *b) {
    const plan_request *r = b->request;
    int place = plan_place_of(r, r->rank), n = r->member_count;
    int *from = mem_alloc((size_t)n * sizeof *from);
    if (!from) {
        b->is_out_of_memory = true;
        return;
    }
    from[place] = INPUT_OWN;
    for (int i = place; i < n; i += distance_behind(b, place)) {
        if (i > place)
            from[i] = plan_receive(b, plan_member_at(r, place_towards(b, place, i)), plan_whole(b));
        if (place) plan_send(b, plan_member_at(r, place_before(b, place)), from[i], plan_whole(b));
    }
    for (int i = 0; i < n && !place; i++) plan_put_out(b, from[plan_place_of(r, i)], plan_whole(b));
    mem_free(from);
}

// The farthest value is sent first, so that the last one received is the receiver's own.
static void scatter(plan_builder *b) {
    const plan_request *r = b->request;
    int place = plan_place_of(r, r->rank), last = INPUT_OWN, each = distance_behind(b, place);
    plan_value v = plan_whole(b);
    int farthest = place + (r->member_count - 1 - place) / each * each;
    for (int i = farthest; i >= place; i -= each) {
        if (place) last = plan_receive(b, plan_member_at(r, place_before(b, place)), plan_whole(b));
        if (!place) v.item = plan_member_at(r, i);
        if (i > place) plan_send(b, plan_member_at(r, place_towards(b, place, i)), last, v);
    }
    plan_put_out(b, last, v);
}

void plan_relay(plan_builder *b) {
    if (b->request->operation == OPERATION_GATHER)
        gather(b);
    else
        scatter(b);
}
