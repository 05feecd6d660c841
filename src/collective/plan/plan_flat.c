// Flat plans: every value is sent directly to its receivers, in one step. A member starts with the one behind it, so
// that not all send to the same one at once.
#include "collective/plan/plan_build.h"

#include "base/mem.h"

// The steps that received from each member, by rank: INPUT_OWN at this member's.
static int *receive_from_all(plan_builder *b, plan_value v) {
    const plan_request *r = b->request;
    int *from = mem_alloc((size_t)r->member_count * sizeof *from);
    if (!from) {
        b->is_out_of_memory = true;
        return NULL;
    }
    from[r->rank] = INPUT_OWN;
    for (int d = 1; d < r->member_count; d++) {
        int peer = plan_behind(r, r->member_count - d);
        from[peer] = plan_receive(b, peer, v);
    }
    return from;
}

static void send_to_all(plan_builder *b, plan_value v) {
    for (int d = 1; d < b->request->member_count; d++)
        plan_send(b, plan_behind(b->request, d), INPUT_OWN, v);
}

// The sum of the values of all members.
static void add_all(plan_builder *b, plan_value v) {
    int *from = receive_from_all(b, v);
    if (!from) return;
    plan_put_out(b, plan_add(b, from, b->request->member_count, v), v);
    mem_free(from);
}

static void put_out_all(plan_builder *b, plan_value own) {
    int *from = receive_from_all(b, plan_whole(b));
    if (!from) return;
    for (int i = 0; i < b->request->member_count; i++)
        plan_put_out(b, from[i], i == b->request->rank ? own : plan_whole(b));
    mem_free(from);
}

static void reduce(plan_builder *b) {
    const plan_request *r = b->request;
    if (r->rank == r->root)
        add_all(b, plan_whole(b));
    else
        plan_send(b, r->root, INPUT_OWN, plan_whole(b));
}

static void broadcast(plan_builder *b) {
    const plan_request *r = b->request;
    if (r->rank == r->root) {
        send_to_all(b, plan_whole(b));
        plan_put_out(b, INPUT_OWN, plan_whole(b));
    } else {
        plan_put_out(b, plan_receive(b, r->root, plan_whole(b)), plan_whole(b));
    }
}

static void gather(plan_builder *b) {
    const plan_request *r = b->request;
    if (r->rank == r->root)
        put_out_all(b, plan_whole(b));
    else
        plan_send(b, r->root, INPUT_OWN, plan_whole(b));
}

static plan_value item_for(int member) {
    return (plan_value){ .item = member };
}

static void send_items(plan_builder *b) {
    for (int d = 1; d < b->request->member_count; d++) {
        int peer = plan_behind(b->request, d);
        plan_send(b, peer, INPUT_OWN, item_for(peer));
    }
}

static void scatter(plan_builder *b) {
    const plan_request *r = b->request;
    if (r->rank == r->root) {
        send_items(b);
        plan_put_out(b, INPUT_OWN, item_for(r->rank));
    } else {
        plan_put_out(b, plan_receive(b, r->root, plan_whole(b)), plan_whole(b));
    }
}

static void reduce_scatter(plan_builder *b) {
    const plan_request *r = b->request;
    for (int d = 1; d < r->member_count; d++) {
        int peer = plan_behind(r, d);
        plan_send(b, peer, INPUT_OWN, plan_share_of(r, peer));
    }
    add_all(b, plan_share_of(r, r->rank));
}

void plan_barrier(plan_builder *b) {
    send_to_all(b, plan_whole(b));
    mem_free(receive_from_all(b, plan_whole(b)));
}

void plan_flat(plan_builder *b) {
    switch (b->request->operation) {
    case OPERATION_ALL_REDUCE:
        send_to_all(b, plan_whole(b));
        add_all(b, plan_whole(b));
        break;
    case OPERATION_REDUCE: reduce(b); break;
    case OPERATION_BROADCAST: broadcast(b); break;
    case OPERATION_ALL_GATHER:
        send_to_all(b, plan_whole(b));
        put_out_all(b, plan_whole(b));
        break;
    case OPERATION_GATHER: gather(b); break;
    case OPERATION_SCATTER: scatter(b); break;
    case OPERATION_REDUCE_SCATTER: reduce_scatter(b); break;
    case OPERATION_ALL_TO_ALL:
        send_items(b);
        put_out_all(b, item_for(b->request->rank));
        break;
    default: plan_barrier(b);
    }
}
