// The observer: owns an environment, and requests each action from the agent.
#include "../common/cartpole.h"

#include <gradwire.h>

typedef struct observer {
    int64_t id;
    cartpole env;
} observer;

GW_CLASS(observer, observer_open);  // id

static void observer_open(gw_scope *own, observer *self, const gw_args *a) {
    self->id = gw_arg_int(own, a, 0);
}

static void reset(gw_scope *s, observer *self) {
    const float *noise = gw_data(gw_rand(s, GW_F32, 4));
    if (noise) cartpole_reset(&self->env, noise);
}

// Plays this number of steps, over one or more episodes. Returns the discounted return of each step and the mean length
// of an episode.
GW_METHOD(observer, play, GW_POOL, "rref, string, int, float") {  // agent, its method, steps, gamma
    gw_rref *agent = gw_arg_rref(s, a, 0);
    const char *select_action = gw_arg_string(s, a, 1);
    int64_t steps = gw_arg_int(s, a, 2), start = 0, episodes = 0;
    double gamma = gw_arg_float(s, a, 3);
    gw_tensor *rewards = gw_zeros(s, GW_F32, steps);
    float *worth = gw_data_for_write(s, rewards);
    reset(s, self);
    for (int64_t i = 0; i < steps && gw_ok(s); i++) {
        gw_scope *step = gw_scope_open(s);
        float state[4];
        cartpole_observe(&self->env, state);
        int64_t action = gw_int_of(
            step, gw_rpc_sync(step, agent, select_action, self->id, gw_from(step, state, 4), i));
        bool done;
        worth[i] = (float)cartpole_step(&self->env, (int)action, &done);
        if (done || i + 1 == steps) {
            for (int64_t j = i - 1; j >= start; j--) worth[j] += (float)gamma * worth[j + 1];
            start = i + 1;
            episodes++;
            reset(step, self);
        }
        gw_scope_close_up(step);
    }
    gw_list *pair = gw_list_open(s);
    gw_list_add(s, pair, rewards);
    gw_list_add(s, pair, (double)steps / (double)(episodes ? episodes : 1));
    return gw_value_of(pair);
}
