// One backward pass over the part of the graph that lies in this process.
//
//     pass p;
//     pass_open(&p, s, options);
//     part root = pass_expect(&p, edge);  // the gradient of the loss, which is delivered from outside
//     if (pass_plan(&p) && pass_deliver(&p, root, gradient) && pass_run(&p)) pass_commit(&p);
//     pass_close(&p);
//
// The plan walks from the expected edges, keeps the nodes that lead to a wanted leaf, counts for every
// target (a node or a leaf) the parts of its gradient that will arrive, and gives each part its
// ordinal. pass_run runs nodes whose parts have all arrived until none is ready. Counts and gradients
// are the pass's, never the node's, so two passes may walk one graph.
//
// Nodes and gates may answer later (late.h, gate.h). pass_run runs other ready nodes; while
// |late_count| is not 0, the caller waits until an answer has arrived, and calls it again. The caller chooses how to
// wait: no thread waits if |on_answer| runs the pass again.
//
// A distributed pass expects one edge for each tensor that was sent to another worker, delivers
// parts as they are received, in any order, and calls pass_run after each; the plan, and so the
// bits, are the same.
#ifndef AUTOGRAD_PASS_H
#define AUTOGRAD_PASS_H

#include "autograd/gate.h"
#include "autograd/index.h"
#include "autograd/node.h"
#include "autograd/sum.h"
#include <gradwire/autograd.h>

enum { PASS_SMALL = 12, PART_NONE = UINT32_MAX };

// One part of one slot's gradient.
typedef struct part {
    uint32_t slot;     // PART_NONE: the part is not needed
    uint32_t ordinal;  // set by the plan
} part;

// A node or a leaf. Leaves have one slot and no parts of their own.
typedef struct target {
    void *key;  // struct node *, or the leaf
    bool is_leaf;
    bool needed;          // leads to a wanted input, or is one
    bool runs;            // a node of whose inputs at least one is needed
    bool gated;           // a leaf whose gradient is its gate's
    uint32_t missing;     // parts that have not arrived
    uint32_t first_slot;  // one slot per output
    uint32_t first_part;  // one part per edge: where its gradient goes
} target;

// The gradient of one output, or of a leaf.
typedef struct slot {
    grad_sum sum;
    uint32_t target;
    uint32_t outside;  // parts from outside; their ordinals are first
    uint32_t count;    // parts in all
    bool wanted;       // for itself, as one of the pass's inputs
} slot;

typedef struct pass {
    // arguments
    gw_scope *scope;  // gets the gradients, or the error
    gw_backward_options options;

    bool is_inside;  // it was opened inside a hook or a derivative of another one
    bool keeps;      // leaves the saved values of the graph alone until pass_forget

    // the plan
    const node_class *remote;  // of a node that leads to another worker, if the plan has any
    target *targets;           // in the order in which the walk visits them
    uint32_t target_count, target_capacity;
    part *parts;  // by first_part
    uint32_t part_count, part_capacity;
    slot *slots;  // by first_slot
    uint32_t slot_count, slot_capacity;
    uint32_t *ready;  // targets all of whose parts have arrived; the last is next
    uint32_t ready_count, ready_capacity;
    pointer_index numbers;  // of targets

    // progress
    gw_scope *work;  // where derivatives run; nothing is recorded in it

    // late answers
    gate_pass *gates;
    bool holds;                // gates get gradients when nothing is |left|
    uint32_t left;             // with gates: needed targets that have not run
    uint32_t late_count;       // that have not arrived, or have not been taken
    list_node lates, arrived;  // of late, with the loop lock
    void (*on_answer)(
        struct pass *p);  // with the loop lock, when an answer has arrived; may be NULL
    void *runner;         // for |on_answer|

    // memory for small graphs, which allocate nothing
    target small_targets[PASS_SMALL];
    part small_parts[PASS_SMALL];
    slot small_slots[PASS_SMALL];
    uint32_t small_ready[PASS_SMALL];
} pass;

void pass_open(pass *p, gw_scope *s, gw_backward_options options);
void pass_close(pass *p);

// Before the plan: announces a part that the caller will deliver along |e|. |e| is borrowed.
part pass_expect(pass *p, edge e);

// These return false once the pass has failed; then p->scope has failed, too.
bool pass_plan(pass *p);
bool pass_deliver(pass *p, part to, gw_tensor *gradient);  // NULL: no gradient will arrive
bool pass_run(pass *p);
// All parts and answers have arrived: gives the gradients to the scope, all or none.
bool pass_commit(pass *p);

// Instead of pass_commit: gives the gradients to the caller, in an array to be freed by mem_free;
// leaves are borrowed. Those from |out_replaces| on replace earlier ones, as in grads_add_and_replace.
bool pass_take(pass *p, gw_tensor_grad **out_pairs, int *out_count, int *out_replaces);

// Hands the error of the work to the scope of the pass; |what| names the failed step. Returns false.
bool pass_fail_from_work(pass *p, const char *what);

// Frees the saved values of the nodes of a pass that |keeps| and does not retain the graph.
void pass_forget(pass *p);

// The node of target |i| if it leads to another worker, else NULL.
static inline const node *pass_remote_node(const pass *p, uint32_t i) {
    const target *t = &p->targets[i];
    const node *n = t->is_leaf || !t->needed ? NULL : t->key;
    return n && node_is_remote(n) ? n : NULL;
}
// Whether a gradient of |output| of target |i| will arrive.
static inline bool pass_reaches(const pass *p, uint32_t i, uint32_t output) {
    return p->slots[p->targets[i].first_slot + output].count > 0;
}

// The bytes of the leaves that get gradients: an estimate of the work.
uint64_t pass_leaf_bytes(const pass *p);

// The gradient that the pass begins with: |given|, or ones if that is NULL, in the dtype of |root|;
// owned by p->work.
gw_tensor *pass_first_gradient(pass *p, gw_tensor *root, gw_tensor *given);

#endif
