// Distributed reinforcement learning with calls and references: one agent, several observers.
//
// Rank 0 holds the policy and its optimizer, and makes an observer on every other worker. In each
// episode it calls run_episode on all of them; each observer calls back select_action and
// report_reward on its reference to the agent, two round trips a step. Then the agent learns, and
// the next episode begins.
//
//     rl_cartpole                                 makes its own two processes
//     gradwire run -n 3 -- rl_cartpole            one agent, two observers
#include "agent.h"
#include "options.h"
#include "progress.h"
#include "../common/workers.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NOT_SOLVED = 3 };

static bool train(gw_scope *root, const options *o, progress *p) {
    gw_rref *me = gw_remote(root, 0, "agent", o->gamma);
    bool solved = false;
    for (int episode = 1; episode <= o->max_episodes && !solved && gw_ok(root); episode++) {
        gw_scope *s = gw_scope_open(root);
        agent *self = gw_local(s, me, agent);
        if (self) {
            agent_run_episode(s, self, me);
            int steps = agent_steps(self);
            double last_reward = agent_finish_episode(s, self);
            solved = self->running_reward > CARTPOLE_REWARD_THRESHOLD;
            if (gw_ok(s))
                progress_episode(p, steps, last_reward, self->running_reward,
                                 episode % o->log_interval == 0);
            if (solved) printf("Solved! Running reward is now %.13g!\n", self->running_reward);
        }
        gw_scope_close_up(s);
    }
    return solved;
}

static void print_stats(gw_scope *root, const progress *p) {
    gw_rpc_stats stats = gw_rpc_get_stats(root);
    double steps = p->steps > 0 ? (double)p->steps : 1;
    printf("%lld steps; per step: %.2f calls, %.2f messages, %.0f bytes; %llu reconnects\n",
           p->steps, (double)(stats.calls_made + stats.calls_served) / steps,
           (double)(stats.messages_sent + stats.messages_received) / steps,
           (double)(stats.bytes_sent + stats.bytes_received) / steps,
           (unsigned long long)stats.reconnects);
}

static int run_agent(gw_scope *root, const options *o) {
    progress p;
    progress_open(&p, stdout, CARTPOLE_REWARD_THRESHOLD);
    bool solved = train(root, o, &p);
    if (o->stats) print_stats(root, &p);
    if (o->plot && !progress_plot(&p, o->plot))
        gw_fail(root, GW_SYSTEM, "%s: %s", o->plot, strerror(errno));
    progress_close(&p);
    return solved ? 0 : NOT_SOLVED;
}

// Runs one worker. |init_method| is NULL under a launcher.
static int run_worker(const char *init_method, void *context) {
    const options *o = context;
    bool is_agent = gw_rpc_launched().rank == 0;
    gw_scope *root = gw_scope_open(NULL);
    gw_seed(root, (uint64_t)o->seed);
    gw_rpc_init(root, .name = is_agent ? "agent" : "observer%d", .init_method = init_method);
    int outcome = is_agent && gw_ok(root) ? run_agent(root, o) : 0;
    gw_rpc_shutdown(root);  // observers serve until the agent is done
    int failed = gw_exit_code(gw_scope_close(root));
    return failed ? failed : outcome;
}

int main(int argc, char **argv) {
    options o;
    int code = options_parse(argc, argv, &o);
    if (code >= 0) return code;
    if (gw_rpc_launched().rank >= 0) return run_worker(NULL, &o);
    return workers_run((int)o.world_size, run_worker, &o);
}
