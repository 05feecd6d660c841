// A body sees the accumulated gradients of its caller's scope through this file.
#ifndef DISTRIBUTED_AUTOGRAD_GRADIENTS_H
#define DISTRIBUTED_AUTOGRAD_GRADIENTS_H

#include "autograd/grads.h"
#include "call/registry.h"

// gw_grad in the scope of a body finds the gradients through this table.
extern const remote_grads gradients_remote;

// Stores the gradients of |s|, the scope of a body, as the accumulated ones of its caller, so that
// later calls of the caller use the result of gw_clip_grad_norm or grads_replace.
void gradients_keep(gw_scope *s);

// The built-in functions gw.marks and gw.grad.
extern const function gradient_functions[];

#endif
