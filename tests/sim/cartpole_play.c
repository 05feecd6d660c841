#include "cartpole_play.h"

#include "../../examples/rl_cartpole/agent.h"

void cartpole_play(gw_scope *root, int episodes, FILE *out) {
    gw_rref *me = gw_remote(root, 0, "agent", 0.99);
    for (int episode = 1; episode <= episodes && gw_ok(root); episode++) {
        gw_scope *s = gw_scope_open(root);
        agent *self = gw_local(s, me, agent);
        if (self) {
            agent_run_episode(s, self, me);
            int steps = agent_steps(self);
            double reward = agent_finish_episode(s, self);
            fprintf(out, "%d: %d steps, %a, %a\n", episode, steps, reward, self->running_reward);
        }
        gw_scope_close_up(s);
    }
}
