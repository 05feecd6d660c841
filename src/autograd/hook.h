// Hooks: functions of the program that read or replace the gradient of a tensor.
#ifndef AUTOGRAD_HOOK_H
#define AUTOGRAD_HOOK_H

#include "base/hook_list.h"
#include "tensor/tensor.h"
#include <gradwire/autograd.h>

// The hooks of a leaf, or of the node of results, which may outlive it. The kind of a hook is its output of
// the node; 0 of a leaf.
typedef struct grad_hooks {
    hook_list list;

    // of a leaf
    struct gate *gate;  // borrowed; NULL: none (gate.c)
    int number;         // among the leaves of |gate|
} grad_hooks;

static inline bool grad_hooks_any(const grad_hooks *h) {
    return h && hooks_any(&h->list);
}

// Those at |at|, made if there are none; NULL without memory.
grad_hooks *grad_hooks_get(grad_hooks **at);
void grad_hooks_free(grad_hooks *h);

// Applies all hooks of |output| to |*gradient|, which is counted. False with |s| failed.
bool grad_hooks_run(gw_scope *s, const grad_hooks *h, uint16_t output, gw_tensor **gradient);

// The gate of |leaf|, and the number of the leaf there; NULL without one.
struct gate *gate_of(const gw_tensor *leaf, int *out_leaf);

#endif
