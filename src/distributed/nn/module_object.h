// The owner side of remote modules: modules as objects that other workers use.
#ifndef DISTRIBUTED_NN_MODULE_OBJECT_H
#define DISTRIBUTED_NN_MODULE_OBJECT_H

#include "agent/state/service.h"
#include "call/registry.h"
#include <gradwire/module_remote.h>

// Where the forward of a layer runs: on the loop if it is cheap, as operators are, else on the
// pool.
typedef enum layer_cost {
    LAYER_BY_INPUT,    // little for each byte of its input
    LAYER_BY_WEIGHTS,  // and of its parameters
    LAYER_SLOW,        // on the pool
    LAYER_COST_COUNT
} layer_cost;

enum { MODULE_METHODS = 7 };

// The layers as classes; ends at one without a name.
extern const function layer_functions[];
extern const service module_service;

// The methods of every class of modules.
extern const function module_methods[LAYER_COST_COUNT][MODULE_METHODS];

#endif
