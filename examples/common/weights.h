// A model's numbers as lists of tensors, in the order of gw_parameters: the form in which weights and gradients are
// sent where no backward pass follows them.
#ifndef WEIGHTS_H
#define WEIGHTS_H

#include <gradwire.h>

// The parameters of |model|, as plain numbers.
gw_list *weights_of(gw_scope *s, gw_module *model);

// The sum of all its parameters.
double weights_sum(gw_scope *s, gw_module *model);

// One hash of all bits (FNV-1a).
uint64_t weights_hash(gw_scope *s, gw_module *model);

// Copies |weights| into the parameters of |model|. Fails with INVALID if their number or shapes differ.
void weights_load(gw_scope *s, gw_module *model, gw_list *weights);

// The gradients that backward passes in |s| have accumulated for each parameter of |model|.
gw_list *gradients_of(gw_scope *s, gw_module *model);

// Adds |gradients| of another worker to the gradients in |s|, for gw_optimizer_step.
void gradients_add(gw_scope *s, gw_module *model, gw_list *gradients);

#endif
