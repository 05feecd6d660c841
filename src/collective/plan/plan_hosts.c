// By host: slice j of the inputs of the members of a host is sent to its member j, which adds it; then the members j
// of all hosts add their slices, a piece each, and send the pieces back; then the members of each host exchange their
// slices. So each host sends and receives the bytes of one member's input, not of all. The order of additions is that
// of all plans, since the members of a host are a subtree.
//
// If hosts differ in size or are unknown, it is a direct plan.
#include "collective/plan/plan_build.h"

#include "base/mem.h"

// This member's steps for each chunk of its slice.
typedef struct part {
    int sum;    // of its host; then its piece of all hosts
    int whole;  // the chunk, once all pieces have arrived
} part;

static plan_value slice_of(plan_builder *b, int place) {
    return plan_cut(b->request, plan_whole(b), place, b->request->host_size);
}

static plan_value chunk_of(plan_builder *b, int place, int c) {
    plan_value slice = slice_of(b, place);
    return plan_cut(b->request, slice, c, plan_chunk_count(b->request, slice));
}

static int chunk_count(plan_builder *b, int place) {
    return plan_chunk_count(b->request, slice_of(b, place));
}

static plan_value piece_of(plan_builder *b, plan_value chunk, int host) {
    return plan_cut(b->request, chunk, host, plan_host_count(b->request));
}

static void send_slices(plan_builder *b) {
    const plan_request *r = b->request;
    for (int d = 1; d < r->host_size; d++) {
        int place = plan_other_place(r, d);
        for (int c = 0; c < chunk_count(b, place); c++)
            plan_send(b, plan_on_host(r, place), INPUT_OWN, chunk_of(b, place, c));
    }
}

// Adds chunk |c| of the host's members, and sends each host its piece.
static void add_host(plan_builder *b, int c, int *from, part *out) {
    const plan_request *r = b->request;
    int place = r->rank % r->host_size;
    plan_value chunk = chunk_of(b, place, c);
    for (int i = 0; i < r->host_size; i++)
        from[i] = i == place ? INPUT_OWN : plan_receive(b, plan_on_host(r, i), chunk);
    chunk.is_partial = true;
    out->sum = plan_add(b, from, r->host_size, chunk);
    for (int d = 1; d < plan_host_count(r); d++) {
        int host = plan_other_host(r, d);
        plan_send(b, plan_across(r, host), out->sum, piece_of(b, chunk, host));
    }
}

// Adds this member's piece of chunk |c| over all hosts, and sends it back to them.
static void add_hosts(plan_builder *b, int c, int *from, part *x) {
    const plan_request *r = b->request;
    plan_value chunk = chunk_of(b, r->rank % r->host_size, c);
    int here = r->rank / r->host_size;
    plan_value piece = piece_of(b, chunk, here), partial = piece;
    partial.is_partial = true;
    for (int i = 0; i < plan_host_count(r); i++)
        from[i] = i == here ? x->sum : plan_receive(b, plan_across(r, i), partial);
    x->sum = plan_add(b, from, plan_host_count(r), piece);
    for (int d = 1; d < plan_host_count(r); d++)
        plan_send(b, plan_across(r, plan_other_host(r, d)), x->sum, piece);
}

// Joins chunk |c|, and sends it to the other members of the host.
static void share(plan_builder *b, int c, int *from, part *x) {
    const plan_request *r = b->request;
    plan_value chunk = chunk_of(b, r->rank % r->host_size, c);
    for (int i = 0; i < plan_host_count(r); i++)
        from[i] = i == r->rank / r->host_size
                      ? x->sum
                      : plan_receive(b, plan_across(r, i), piece_of(b, chunk, i));
    x->whole = plan_join(b, from, plan_host_count(r), chunk);
    for (int d = 1; d < r->host_size; d++)
        plan_send(b, plan_on_host(r, plan_other_place(r, d)), x->whole, chunk);
}

// Its own chunks are put out as their pieces, which are in place.
static void put_out_slices(plan_builder *b, const part *parts) {
    const plan_request *r = b->request;
    for (int place = 0; place < r->host_size; place++) {
        for (int c = 0; c < chunk_count(b, place); c++) {
            plan_value chunk = chunk_of(b, place, c);
            bool is_own = place == r->rank % r->host_size;
            plan_put_out(
                b, is_own ? parts[c].whole : plan_receive(b, plan_on_host(r, place), chunk), chunk);
        }
    }
}

static void all_reduce(plan_builder *b) {
    const plan_request *r = b->request;
    int count = chunk_count(b, r->rank % r->host_size);
    part *parts = mem_calloc((size_t)count * sizeof *parts);
    int *from = mem_alloc((size_t)r->member_count * sizeof *from);
    if (parts && from) {
        send_slices(b);
        for (int c = 0; c < count; c++) add_host(b, c, from, &parts[c]);
        for (int c = 0; c < count; c++) add_hosts(b, c, from, &parts[c]);
        for (int c = 0; c < count; c++) share(b, c, from, &parts[c]);
        put_out_slices(b, parts);
    } else {
        b->is_out_of_memory = true;
    }
    mem_free(parts);
    mem_free(from);
}

void plan_hosts(plan_builder *b) {
    bool is_sum = b->request->operation == OPERATION_ALL_REDUCE;
    if (!is_sum)
        plan_hosts_values(b);
    else if (plan_adds_by_host(b->request))
        all_reduce(b);
    else
        plan_direct(b);
}
