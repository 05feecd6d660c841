// Gradients that passes of a caller have left on this worker, for the functions it calls.
#ifndef DISTRIBUTED_AUTOGRAD_GRADIENTS_H
#define DISTRIBUTED_AUTOGRAD_GRADIENTS_H

#include "autograd/grads.h"
#include "call/registry.h"

// gw_grad in the scope of a body finds them through this table.
extern const remote_grads gradients_remote;

// Puts the gradients that |s|, the scope of a body, has now,
// changed by gw_clip_grad_norm or grads_replace, back in their place, for the caller's next calls.
void gradients_keep(gw_scope *s);

// What workers ask each other for passes, and for gradients of references.
extern const function gradient_functions[];

#endif
