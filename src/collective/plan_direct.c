// Direct plans: member j adds slice j of all, and sends the sum on. Members whose slice is empty have
// nothing to add. A large slice goes in chunks, so that some are added while others are on their way.
#include "collective/plan_build.h"

#include "base/mem.h"
#include "base/mutation.h"

enum { CHUNK_BYTES = 512 << 10, CHUNKS_MAX = 256, LINE_ELEMENTS = 64 };

static uint64_t least(uint64_t a, uint64_t b) {
    return a < b ? a : b;
}

// Of the slice of |member|. One chunk of slice 0 is there even if nothing is in it, so that members
// of an empty reduction meet, too.
static int chunk_count(const plan_request *r, int member) {
    uint64_t bytes = plan_slice(r, member).count * r->element_bytes;
    uint64_t count = least((bytes + CHUNK_BYTES - 1) / CHUNK_BYTES, CHUNKS_MAX);
    return count > 0 ? (int)count : member == 0 || plan_slice(r, member).count > 0;
}

static plan_value chunk_of(const plan_request *r, int member, int c) {
    plan_value v = plan_slice(r, member);
    uint64_t count = (uint64_t)chunk_count(r, member), end = v.first + v.count;
    uint64_t each = ((v.count + count - 1) / count + LINE_ELEMENTS - 1) / LINE_ELEMENTS;
    uint64_t first = least(v.first + (uint64_t)c * each * LINE_ELEMENTS, end);
    v.count = c + 1 == (int)count ? end - first : least(each * LINE_ELEMENTS, end - first);
    v.first = first;
    return v;
}

static void send_slices(plan_builder *b) {
    const plan_request *r = b->request;
    for (int c = 0; c < CHUNKS_MAX; c++) {
        for (int d = 1; d < r->member_count; d++) {
            int peer = plan_behind(r, d);
            if (c < chunk_count(r, peer)) plan_send(b, peer, INPUT_OWN, chunk_of(r, peer, c));
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

static void add_slice(plan_builder *b, int sums[CHUNKS_MAX]) {
    const plan_request *r = b->request;
    int *from = mem_alloc((size_t)r->member_count * sizeof *from);
    if (!from) b->is_out_of_memory = true;
    for (int c = 0; from && c < chunk_count(r, r->rank); c++) {
        sums[c] = add_chunk(b, c, from);
        for (int d = 1; d < r->member_count; d++) {
            int peer = plan_behind(r, d);
            if (r->operation == OPERATION_ALL_REDUCE || peer == r->root)
                plan_send(b, peer, sums[c], chunk_of(r, r->rank, c));
        }
    }
    mem_free(from);
}

// All sums in their order. |own|: the steps that have made this member's.
static void put_out_sums(plan_builder *b, const int own[CHUNKS_MAX]) {
    const plan_request *r = b->request;
    for (int j = 0; j < r->member_count; j++) {
        for (int c = 0; c < chunk_count(r, j); c++) {
            plan_value chunk = chunk_of(r, j, c);
            plan_put_out(b, j == r->rank ? own[c] : plan_receive(b, j, chunk), chunk);
        }
    }
}

void plan_direct(plan_builder *b) {
    const plan_request *r = b->request;
    int sums[CHUNKS_MAX] = { 0 };
    send_slices(b);
    add_slice(b, sums);
    if (r->operation == OPERATION_ALL_REDUCE || r->rank == r->root) put_out_sums(b, sums);
}
