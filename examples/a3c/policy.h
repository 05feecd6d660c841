// Actor and critic: the policy of actions in a state, and the value of the state.
#ifndef POLICY_H
#define POLICY_H

#include "task.h"

#include <gradwire.h>

gw_module *policy_open(gw_scope *s, const task *t);

// For each of N states: an action (random, or the likeliest if |greedy|) and the value. states: N S.
typedef struct decision {
    const float *actions, *values;  // N each, living as long as the scope
} decision;
decision policy_decide(gw_scope *s, const task *t, gw_module *policy, gw_tensor *states,
                       bool greedy);

// The actions of the actor and their results. All tensors: N, but states: N S.
typedef struct experience {
    gw_tensor *states, *actions, *advantages, *returns;
} experience;

// The loss raises the probability of actions with a positive advantage, and moves values to the measured returns.
gw_tensor *policy_loss(gw_scope *s, const task *t, gw_module *policy, experience e);

#endif
