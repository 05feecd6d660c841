// gw_rpc_shutdown and gw_rpc_leave.
#include "agent/leave.h"

#include "base/failpoint.h"

// The coordinator's last message must arrive, and so must the last messages of a worker that leaves
// alone.
static void wait_until_drained(agent *a, const char *what) {
    waiter w = { .what = what };
    if (!a->peers || peers_is_drained(a->peers)) return;
    peers_on_drained(a->peers, &w);
    env_wait(a->env, &w, env_now_ns(a->env) + GOODBYE_S * SECOND);
    if (a->peers) peers_on_drained(a->peers, NULL);
}

static void see_off(agent *a) {
    if (a->leaving.coordinates || a->leaving.alone)
        wait_until_drained(a, "the last messages to be received");
    if (!a->leaving.alone || !a->peers) return;
    peers_say_goodbye(a->peers);
    wait_until_drained(a, "goodbye to go out");
}

// What the program would have heard by its next call: there is none.
static void tell_unheard(const agent *a, gw_scope *root) {
    gw_error error;
    for (int i = 0; i < a->service_count; i++) {
        const service *x = a->services[i].service;
        if (x->unheard && x->unheard(a, &error)) scope_fail_with(root, &error);
    }
}

static void wait_until_over(agent *a, gw_scope *root, void (*ask)(agent *a), const char *what) {
    leaving *l = &a->leaving;
    waiter w = { .what = what };
    l->waiting = &w;
    ask(a);
    failpoint("shutdown");
    while (!l->over) {
        w.woken = false;
        w.patient = a->phase == AGENT_ASKED;
        context_wait_on_loop(a, root, &w, ENV_NEVER);
    }
    l->waiting = NULL;
    tell_unheard(a, root);
    see_off(a);
    agent_leave_on_loop(a);
    if (l->error.status) scope_fail_with(root, &l->error);
}

static void leave(gw_scope *root, const char *function, void (*ask)(agent *a), const char *what) {
    agent *a = root->slots[SCOPE_AGENT].data;
    gw_error error;
    if (!a) {
        scope_enter(root);  // another thread may be joining
        scope_leave(root);
        // Joining may have failed, and said so.
        if (root->agent)
            scope_fail(root, GW_WRONG_STATE, "%s is for the scope that gw_rpc_init was given",
                       function);
        else if (!root->error)
            scope_fail(root, GW_WRONG_STATE, "%s without gw_rpc_init", function);
        return;
    }
    if (is_process_fork(a->mark)) {
        agent_of(root);  // says so
        return;
    }
    env_enter(a->env);
    if (a->fence.status) {
        scope_fail_with(root, &a->fence);
    } else if (a->phase != AGENT_SERVING) {
        if (a->phase != AGENT_LEFT)
            scope_fail(root, GW_WRONG_STATE, "%s is under way",
                       a->leaving.alone ? "gw_rpc_leave" : "gw_rpc_shutdown");
    } else if (context_check_wait(root, &error)) {
        scope_fail_with(root, &error);
    } else {
        wait_until_over(a, root, ask, what);
    }
    env_leave(a->env);
}

void gw_rpc_shutdown(gw_scope *root) {
    leave(root, "gw_rpc_shutdown", leaving_ask_on_loop, "the others to ask for shutdown");
}

void gw_rpc_leave(gw_scope *root) {
    leave(root, "gw_rpc_leave", leaving_ask_alone_on_loop, "what runs to end");
}
