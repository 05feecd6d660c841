// What the passes of one scope of another worker have left here: gradients of each pass, which are summed as the passes are
// over. So many passes of a scope take the memory of one, and a few that are not over.
//
// Without the loop lock.
#ifndef DISTRIBUTED_AUTOGRAD_ACCUMULATED_H
#define DISTRIBUTED_AUTOGRAD_ACCUMULATED_H

#include "distributed/autograd/distributed_pass.h"

typedef struct kept {
    agent *agent;
    int initiator;
    uint64_t scope;
} kept;

// Both of each pair counted.
typedef struct grad_pairs {
    gw_tensor_grad *items;
    int count;
} grad_pairs;

void grad_pairs_fini(grad_pairs *p);

// Of the |index|th pass, in the order in which they began; false if there is none, or with |work| failed.
bool kept_copy(gw_scope *work, kept k, int index, grad_pairs *out);

// Adds them to what |s| has; |work| has failed if that fails. Takes |p|.
void kept_add(gw_scope *s, gw_scope *work, grad_pairs *p);
bool kept_take(gw_scope *s, grad_pairs *out);  // all that |s| has; false without memory

// The first pass has |sum| from now on, the others nothing. |*sum| is NULL then; false without memory.
bool kept_exchange(kept k, grad_pairs *sum);

// Sums passes that are over: each goes into the one before it, in the order in which they began.
void kept_fold(kept k);

#endif
