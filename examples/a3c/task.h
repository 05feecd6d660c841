// A task: an environment and the hyperparameters for it.
#ifndef TASK_H
#define TASK_H

#include "../common/cartpole.h"
#include "../common/pendulum.h"

#include <stdint.h>

enum { STATE_MAX = 4, NOISE_COUNT = 4 };

typedef struct environment {
    union {
        cartpole cart;
        pendulum swing;
    } is;
    double score;  // sum of the rewards of this episode
} environment;

typedef struct task {
    const char *name;
    int state_size;
    int action_count;  // to choose among; 0: one number, in which 1 is the largest torque

    void (*reset)(environment *e, const float noise[NOISE_COUNT]);
    void (*observe)(const environment *e, float *out_state);

    // Returns the reward. *out_end: the episode is over; *out_cut: it is over only because it reached the step limit.
    double (*step)(environment *e, float action, bool *out_end, bool *out_cut);

    double reward_scale;  // scales predicted values to about 1
    double goal;          // mean score that counts as solved
    double gamma, lambda, lr, entropy;
    int64_t environments, rollout, steps;
} task;

// Returns NULL if no task has this name.
const task *task_find(const char *name);

#endif
