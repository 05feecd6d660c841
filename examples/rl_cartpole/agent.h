// The agent: holds the policy, answers the observers, and learns from their rewards.
#ifndef AGENT_H
#define AGENT_H

#include "../common/cartpole.h"
#include <gradwire.h>

// The steps of one observer in this episode.
typedef struct track {
    gw_rref *observer;
    int action_count, reward_count;
    gw_tensor *log_probs[CARTPOLE_STEPS_MAX];  // of the actions taken
    double rewards[CARTPOLE_STEPS_MAX];
} track;

typedef struct agent {
    gw_scope *own, *episode;  // lives as long as the agent, as the graph of one episode
    gw_module *policy;        // state, N 4 -> probabilities of the actions, N 2
    gw_optimizer *optimizer;
    track *tracks;  // one for each observer
    int track_count;
    double gamma;
    double running_reward;  // reward of the worst observer, smoothed
} agent;

// Runs an episode on all observers and waits for them. |me| refers to |self|.
void agent_run_episode(gw_scope *s, agent *self, gw_rref *me);

// Learns from the episode, then forgets it. Returns the least reward of an observer.
double agent_finish_episode(gw_scope *s, agent *self);

// Steps taken by all observers in the episode that has just been run.
int agent_steps(const agent *self);

#endif
