// Direct plans: member j adds slice j of all, and sends the sum on. Members whose slice is empty have
// nothing to add.
#include "collective/plan_build.h"

#include "base/mem.h"
#include "base/mutation.h"

// Slice 0 is there even if nothing is in it, so that members of an empty reduction meet, too.
static bool has_slice(const plan_request *r, int member) {
    return member == 0 || plan_slice(r, member).count > 0;
}

static void send_slices(plan_builder *b) {
    const plan_request *r = b->request;
    for (int d = 1; d < r->member_count; d++) {
        int peer = plan_behind(r, d);
        if (has_slice(r, peer)) plan_send(b, peer, INPUT_OWN, plan_slice(r, peer));
    }
}

// The step that adds this member's slice of all.
static int add_slice(plan_builder *b) {
    const plan_request *r = b->request;
    plan_value slice = plan_slice(r, r->rank);
    int *from = mem_alloc((size_t)r->member_count * sizeof *from);
    if (!from) {
        b->is_out_of_memory = true;
        return 0;
    }
    from[r->rank] = INPUT_OWN;
    for (int d = 1; d < r->member_count; d++) {
        int peer = plan_behind(r, r->member_count - d);
        int received = plan_receive(b, peer, slice);
        from[has_mutation(MUTATION_SLICES_BY_ARRIVAL) ? plan_behind(r, d) : peer] = received;
    }
    int sum = plan_add(b, from, r->member_count, slice);
    mem_free(from);
    return sum;
}

// All sums in their order. |own| is the step that has made this member's.
static void put_out_sums(plan_builder *b, int own) {
    const plan_request *r = b->request;
    for (int j = 0; j < r->member_count; j++) {
        if (!has_slice(r, j)) continue;
        plan_value slice = plan_slice(r, j);
        plan_put_out(b, j == r->rank ? own : plan_receive(b, j, slice), slice);
    }
}

void plan_direct(plan_builder *b) {
    const plan_request *r = b->request;
    bool reduces_to_all = r->operation == OPERATION_ALL_REDUCE;
    send_slices(b);
    int own = INPUT_OWN;
    if (has_slice(r, r->rank)) {
        own = add_slice(b);
        for (int d = 1; d < r->member_count; d++) {
            int peer = plan_behind(r, d);
            if (reduces_to_all || peer == r->root) plan_send(b, peer, own, plan_slice(r, r->rank));
        }
    }
    if (reduces_to_all || r->rank == r->root) put_out_sums(b, own);
}
