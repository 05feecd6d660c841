// By host, for operations that are not one sum for all: each value crosses from host to host once, between members
// with the same place in their hosts, which forward it to the other members of their host; sums are made within each
// host before they cross.
//
// If hosts differ in size or are unknown, these are flat plans.
#include "collective/plan/plan_build.h"

#include "base/mem.h"

static int *open_steps(plan_builder *b) {
    int *steps = mem_alloc((size_t)b->request->member_count * sizeof *steps);
    if (!steps) b->is_out_of_memory = true;
    return steps;
}

static int host_of(const plan_request *r, int member) {
    return member / r->host_size;
}

// Whether this member has the same place in its host as the root.
static bool has_place_of_root(const plan_request *r) {
    return r->rank % r->host_size == r->root % r->host_size;
}

// A binomial tree over hosts, counted from the root's on.
static void broadcast(plan_builder *b) {
    const plan_request *r = b->request;
    int hosts = plan_host_count(r), first_host = host_of(r, r->root), source = INPUT_OWN;
    int place = (host_of(r, r->rank) - first_host + hosts) % hosts;
    plan_value whole = plan_whole(b);
    if (!has_place_of_root(r)) {
        source = plan_receive(b, plan_on_host(r, r->root % r->host_size), whole);
        plan_put_out(b, source, whole);
        return;
    }
    int power = plan_power(place), first = place ? 2 * power : 1, farthest = first;
    if (place)
        source = plan_receive(b, plan_across(r, (place - power + first_host) % hosts), whole);
    while (place + 2 * farthest < hosts) farthest *= 2;
    for (int d = farthest; d >= first; d /= 2)
        if (place + d < hosts)
            plan_send(b, plan_across(r, (place + d + first_host) % hosts), source, whole);
    for (int d = 1; d < r->host_size; d++)
        plan_send(b, plan_on_host(r, plan_other_place(r, d)), source, whole);
    plan_put_out(b, source, whole);
}

static void all_gather(plan_builder *b) {
    const plan_request *r = b->request;
    plan_value whole = plan_whole(b);
    int *from = open_steps(b);
    if (!from) return;
    for (int d = 1; d < plan_host_count(r); d++)
        plan_send(b, plan_across(r, plan_other_host(r, d)), INPUT_OWN, whole);
    // A member sends to the others of its host its own input, then the inputs that have crossed to it.
    for (int h = 0; h < plan_host_count(r); h++) {
        int other = plan_other_host(r, h), here = plan_across(r, other);
        from[here] = h ? plan_receive(b, here, whole) : INPUT_OWN;
        for (int d = 1; d < r->host_size; d++)
            plan_send(b, plan_on_host(r, plan_other_place(r, d)), from[here], whole);
        for (int d = 1; d < r->host_size; d++) {
            int place = plan_other_place(r, d);
            from[other * r->host_size + place] = plan_receive(b, plan_on_host(r, place), whole);
        }
    }
    for (int i = 0; i < r->member_count; i++) plan_put_out(b, from[i], whole);
    mem_free(from);
}

// The sum of |v| over this host, whose other members send their parts to this one.
static int add_host(plan_builder *b, plan_value v, int *from) {
    const plan_request *r = b->request;
    for (int i = 0; i < r->host_size; i++)
        from[i] = i == r->rank % r->host_size ? INPUT_OWN : plan_receive(b, plan_on_host(r, i), v);
    v.is_partial = true;
    return plan_add(b, from, r->host_size, v);
}

// The sum over all hosts; |own| is that of this host.
static int add_hosts(plan_builder *b, plan_value v, int own, int *from) {
    const plan_request *r = b->request;
    plan_value partial = v;
    partial.is_partial = true;
    for (int h = 0; h < plan_host_count(r); h++)
        from[h] = h == host_of(r, r->rank) ? own : plan_receive(b, plan_across(r, h), partial);
    return plan_add(b, from, plan_host_count(r), v);
}

// A member adds, over its host, the shares of all members that have its place.
static void reduce_scatter(plan_builder *b) {
    const plan_request *r = b->request;
    int *from = open_steps(b), own = INPUT_OWN;
    if (!from) return;
    for (int h = 1; h <= plan_host_count(r); h++) {
        for (int d = 1; d < r->host_size; d++) {
            int place = plan_other_place(r, d), to = plan_other_host(r, h) * r->host_size + place;
            plan_send(b, plan_on_host(r, place), INPUT_OWN, plan_share_of(r, to));
        }
        int to = plan_across(r, plan_other_host(r, h));
        plan_value share = plan_share_of(r, to);
        int sum = add_host(b, share, from);
        share.is_partial = true;
        if (to == r->rank)
            own = sum;
        else
            plan_send(b, to, sum, share);
    }
    plan_value share = plan_share_of(r, r->rank);
    plan_put_out(b, add_hosts(b, share, own, from), share);
    mem_free(from);
}

// The member with the root's place adds for its host, in chunks, which the root adds.
static void reduce(plan_builder *b) {
    const plan_request *r = b->request;
    plan_value whole = plan_whole(b);
    int count = plan_chunk_count(r, whole), *from = open_steps(b);
    for (int c = 0; from && c < count; c++) {
        plan_value chunk = plan_cut(r, whole, c, count);
        if (!has_place_of_root(r)) {
            plan_send(b, plan_on_host(r, r->root % r->host_size), INPUT_OWN, chunk);
            continue;
        }
        int sum = add_host(b, chunk, from);
        plan_value partial = chunk;
        partial.is_partial = true;
        if (r->rank == r->root)
            plan_put_out(b, add_hosts(b, chunk, sum, from), chunk);
        else
            plan_send(b, r->root, sum, partial);
    }
    mem_free(from);
}

void plan_hosts_values(plan_builder *b) {
    operation o = b->request->operation;
    bool adds = o == OPERATION_REDUCE || o == OPERATION_REDUCE_SCATTER;
    if (!plan_has_hosts(b->request) || (adds && !plan_adds_by_host(b->request))) {
        plan_flat(b);
        return;
    }
    switch (o) {
    case OPERATION_BROADCAST: broadcast(b); break;
    case OPERATION_REDUCE: reduce(b); break;
    case OPERATION_REDUCE_SCATTER: reduce_scatter(b); break;
    default: all_gather(b);
    }
}
