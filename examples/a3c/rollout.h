// Plays several environments concurrently, for some steps.
#ifndef ROLLOUT_H
#define ROLLOUT_H

#include "policy.h"

typedef struct player {
    const task *task;
    gw_module *policy;
    int count;
    environment *environments;
} player;

player player_open(gw_scope *s, const task *t, gw_module *policy, int64_t environments);

// Plays t->rollout steps in each environment and returns the experience. Adds the scores of ended episodes to |scores|.
experience player_rollout(gw_scope *s, player *p, gw_list *scores);

// Mean score of one episode in each of |count| new environments, with the likeliest actions.
double player_evaluate(gw_scope *s, const task *t, gw_module *policy, int count);

#endif
