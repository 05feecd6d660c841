// How a pass that stays in one process waits for late answers (autograd/late.h).
#include "autograd/pass.h"
#include "distributed/autograd/distributed_pass.h"

#define GRACE_NS INT64_C(1000000000)

int64_t distributed_late_until_ns(const agent *a, gw_scope *s) {
    int64_t until_ns = context_until_ns(a, s);
    return until_ns < ENV_NEVER - GRACE_NS ? until_ns + GRACE_NS : until_ns;
}

static bool check(gw_scope *s) {
    gw_error error;
    if (!context_check_wait(s, &error)) return true;
    error_prefix_function(&error, "backward");
    return scope_fail_with(s, &error);
}

static void wake(pass *p) {
    env_wake(p->scope->env, p->runner);
}

// Waits as a call would, and somewhat longer: the collective that answers has the same deadline, and its error names
// the missing workers.
static void wait_on_loop(pass *p, agent *a, gw_error *error) {
    gw_scope *s = p->scope;
    waiter w = { .what = "the other workers of a backward pass", .runs_pass = true };
    p->on_answer = wake;
    p->runner = &w;
    bool woken = context_wait_on_loop(a, s, &w, distributed_late_until_ns(a, s));
    p->on_answer = NULL;
    p->runner = NULL;
    if (woken || context_check_cancelled(s, error)) return;
    error_set(error, GW_TIMEOUT, "other workers have not answered within the deadline");
}

static void wait(pass *p) {
    agent *a = p->scope->agent;
    gw_error error = { 0 };
    if (!check(p->scope)) return;
    env_enter(a->env);
    if (list_is_empty(&p->arrived)) wait_on_loop(p, a, &error);
    env_leave(a->env);
    if (!error.status) return;
    error_prefix_function(&error, "backward");
    scope_fail_with(p->scope, &error);
}

const late_waiting distributed_late_waiting = { .check = check, .wait = wait };
