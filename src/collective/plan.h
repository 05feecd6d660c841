// Plans: what one member of a group does in one collective, as data.
//
// A plan is a list of steps, of which each sends a value, receives one, or makes one of others. A
// step runs once the values that it reads are there; which those are, the plan says, and nobody
// else. Steps of two members match by their order: the k-th value that a plan sends to a member is
// the k-th that that member's plan receives from this one. So a plan needs no messages but values,
// and it can be checked without any: plan_test.c runs the plans of all members with symbols for
// numbers.
//
// Sums are always the same: with p the largest power of two that is not above the count of members,
// y[i] = x[i] + x[i + p] where there is one; then pairs (0, 1), (2, 3), ... of y are added, and
// pairs of those, to the end. Every plan gives these bits, whatever the size, on every member.
//
// Ownership: a plan owns its arrays. Threads: constant once it is made.
#ifndef COLLECTIVE_PLAN_H
#define COLLECTIVE_PLAN_H

#include <gradwire/status.h>

typedef enum operation {
    OPERATION_ALL_REDUCE,
    OPERATION_REDUCE,          // the root has the sum
    OPERATION_BROADCAST,       // what the root brings
    OPERATION_ALL_GATHER,      // of each member what it brings, in the order of ranks
    OPERATION_GATHER,          // the same, at the root
    OPERATION_SCATTER,         // the root brings an item for each member
    OPERATION_REDUCE_SCATTER,  // each member has its elements of the sum
    OPERATION_ALL_TO_ALL,      // each member brings an item for each
    OPERATION_BARRIER,         // nothing, but all have come
    OPERATION_COUNT
} operation;

typedef enum plan_kind {
    PLAN_AUTO,      // by the table of choices
    PLAN_FLAT,      // everything to whom it is for, in one step
    PLAN_DIRECT,    // slice j to member j, which adds and sends the sum back
    PLAN_DOUBLING,  // partial sums of pairs, pairs of pairs, ...
    PLAN_TREE,      // binomial, from the root or to it
    PLAN_CHAIN,     // from member to member, from the root or to it, in pieces
    PLAN_HALVING,   // sums of halves, halves of these, ..., and back
    PLAN_HOSTS,     // inside each host, then between hosts, then inside each host
    // Members meet, and then the backend of the group carries the values: see collective/backend.h.
    PLAN_BACKEND,
    PLAN_BACKEND_ADDS,  // and adds them
    PLAN_KIND_COUNT
} plan_kind;

typedef enum step_kind {
    STEP_SEND,     // its one input goes to |peer|
    STEP_RECEIVE,  // a value comes from |peer|
    // The sum of its inputs, which are in the order of their members (or subtrees). Either all of
    // them are partial sums or none is. With one input it widens that to a partial sum, or, in a
    // group of one member, is all there is to reduce.
    STEP_ADD,
    // Its inputs, which are pieces of the result that follow one another there: one value of them.
    STEP_JOIN,
} step_kind;

enum { PLAN_PIECES = 16 };  // that what a root gives to all is cut into, by rows

// Whether it makes a value of others.
static inline bool step_works(step_kind kind) {
    return kind == STEP_ADD || kind == STEP_JOIN;
}

// What a step reads: the value that an earlier step has made, or what this member brings itself. It
// reads the elements that it has itself of those that its input has.
enum { INPUT_OWN = -1 };

typedef struct plan_step {
    step_kind kind;
    int peer;
    // In |inputs| of the plan. A STEP_ADD has one for each member, or one or two: then its inputs and
    // its value may be partial sums.
    int first_input, input_count;
    // Of a reduction: the elements of the tensor that the value has. Of a chain's broadcast: which of
    // the pieces; the first one of what cannot be cut is the whole, the others are nothing. Of other
    // operations 0 and the whole.
    uint64_t first, count;
    // Of a value that this member brings for others (scatter, all_to_all): for whom; else -1.
    int item;
    // Whether the value is not rounded to the dtype yet: a partial sum, in f32 if the dtype is a half.
    bool is_partial;
} plan_step;

// What makes up the result, in this order: a step's value, or INPUT_OWN.
typedef struct plan_output {
    int step;
    uint64_t first, count;  // as of a step; of INPUT_OWN, too
    int item;
} plan_output;

typedef struct plan {
    plan_kind kind;
    plan_step *steps;
    int *inputs;  // steps, or INPUT_OWN
    plan_output *outputs;
    int step_count, input_count, output_count;
} plan;

typedef struct plan_request {
    operation operation;
    plan_kind kind;  // the same for all members
    int member_count, rank, root;
    uint64_t elements;     // of a reduction's tensor; 0 for other operations
    size_t element_bytes;  // of one
    const uint64_t
        *shares;  // of reduce_scatter: elements for each member, which sum up to |elements|
    // Members of each host, if all are as many, one behind the other, and a power of two; 0: it is
    // not so, or not known.
    int host_size;
} plan_request;

// NO_MEMORY. |kind| exists for the operation, or is PLAN_AUTO: what plan_choose takes. A member that
// has nothing to do has a plan without steps. To be followed by plan_fini, also on failure.
gw_status plan_init(plan *p, const plan_request *request, gw_error *error);
void plan_fini(plan *p);

// The plan that the table of choices takes: never PLAN_AUTO. |bytes| of what is reduced, or of what
// the root brings; 0 where members do not know it. |host_size| as in a request. GW_COLLECTIVE=all_reduce:direct,barrier:flat in
// the environment, which is read once, chooses otherwise.
plan_kind plan_choose(operation o, int member_count, uint64_t bytes, int host_size);
// In this process |kind| is what is taken for |o|, as GW_COLLECTIVE says it; PLAN_AUTO: the table's.
// For measurements, before collectives are under way.
void plan_prefer(operation o, plan_kind kind);
// Whether there is such a plan for the operation.
bool plan_exists(operation o, plan_kind kind);
const char *plan_kind_name(plan_kind kind);  // "direct"
const char *operation_name(operation o);     // "all_reduce"

#endif
