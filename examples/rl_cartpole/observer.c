// The observer: owns an environment, and requests each action from the agent.
#include "../common/cartpole.h"
#include <gradwire.h>

typedef struct observer {
    int id;
    cartpole env;
} observer;

GW_CLASS(observer, observer_open, "int");

static void observer_open(gw_scope *own, observer *self, const gw_args *a) {
    self->id = (int)gw_arg_int(own, a, 0);
}

GW_METHOD(observer, run_episode, GW_POOL, "rref") {
    gw_rref *agent = gw_arg_rref(s, a, 0);
    const float *noise = gw_data(gw_rand(s, GW_F32, 4));
    if (!gw_ok(s)) return gw_none();
    gw_span_open(s, "episode");  // for gradwire trace, until the scope closes
    cartpole_reset(&self->env, noise);
    for (bool done = false; !done && gw_ok(s);) {
        gw_scope *step = gw_scope_open(s);
        float state[4];
        cartpole_observe(&self->env, state);
        // Sends the state to the agent to get an action, applies it, and reports the reward.
        int64_t action = gw_int_of(
            step, gw_rpc_sync(step, agent, "select_action", self->id, gw_from(step, state, 4)));
        double reward = cartpole_step(&self->env, (int)action, &done);
        gw_rpc_sync(step, agent, "report_reward", self->id, reward);
        gw_scope_close_up(step);
    }
    return gw_none();
}
