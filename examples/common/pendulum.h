// Pendulum-v1: a pendulum to be swung up and kept upright by a motor too weak to lift it at once.
//
// Constants and limits as OpenAI Gym publishes them: steps of 0.05 s, a torque of at most 2 either
// way, a speed of at most 8, 200 steps an episode. A step costs angle^2 + 0.1 speed^2 + 0.001
// torque^2; an episode without control scores about -1,200, and good controllers reach -150 to
// -200, depending on the start.
#ifndef PENDULUM_H
#define PENDULUM_H

#include <stdbool.h>

enum { PENDULUM_STEPS_MAX = 200 };
#define PENDULUM_TORQUE_MAX 2.0

typedef struct pendulum {
    double theta, theta_dot;  // angle from upright in radians, angular velocity
    int steps;                // of this episode
} pendulum;

// Starts an episode. |noise| is two numbers in [0, 1), which become an angle in [-pi, pi) and a
// speed in [-1, 1).
void pendulum_reset(pendulum *p, const float noise[2]);

// Applies |torque| for one step. Returns the reward; *out_done is true when the episode is over.
double pendulum_step(pendulum *p, double torque, bool *out_done);

// The state that an observer receives: cosine and sine of theta, theta_dot.
void pendulum_observe(const pendulum *p, float out_state[3]);

#endif
