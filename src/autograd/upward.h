// What this room asks of the room of distributed autograd, which provides it.
#ifndef AUTOGRAD_UPWARD_H
#define AUTOGRAD_UPWARD_H

#include "autograd/pass.h"

// Makes the planned pass |p| a pass across workers, from |roots| with |parts| on, and gives its gradients to the scope of
// |p|, or fails that. |p| is the caller's to close.
void backward_across(pass *p, gw_tensor *const *roots, const part *parts, int count);

// Gives |s|, the scope of a body, the gradients that passes of its caller have left on this worker; nothing if there are
// none, or |s| is no such scope.
void grads_import(gw_scope *s);

#endif
