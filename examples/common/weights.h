// A model's numbers as lists of tensors, in the order of gw_parameters: the form in which weights
// and gradients travel where no backward pass is to follow them.
#ifndef WEIGHTS_H
#define WEIGHTS_H

#include <gradwire.h>

// The parameters of |model|, as plain numbers.
gw_list *weights_of(gw_scope *s, gw_module *model);

// The sum of all their numbers.
double weights_sum(gw_scope *s, gw_module *model);

// One number for all their bits (FNV-1a).
uint64_t weights_hash(gw_scope *s, gw_module *model);

// Copies |weights| into the parameters of |model|. INVALID if they are not as many, or of other
// shapes.
void weights_load(gw_scope *s, gw_module *model, gw_list *weights);

// What backward passes in |s| have left for each parameter of |model|.
gw_list *gradients_of(gw_scope *s, gw_module *model);

// Adds |gradients|, which somebody else computed, to those that |s| has, for gw_optimizer_step.
void gradients_add(gw_scope *s, gw_module *model, gw_list *gradients);

#endif
