#include "cartpole.h"

#include <math.h>

static const double gravity = 9.8, cart_mass = 1.0, pole_mass = 0.1, force = 10.0, tau_s = 0.02;
static const double half_length = 0.5;  // of the pole
static const double x_max = 2.4, theta_max = 12 * 2 * 3.14159265358979323846 / 360;

void cartpole_reset(cartpole *c, const float noise[4]) {
    *c = (cartpole){
        .x = noise[0] * 0.1 - 0.05,
        .x_dot = noise[1] * 0.1 - 0.05,
        .theta = noise[2] * 0.1 - 0.05,
        .theta_dot = noise[3] * 0.1 - 0.05,
    };
}

double cartpole_step(cartpole *c, int action, bool *out_done) {
    double total_mass = cart_mass + pole_mass, pole_moment = pole_mass * half_length;
    double sine = sin(c->theta), cosine = cos(c->theta), push = action == 1 ? force : -force;

    double shared = (push + pole_moment * c->theta_dot * c->theta_dot * sine) / total_mass;
    double theta_acc = (gravity * sine - cosine * shared) /
                       (half_length * (4.0 / 3.0 - pole_mass * cosine * cosine / total_mass));
    double x_acc = shared - pole_moment * theta_acc * cosine / total_mass;

    // Positions move by the velocities from before the push.
    c->x += tau_s * c->x_dot;
    c->x_dot += tau_s * x_acc;
    c->theta += tau_s * c->theta_dot;
    c->theta_dot += tau_s * theta_acc;
    c->steps++;

    *out_done = fabs(c->x) > x_max || fabs(c->theta) > theta_max || c->steps >= CARTPOLE_STEPS_MAX;
    return 1.0;
}

void cartpole_observe(const cartpole *c, float out_state[4]) {
    out_state[0] = (float)c->x;
    out_state[1] = (float)c->x_dot;
    out_state[2] = (float)c->theta;
    out_state[3] = (float)c->theta_dot;
}
