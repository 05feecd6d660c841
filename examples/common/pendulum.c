#include "pendulum.h"

#include <math.h>

static const double pi = 3.14159265358979323846;
static const double gravity = 10.0, mass = 1.0, length = 1.0, tau_s = 0.05, speed_max = 8.0;

static double within(double x, double limit) {
    return x > limit ? limit : x < -limit ? -limit : x;
}

void pendulum_reset(pendulum *p, const float noise[2]) {
    *p = (pendulum){ .theta = (noise[0] * 2 - 1) * pi, .theta_dot = noise[1] * 2 - 1 };
}

double pendulum_step(pendulum *p, double torque, bool *out_done) {
    torque = within(torque, PENDULUM_TORQUE_MAX);
    double angle = remainder(p->theta, 2 * pi);
    double cost = angle * angle + 0.1 * p->theta_dot * p->theta_dot + 0.001 * torque * torque;

    double acceleration =
        3 * gravity / (2 * length) * sin(p->theta) + 3 / (mass * length * length) * torque;
    p->theta_dot = within(p->theta_dot + acceleration * tau_s, speed_max);
    p->theta += p->theta_dot * tau_s;
    p->steps++;

    *out_done = p->steps >= PENDULUM_STEPS_MAX;
    return -cost;
}

void pendulum_observe(const pendulum *p, float out_state[3]) {
    out_state[0] = (float)cos(p->theta);
    out_state[1] = (float)sin(p->theta);
    out_state[2] = (float)p->theta_dot;
}
