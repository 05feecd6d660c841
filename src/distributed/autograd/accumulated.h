// Accumulated gradients: the gradients that the passes of one scope of another worker have left on this worker.
// Each pass keeps its own gradients until it is over; then they are added to those of the previous passes. So many
// passes of a scope take the memory of one pass, and of the few passes that run.
//
// Threads: without the loop lock.
#ifndef DISTRIBUTED_AUTOGRAD_ACCUMULATED_H
#define DISTRIBUTED_AUTOGRAD_ACCUMULATED_H

#include "distributed/autograd/distributed_pass.h"

typedef struct accumulated {
    agent *agent;
    int initiator;
    uint64_t scope;
} accumulated;

// Leaves and their gradients, one count on each.
typedef struct grad_pairs {
    gw_tensor_grad *items;
    int count;
    int replaces;  // those from here on replace the gradients of earlier passes
} grad_pairs;

void grad_pairs_fini(grad_pairs *p);

// Copies the gradients of the |index|th pass, in the order in which passes began. False if there is
// none, or with |work| failed.
bool accumulated_copy(gw_scope *work, accumulated k, int index, grad_pairs *out);

// Gives |s| the gradients of all passes, or fails it.
void accumulated_import(accumulated k, gw_scope *s);

// Copies all gradients that |s| has. False without memory.
bool accumulated_take(gw_scope *s, grad_pairs *out);

// Replaces the gradients of the first pass by |sum| and removes those of the other passes.
// Empties |*sum|. False without memory.
bool accumulated_exchange(accumulated k, grad_pairs *sum);

// Adds the gradients of each pass that is over to those of the pass before it, in the order in
// which the passes began.
void accumulated_fold(accumulated k);

#endif
