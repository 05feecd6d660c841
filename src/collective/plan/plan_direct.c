// Direct plans and stars: member j adds slice j of all members, and sends the sum to all. In a star only the first
// members have a slice: the centers. Members with an empty slice add nothing. A large slice is sent in chunks, so that
// some are added while others are under way.
#include "collective/plan/plan_build.h"

#include "base/mem.h"
#include "base/mutation.h"

static plan_value slice_of(const plan_request *r, int member) {
    if (r->choice.kind != PLAN_STAR) return plan_slice(r, member);
    plan_value none = { .item = -1 }, all = { .count = r->elements, .item = -1 };
    return member < r->choice.centers ? plan_cut(r, all, member, r->choice.centers) : none;
}

// Chunks of the slice of |member|. Slice 0 has at least one chunk, even if empty, so that the members of an empty
// reduction wait for each other, too.
static int chunk_count(const plan_request *r, int member) {
    plan_value slice = slice_of(r, member);
    return member == 0 || slice.count > 0 ? plan_chunk_count(r, slice) : 0;
}

static plan_value chunk_of(const plan_request *r, int member, int c) {
    return plan_cut(r, slice_of(r, member), c, chunk_count(r, member));
}

static void send_slices(plan_builder *b) {
    const plan_request *r = b->request;
    bool more = true;
    for (int c = 0; more; c++) {
        more = false;
        for (int d = 1; d < r->member_count; d++) {
            int peer = plan_behind(r, d);
            if (c >= chunk_count(r, peer)) continue;
            plan_send(b, peer, INPUT_OWN, chunk_of(r, peer, c));
            more = true;
        }
    }
}

// The step that adds chunk |c| of this member's slice. |from|: room for a step of each member.
static int add_chunk(plan_builder *b, int c, int *from) {
    const plan_request *r = b->request;
    plan_value chunk = chunk_of(r, r->rank, c);
    from[r->rank] = INPUT_OWN;
    for (int d = 1; d < r->member_count; d++) {
        int peer = plan_behind(r, r->member_count - d);
        int received = plan_receive(b, peer, chunk);
        from[has_mutation(MUTATION_SLICES_BY_ARRIVAL) ? plan_behind(r, d) : peer] = received;
    }
    return plan_add(b, from, r->member_count, chunk);
}

static void add_slice(plan_builder *b, int sums[PLAN_CHUNKS_MAX]) {
    const plan_request *r = b->request;
    int *from = mem_alloc((size_t)r->member_count * sizeof *from);
    if (!from) b->is_out_of_memory = true;
    for (int c = 0; from && c < chunk_count(r, r->rank); c++) {
        sums[c] = add_chunk(b, c, from);
        for (int d = 1; d < r->member_count; d++) {
            int peer = plan_behind(r, d);
            if (r->operation != OPERATION_REDUCE || peer == r->root)
                plan_send(b, peer, sums[c], chunk_of(r, r->rank, c));
        }
    }
    mem_free(from);
}

// All sums in order; a barrier has no result. |own|: the steps that have made this member's sums.
static void put_out_sums(plan_builder *b, const int own[PLAN_CHUNKS_MAX]) {
    const plan_request *r = b->request;
    for (int j = 0; j < r->member_count; j++) {
        for (int c = 0; c < chunk_count(r, j); c++) {
            plan_value chunk = chunk_of(r, j, c);
            int sum = j == r->rank ? own[c] : plan_receive(b, j, chunk);
            if (r->operation != OPERATION_BARRIER) plan_put_out(b, sum, chunk);
        }
    }
}

void plan_direct(plan_builder *b) {
    const plan_request *r = b->request;
    int sums[PLAN_CHUNKS_MAX] = { 0 };
    send_slices(b);
    add_slice(b, sums);
    if (r->operation != OPERATION_REDUCE || r->rank == r->root) put_out_sums(b, sums);
}
