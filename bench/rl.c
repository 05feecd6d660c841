// The CartPole example's agent and observer: time per step of the environment, training included.
#include "../examples/rl_cartpole/agent.h"
#include "bench.h"

static void env_step(gw_scope *root, samples *out) {
    gw_rref *me = gw_remote(root, 0, "agent", 0.99);
    for (int episode = 0; episode < 60 && gw_ok(root); episode++) {
        double start = now_us();
        int steps = 1;
        gw_scope *s = gw_scope_open(root);
        agent *self = gw_local(s, me, agent);
        if (self) {
            agent_run_episode(s, self, me);
            steps = agent_steps(self);
            agent_finish_episode(s, self);
        }
        gw_scope_close_up(s);
        if (episode >= 10) samples_add(out, (now_us() - start) / steps);
    }
}

const bench_case rl_cases[] = {
    { "app.rl_w2.env_step", 2, env_step },
    { "app.rl_w3.env_step", 3, env_step },
    { 0 },
};
