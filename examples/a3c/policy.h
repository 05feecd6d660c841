// Actor and critic: what to do in a state, and what the state is worth.
#ifndef POLICY_H
#define POLICY_H

#include "task.h"

#include <gradwire.h>

gw_module *policy_open(gw_scope *s, const task *t);

// For each of N states: an action, by chance or, if |greedy|, the likeliest; and the value. states:
// N S.
typedef struct decision {
    const float *actions, *values;  // N each, living as long as the scope
} decision;
decision policy_decide(gw_scope *s, const task *t, gw_module *policy, gw_tensor *states,
                       bool greedy);

// What the actor did, and how it turned out. All tensors: N, but states: N S.
typedef struct experience {
    gw_tensor *states, *actions, *advantages, *returns;
} experience;

// Actions that turned out better than expected shall become likelier, and values become what they
// turned out to be.
gw_tensor *policy_loss(gw_scope *s, const task *t, gw_module *policy, experience e);

#endif
