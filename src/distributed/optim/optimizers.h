// The service of optimizers whose parameters this worker owns.
#ifndef DISTRIBUTED_OPTIM_OPTIMIZERS_H
#define DISTRIBUTED_OPTIM_OPTIMIZERS_H

#include "agent/state/agent.h"

typedef struct optimizers optimizers;

extern const service optimizer_service;
extern const service_data optimizer_data;

static inline optimizers *optimizers_of(const agent *a) {
    return agent_state(a, &optimizer_data);
}

// For tests: how many optimizers have parameters here, how many of these have a prepared step, and
// how many were fenced by a query of another owner.
typedef struct optimizers_counts {
    int owned, prepared, fenced;
} optimizers_counts;
optimizers_counts optimizers_count(optimizers *all);

#endif
