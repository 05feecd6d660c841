// Gradients that passes of a caller have left on this worker, for the functions it calls.
#ifndef DISTRIBUTED_AUTOGRAD_GRADIENTS_H
#define DISTRIBUTED_AUTOGRAD_GRADIENTS_H

#include "call/registry.h"
#include <gradwire/autograd.h>

// What gw_grad gives in |s|, the scope of a body, comes from there by itself. This puts the gradients that |s| has now,
// changed by gw_clip_grad_norm or grads_replace, back in their place, for the caller's next calls.
void gradients_keep(gw_scope *s);

// What workers ask each other for passes, and for gradients of references.
extern const function gradient_functions[];

#endif
