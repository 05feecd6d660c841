// The gradient of one output or leaf while its parts arrive, one from each edge that leads there.
//
// Parts are added in the order of their ordinals, which the plan of a pass fixes, and never in the order of their
// arrival. Floating addition is not associative, and the same inputs must give the same bits. A part that arrives
// before an earlier part waits.
//
// If all parts are sparse by rows, their sum is, too; if one part is dense, the sum is dense.
#ifndef AUTOGRAD_SUM_H
#define AUTOGRAD_SUM_H

#include "tensor/tensor.h"

typedef struct grad_sum {
    gw_tensor *total;  // of the parts before |next|, counted; NULL while all were without gradient
    uint32_t next;     // ordinal of the part to add next
    struct grad_part *later;  // parts behind the next one, ascending
} grad_sum;

// Adds part |ordinal|, each exactly once. NULL: no gradient arrived along that edge. |part| is
// borrowed. False without memory, with |s| failed.
bool grad_sum_add(gw_scope *s, grad_sum *g, uint32_t ordinal, gw_tensor *part);

void grad_sum_fini(grad_sum *g);

// Whether |x| is dense, and only the holder of this one count can see its values.
bool grad_is_own(const gw_tensor *x);

// a + b: into |a| if only the caller can see it, else a new tensor. Takes the caller's count on |a|
// and returns one; NULL without memory, with |s| failed and the count on |a| released.
gw_tensor *grad_plus(gw_scope *s, gw_tensor *a, gw_tensor *b);

#endif
