#include "task.h"

#include <string.h>

static void cart_reset(environment *e, const float noise[NOISE_COUNT]) {
    cartpole_reset(&e->is.cart, noise);
    e->score = 0;
}

static void cart_observe(const environment *e, float *out_state) {
    cartpole_observe(&e->is.cart, out_state);
}

static double cart_step(environment *e, float action, bool *out_end, bool *out_cut) {
    double reward = cartpole_step(&e->is.cart, (int)action, out_end);
    *out_cut = *out_end && e->is.cart.steps >= CARTPOLE_STEPS_MAX;
    e->score += reward;
    return reward;
}

static void swing_reset(environment *e, const float noise[NOISE_COUNT]) {
    pendulum_reset(&e->is.swing, noise);
    e->score = 0;
}

static void swing_observe(const environment *e, float *out_state) {
    pendulum_observe(&e->is.swing, out_state);
    out_state[2] /= 4;  // towards the size of the others
}

static double swing_step(environment *e, float action, bool *out_end, bool *out_cut) {
    double reward = pendulum_step(&e->is.swing, action * PENDULUM_TORQUE_MAX, out_end);
    *out_cut = *out_end;
    e->score += reward;
    return reward;
}

static const task tasks[] = {
    { .name = "cartpole",
      .state_size = 4,
      .action_count = 2,
      .reset = cart_reset,
      .observe = cart_observe,
      .step = cart_step,
      .reward_scale = 0.1,
      .goal = CARTPOLE_REWARD_THRESHOLD,
      .gamma = 0.99,
      .lambda = 0.95,
      .lr = 3e-3,
      .entropy = 0.003,
      .environments = 4,
      .rollout = 16,
      .steps = 300000 },
    { .name = "pendulum",
      .state_size = 3,
      .reset = swing_reset,
      .observe = swing_observe,
      .step = swing_step,
      .reward_scale = 0.1,
      .goal = -200,
      .gamma = 0.9,
      .lambda = 0.9,
      .lr = 1e-3,
      .environments = 8,
      .rollout = 16,
      .steps = 1000000 },
};

const task *task_find(const char *name) {
    for (size_t i = 0; i < sizeof tasks / sizeof *tasks; i++)
        if (strcmp(tasks[i].name, name) == 0) return &tasks[i];
    return NULL;
}
