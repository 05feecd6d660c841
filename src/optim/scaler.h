// Scalers, for the owners of an optimizer's parameters.
#ifndef OPTIM_SCALER_H
#define OPTIM_SCALER_H

#include "optim/optimizer.h"
#include <gradwire/amp.h>

// Multiplies the gradients that |s| has of this worker's parameters of |o| by |by|, all or none.
// Returns whether one was not finite.
bool scaler_unscale_part(gw_scope *s, const gw_optimizer *o, double by);

#endif
