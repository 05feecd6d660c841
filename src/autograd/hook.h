// Hooks: functions of the program that read or replace the gradient of a tensor.
#ifndef AUTOGRAD_HOOK_H
#define AUTOGRAD_HOOK_H

#include "tensor/tensor.h"
#include <gradwire/autograd.h>

// In the order in which they were added. The hooks of a result belong to its node, which may
// outlive it. One without a function, the first of a leaf, is the leaf's gate (gate.c).
typedef struct grad_hook {
    struct grad_hook *next;
    gw_grad_hook *run;
    void *context;
    int number;
    uint16_t output;  // of the node; 0 of a leaf
} grad_hook;

void grad_hooks_free(grad_hook *first);

// Applies all hooks of |output| to |*gradient|, which is counted. False with |s| failed.
bool grad_hooks_run(gw_scope *s, const grad_hook *first, uint16_t output, gw_tensor **gradient);

#endif
