// Optimizers that a worker serves: its part of those of others.
#ifndef DISTRIBUTED_OPTIM_OPTIMIZERS_H
#define DISTRIBUTED_OPTIM_OPTIMIZERS_H

#include "agent/agent.h"

typedef struct optimizers optimizers;

extern const service optimizer_service;

static inline optimizers *optimizers_of(const agent *a) {
    return agent_state(a, &optimizer_service);
}

// How many it serves, and how many of these are between the stage and the commit of a step: for tests.
typedef struct optimizers_counts {
    int served, staged;
} optimizers_counts;
optimizers_counts optimizers_count(optimizers *all);

#endif
