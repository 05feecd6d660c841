// gw_rpc_shutdown.
#include "rpc/leaving.h"

#include "base/failpoint.h"

static void ask(agent *a) {
    a->phase = AGENT_ASKED;
    if (a->rank == 0) coordinator_greet_all_on_loop(a);
    if (agent_member(a, 0)->lost) {
        leaving_without_coordinator_on_loop(a);
    } else {
        leaving_tell_on_loop(a, 0, KIND_ASK_LEAVE);
    }
}

// The others are let go by a message that must arrive.
static void wait_until_drained(agent *a) {
    waiter w = { .what = "the last messages to be received" };
    if (a->rank != 0 || peers_is_drained(a->peers)) return;
    peers_on_drained(a->peers, &w);
    env_wait(a->env, &w, env_now_ns(a->env) + GOODBYE_S * SECOND);
    peers_on_drained(a->peers, NULL);
}

static void shut_down_on_loop(agent *a, gw_scope *root) {
    leaving *l = &a->leaving;
    waiter w = { .what = "the others to ask for shutdown" };
    l->waiting = &w;
    ask(a);
    failpoint("shutdown");
    while (!l->over) {
        w.woken = false;
        context_wait_on_loop(a, root, &w, ENV_NEVER);
    }
    l->waiting = NULL;
    wait_until_drained(a);
    agent_leave_on_loop(a);
    if (l->error.status) scope_fail_with(root, &l->error);
}

void gw_rpc_shutdown(gw_scope *root) {
    agent *a = root->slots[SCOPE_AGENT].data;
    gw_error error;
    if (!a) {
        // Joining may have failed, and said so.
        if (root->agent)
            scope_fail(root, GW_WRONG_STATE,
                       "gw_rpc_shutdown is for the scope that gw_rpc_init was given");
        else if (!root->error)
            scope_fail(root, GW_WRONG_STATE, "gw_rpc_shutdown without gw_rpc_init");
        return;
    }
    env_enter(a->env);
    if (a->phase != AGENT_SERVING) {
        if (a->phase != AGENT_LEFT)
            scope_fail(root, GW_WRONG_STATE, "gw_rpc_shutdown is under way");
    } else if (context_check_wait(root, &error)) {
        scope_fail_with(root, &error);
    } else {
        shut_down_on_loop(a, root);
    }
    env_leave(a->env);
}
