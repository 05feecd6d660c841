// A worker: plays with the weights of the server, and pushes gradients to the server.
#include "rollout.h"

#include "../common/weights.h"

// server, task, seed, environments, rollout, gamma, lambda, entropy. Returns when learning is over.
GW_FUNCTION(learn, GW_POOL, "rref, string, int, int, int, float, float, float") {
    gw_rref *server = gw_arg_rref(s, a, 0);
    const task *found = task_find(gw_arg_string(s, a, 1));
    if (!found) gw_fail(s, GW_NOT_FOUND, "no such task");
    if (!gw_ok(s)) return gw_none();
    task t = *found;
    gw_seed(s, (uint64_t)gw_arg_int(s, a, 2));
    t.environments = gw_arg_int(s, a, 3);
    t.rollout = gw_arg_int(s, a, 4);
    t.gamma = gw_arg_float(s, a, 5);
    t.lambda = gw_arg_float(s, a, 6);
    t.entropy = gw_arg_float(s, a, 7);
    gw_module *policy = policy_open(s, &t);
    player p = player_open(s, &t, policy, t.environments);

    gw_list *weights = gw_list_of(s, gw_rpc_sync(s, server, "pull"));
    while (gw_ok(s) && gw_list_count(weights) > 0) {
        gw_scope *step = gw_scope_open(s);
        weights_load(step, policy, weights);
        gw_list *scores = gw_list_open(step);
        experience e = player_rollout(step, &p, scores);
        gw_backward(step, policy_loss(step, &t, policy, e));
        gw_list *gradients = gradients_of(step, policy);
        gw_set(s, &weights,
               gw_list_of(step, gw_rpc_sync(step, server, "push", gradients, t.rollout * p.count,
                                            scores)));
        gw_scope_close_up(step);
    }
    return gw_none();
}
