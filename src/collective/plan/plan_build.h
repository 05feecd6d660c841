// Shared by generators of plans: appending steps, and cutting elements into slices.
#ifndef COLLECTIVE_PLAN_PLAN_BUILD_H
#define COLLECTIVE_PLAN_PLAN_BUILD_H

#include "collective/plan/plan.h"

typedef struct plan_builder {
    plan *plan;
    const plan_request *request;
    int step_room, input_room, output_room;
    bool is_out_of_memory;  // later steps are lost
} plan_builder;

// A value, as in a step.
typedef struct plan_value {
    uint64_t first, count;
    int item;
    bool is_partial;
} plan_value;

// Each returns the number of the step.
int plan_send(plan_builder *b, int peer, int input, plan_value v);
int plan_receive(plan_builder *b, int peer, plan_value v);
int plan_add(plan_builder *b, const int *inputs, int count, plan_value v);
int plan_join(plan_builder *b, const int *inputs, int count, plan_value v);

// |step| or INPUT_OWN is the next piece of the result.
void plan_put_out(plan_builder *b, int step, plan_value v);

// All elements of a reduction, or the whole value.
static inline plan_value plan_whole(const plan_builder *b) {
    return (plan_value){ .count = b->request->elements, .item = -1 };
}

// Part |j| of |count| of |v|, cut along cache lines. The last parts may be empty.
plan_value plan_cut(const plan_request *r, plan_value v, int j, int count);
// The slice of member |j| of a tensor that is cut into one slice for each member.
plan_value plan_slice(const plan_request *r, int j);
// The rows of member |j| of those with sizes of their own.
plan_value plan_share_of(const plan_request *r, int j);
// |elements| rounded up to whole cache lines.
uint64_t plan_round_to_lines(const plan_request *r, uint64_t elements);
// The number of chunks of |v|, at most PLAN_CHUNKS_MAX, so that some are added while others are under way; 1 for an
// empty value.
int plan_chunk_count(const plan_request *r, plan_value v);

enum { PLAN_CHUNK_BYTES = 512 << 10, PLAN_CHUNKS_MAX = 256 };

// The member |distance| behind this one, in a circle.
static inline int plan_behind(const plan_request *r, int distance) {
    return (r->rank + distance) % r->member_count;
}

// Counted from the root on, as along a chain: the member at |place|, and the place of |member|.
static inline int plan_member_at(const plan_request *r, int place) {
    return (r->root + place) % r->member_count;
}

static inline int plan_place_of(const plan_request *r, int member) {
    return (member - r->root + r->member_count) % r->member_count;
}

// ---- Hosts, with members on several -------------------------------------------------------------

static inline bool plan_has_hosts(const plan_request *r) {
    return r->host_size > 1 && r->host_size < r->member_count &&
           r->member_count % r->host_size == 0;
}

static inline int plan_host_count(const plan_request *r) {
    return r->member_count / r->host_size;
}

// Member |place| of this member's host; the member of host |host| with the place of this one.
static inline int plan_on_host(const plan_request *r, int place) {
    return r->rank - r->rank % r->host_size + place;
}

static inline int plan_across(const plan_request *r, int host) {
    return host * r->host_size + r->rank % r->host_size;
}

// The places, and hosts, behind this member's, in a circle.
static inline int plan_other_place(const plan_request *r, int distance) {
    return (r->rank % r->host_size + distance) % r->host_size;
}

static inline int plan_other_host(const plan_request *r, int distance) {
    return (r->rank / r->host_size + distance) % plan_host_count(r);
}

// ---- Orders of addition -------------------------------------------------------------------------

// The largest power of two that is not above |count|.
int plan_power(int count);

// Whether the members of each host are a subtree of the order of additions.
static inline bool plan_adds_by_host(const plan_request *r) {
    return plan_has_hosts(r) && plan_power(r->host_size) == r->host_size &&
           plan_power(r->member_count) == r->member_count;
}

// Whether a member without a partner above the power of two widens its input: other members have partial sums at that
// time. A group of one has no other step.
static inline bool plan_widens(const plan_request *r) {
    return r->member_count == 1 || r->member_count > plan_power(r->member_count);
}

// ---- Generators, as in plan_exists --------------------------------------------------------------
void plan_flat(plan_builder *b);
void plan_direct(plan_builder *b);
void plan_doubling(plan_builder *b);
void plan_tree(plan_builder *b);
void plan_chain(plan_builder *b);
void plan_halving(plan_builder *b);
void plan_relay(plan_builder *b);  // gather and scatter, along a chain or a tree
void plan_hosts(plan_builder *b);
void plan_hosts_values(plan_builder *b);  // of operations that are not one sum for all
void plan_barrier(plan_builder *b);       // an empty value between all pairs

#endif
