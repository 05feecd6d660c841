// Plans: what one member of a group does in one collective, as data.
//
// A plan is a list of steps, each of which sends a value, receives one, or makes one of others. A step runs once the
// values that it reads are present; the plan alone determines these. Steps of two members match by their order: the
// k-th value that a plan sends to a member is the k-th value that the plan of that member receives from this member. So
// a plan needs no messages except values, and can be checked without any message: plan_test.c runs the plans of all
// members with symbols for numbers.
//
// Sums are always the same: with p the largest power of two that is not above the count of members, y[i] = x[i] + x[i
// + p] where member i + p exists; then pairs (0, 1), (2, 3), ... of y are added, and pairs of those, to the end.
// Every plan gives these bits, for every size, on every member.
//
// Ownership: a plan owns its arrays. Threads: constant once it is made.
#ifndef COLLECTIVE_PLAN_PLAN_H
#define COLLECTIVE_PLAN_PLAN_H

#include <gradwire/status.h>

typedef enum operation {
    OPERATION_ALL_REDUCE,
    OPERATION_REDUCE,          // the root has the sum
    OPERATION_BROADCAST,       // the root's input
    OPERATION_ALL_GATHER,      // the input of each member, in the order of ranks
    OPERATION_GATHER,          // the same, at the root
    OPERATION_SCATTER,         // the root has an item for each member
    OPERATION_REDUCE_SCATTER,  // each member has its elements of the sum
    OPERATION_ALL_TO_ALL,      // each member has an item for each
    OPERATION_BARRIER,         // no value; ends when all have entered
    OPERATION_COUNT
} operation;

typedef enum plan_kind {
    PLAN_AUTO,    // by the table of choices
    PLAN_FLAT,    // every value directly to its receivers, in one step
    PLAN_DIRECT,  // slice j to member j, which adds and sends the sum back
    PLAN_STAR,  // slice j to member j of the first ones, the centers, which add and send the sums back
    PLAN_DOUBLING,  // partial sums of pairs, pairs of pairs, ...
    PLAN_TREE,      // binomial, from the root or to it
    PLAN_CHAIN,     // from member to member, from the root or to it, in pieces
    PLAN_HALVING,   // sums of halves, halves of these, ..., and back
    PLAN_HOSTS,     // inside each host, then between hosts, then inside each host
    // Members enter, and then the backend of the group carries the values: see collective/backend/backend.h.
    PLAN_BACKEND,
    PLAN_BACKEND_ADDS,  // the same, and adds them
    PLAN_KIND_COUNT
} plan_kind;

typedef enum step_kind {
    STEP_SEND,     // sends its one input to |peer|
    STEP_RECEIVE,  // receives a value from |peer|
    // The sum of its inputs, which are in the order of their members (or subtrees). Either all of them are partial
    // sums or none is. With one input it widens that to a partial sum, or, in a group of one member, is the whole
    // reduction.
    STEP_ADD,
    // One value of its inputs, which are consecutive pieces of the result.
    STEP_JOIN,
} step_kind;

enum { PLAN_PIECES = 16 };  // the pieces of a value that a root sends to all, cut by rows

// Whether the step makes a value of others.
static inline bool step_works(step_kind kind) {
    return kind == STEP_ADD || kind == STEP_JOIN;
}

// The input of a step: the value of an earlier step, or this member's own input. The step reads the elements of that
// input that it has itself.
enum { INPUT_OWN = -1 };

typedef struct plan_step {
    step_kind kind;
    int peer;
    // In |inputs| of the plan. A STEP_ADD has one for each member, or one or two: then its inputs and its value may
    // be partial sums.
    int first_input, input_count;
    // Of a reduction: the elements of the tensor in the value. Of a chain's broadcast: the index of the piece; the
    // first piece of a value that cannot be cut is the whole, the others are empty. Of other operations 0 and the
    // whole.
    uint64_t first, count;
    // Of an input for other members (scatter, all_to_all): its receiver; else -1.
    int item;
    // Whether the value is not yet rounded to the dtype: a partial sum, in f32 if the dtype is a half.
    bool is_partial;
} plan_step;

// The plan of a collective: the same on all members.
typedef struct plan_choice {
    plan_kind kind;
    int centers;  // of PLAN_STAR: a power of two, at most the count of members; else 0
} plan_choice;

// As one byte of a signature.
uint8_t plan_pack(plan_choice c);
bool plan_unpack(uint8_t packed, int member_count, plan_choice *out);  // false: it is no plan

// A piece of the result, in order: a step's value, or INPUT_OWN.
typedef struct plan_output {
    int step;
    uint64_t first, count;  // as in a step; also for INPUT_OWN
    int item;
} plan_output;

typedef struct plan {
    plan_kind kind;
    plan_step *steps;
    int *inputs;  // steps, or INPUT_OWN
    plan_output *outputs;
    int step_count, input_count, output_count;
} plan;

// Where the members of a group are.
typedef struct plan_place {
    // The count of members on each host, if it is the same on all hosts, a power of two, and the members of a host
    // are consecutive; the count of members if all share a host; 0: else, or unknown.
    int host_size;
    int processors;  // of the host that all members share; 0: they are on several, or unknown
} plan_place;

typedef struct plan_request {
    operation operation;
    plan_choice choice;  // the same for all members
    int member_count, rank, root;
    uint64_t elements;     // of a reduction's tensor; 0 for other operations
    size_t element_bytes;  // of one
    const uint64_t
        *shares;    // of reduce_scatter: elements for each member, which sum up to |elements|
    int host_size;  // as in a plan_place
} plan_request;

// NO_MEMORY. The chosen kind exists for the operation. A member without work has a plan without steps. Call plan_fini
// afterwards, also on failure.
gw_status plan_init(plan *p, const plan_request *request, gw_error *error);
void plan_fini(plan *p);

// The plan that the table of choices selects: never PLAN_AUTO. |bytes| of the reduced tensor, or of the root's input;
// 0 where members do not have it. GW_COLLECTIVE=all_reduce:direct,barrier:flat in the environment, which is read once,
// overrides the table.
plan_choice plan_choose(operation o, int member_count, uint64_t bytes, plan_place where);
// Selects |kind| for |o| in this process, as GW_COLLECTIVE does; PLAN_AUTO: by the table. For measurements, before
// collectives are under way.
void plan_prefer(operation o, plan_kind kind);
// Whether there is such a plan for the operation.
bool plan_exists(operation o, plan_kind kind);
const char *plan_kind_name(plan_kind kind);  // "direct"
const char *operation_name(operation o);     // "all_reduce"

#endif
