// CartPole-v1: a pole on a cart, to be kept upright by pushing the cart left or right.
//
// Barto, Sutton and Anderson, "Neuronlike adaptive elements that can solve difficult learning
// control problems", 1983; constants and limits as OpenAI Gym publishes them: Euler steps of 0.02
// s, an episode ends when the cart is more than 2.4 from the middle, the pole more than 12 degrees
// from upright, or after 500 steps. Every step is worth 1.
#ifndef CARTPOLE_H
#define CARTPOLE_H

#include <stdbool.h>

enum { CARTPOLE_STEPS_MAX = 500 };
#define CARTPOLE_REWARD_THRESHOLD 475.0

typedef struct cartpole {
    double x, x_dot;          // cart: position, velocity
    double theta, theta_dot;  // pole: angle from upright in radians, angular velocity
    int steps;                // of this episode
} cartpole;

// Starts an episode. |noise| is four numbers in [0, 1), which become a state in [-0.05, 0.05).
void cartpole_reset(cartpole *c, const float noise[4]);

// Pushes right (1) or left (0) for one step. Returns the reward; *out_done is true when the episode is over.
double cartpole_step(cartpole *c, int action, bool *out_done);

// The state that an observer receives: x, x_dot, theta, theta_dot.
void cartpole_observe(const cartpole *c, float out_state[4]);

#endif
