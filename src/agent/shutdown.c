// gw_rpc_shutdown and gw_rpc_leave.
#include "agent/leaving/leave_internal.h"

#include "agent/bodies/observe.h"
#include "agent/changes/stop.h"
#include "agent/leaving/awaits.h"
#include "base/failpoint.h"
#include "trace/record.h"

#include <stdio.h>
#include <string.h>

// How the program leaves.
typedef struct way {
    const char *function;
    void (*ask)(agent *a);
    const char *what;  // it waits for
} way;

// The coordinator's last message must arrive, and so must the last messages of a worker that leaves
// alone.
static void wait_until_drained(agent *a, int64_t until_ns, const char *what) {
    // More may have been sent since it was woken, such as an answer.
    for (bool woken = true; woken && a->peers && !peers_is_drained(a->peers);) {
        waiter w = { .what = what };
        peers_on_drained(a->peers, &w);
        woken = env_wait(a->env, &w, until_ns);
        if (a->peers) peers_on_drained(a->peers, NULL);
    }
}

// Of a worker that leaves alone.
static void check_drained(agent *a) {
    int rank = a->peers && !a->leaving.error.status ? peers_find_busy(a->peers) : -1;
    if (rank >= 0)
        error_set(&a->leaving.error, GW_TIMEOUT,
                  "gw_rpc_leave: %s has not received all messages of this worker within %d s",
                  agent_member(a, rank)->name, BOUND_S);
}

static void notify_services(agent *a) {
    for (int i = 0; i < a->service_count; i++)
        if (a->services[i].service->begins_to_leave) a->services[i].service->begins_to_leave(a);
}

static void depart(agent *a) {
    for (int i = 0; i < a->service_count; i++)
        if (a->services[i].service->depart) a->services[i].service->depart(a);
}

static void see_off(agent *a) {
    leaving *l = &a->leaving;
    int64_t soon_ns = env_now_ns(a->env) + GOODBYE_S * SECOND;
    int64_t until_ns = l->alone && l->alone_until_ns > soon_ns ? l->alone_until_ns : soon_ns;
    if (l->alone && !l->error.status) depart(a);
    if (l->coordinates || l->alone)
        wait_until_drained(a, until_ns, "the other workers to receive the last messages");
    if (l->alone) check_drained(a);
    if (!l->alone || !a->peers) return;
    l->says_goodbye = true;
    peers_send_goodbye(a->peers);
    wait_until_drained(a, env_now_ns(a->env) + GOODBYE_S * SECOND,
                       "the last message of this worker to be sent");
}

// Errors that the program's next call would have returned: there is none.
static void report_unheard(const agent *a, gw_scope *root) {
    gw_error error;
    for (int i = 0; i < a->service_count; i++) {
        const service *x = a->services[i].service;
        if (x->missed_error && x->missed_error(a, &error)) scope_fail_with(root, &error);
    }
}

// SHUT-10: the others have not all called it in time. It leaves as by gw_rpc_leave.
static void stop_waiting_for_others(agent *a, gw_scope *root, waiter *w, int64_t timeout_ms,
                                    gw_error *out) {
    leaving *l = &a->leaving;
    int64_t until_ns = env_now_ns(a->env) + ANSWER_S * SECOND;
    leaving_ask_missing_on_loop(a);
    while (!l->unasked[0] && !l->over && a->phase == AGENT_ASKED) {
        w->woken = false;
        if (!context_wait_on_loop(a, root, w, until_ns)) break;
    }
    if (l->over || a->phase != AGENT_ASKED) return;
    bool is_one = l->unasked[0] && !strstr(l->unasked, ", ");
    error_set(out, GW_TIMEOUT, "gw_rpc_shutdown: %s %s not called it within %lld ms",
              l->unasked[0] ? l->unasked : "other workers", is_one ? "has" : "have",
              (long long)timeout_ms);
    leaving_stop_on_loop(a);
    leaving_ask_alone_on_loop(a);
}

// The function of gw_scope_set_interrupt has ended the wait. It leaves as by gw_rpc_leave.
static void stop_when_interrupted(agent *a, gw_error *out) {
    error_set(out, GW_CANCELLED, "gw_rpc_shutdown: interrupted by the program");
    leaving_stop_on_loop(a);
    leaving_ask_alone_on_loop(a);
}

typedef struct leave_wait {
    waiter waiter;
    const way *way;
} leave_wait;

static void describe_leave(const waiter *w, trace_activity *out) {
    out->kind = TRACE_WAITS_SHUTDOWN;
    snprintf(out->what, sizeof out->what, "%s", list_entry(w, leave_wait, waiter)->way->function);
}

static void wait_until_over(agent *a, gw_scope *root, const way *way, int64_t timeout_ms) {
    leaving *l = &a->leaving;
    leave_wait here = { .waiter = { .what = way->what, .describe = describe_leave }, .way = way };
    waiter *w = &here.waiter;
    gw_error late = { 0 };
    int64_t until_ns = deadline_after_ms(env_now_ns(a->env), timeout_ms);
    l->waiting = w;
    root->is_interrupted = false;
    trace_record_text(TRACE_SHUTDOWN, a->observer.row, a->incarnation, 0, way->function);
    way->ask(a);
    notify_services(a);
    failpoint("shutdown");
    while (!l->over) {
        w->woken = false;
        w->patient = a->phase == AGENT_ASKED;
        bool is_bound = a->phase == AGENT_ASKED && !l->alone;
        bool woken = context_wait_on_loop(a, root, w, is_bound ? until_ns : ENV_NEVER);
        if (woken || !is_bound || a->phase != AGENT_ASKED || l->over) continue;
        if (root->is_interrupted)
            stop_when_interrupted(a, &late);
        else
            stop_waiting_for_others(a, root, w, timeout_ms, &late);
    }
    l->waiting = NULL;
    root->is_interrupted = root->next_is_interrupted = false;
    report_unheard(a, root);
    see_off(a);
    agent_leave_on_loop(a);
    if (!a->fence.status) agent_notify_launcher(a, "left", a->incarnation, "");
    if (late.status) scope_fail_with(root, &late);
    if (l->error.status) scope_fail_with(root, &l->error);
}

static void leave(gw_scope *root, const way *way, int64_t timeout_ms) {
    const char *function = way->function;
    agent *a = root->slots[SCOPE_AGENT].data;
    gw_error error;
    awaits_note_root(root);
    if (!a) {
        scope_enter(root);  // another thread may be joining
        scope_leave(root);
        // Joining may have failed, and set an error.
        if (root->agent)
            scope_fail(root, GW_WRONG_STATE,
                       "%s must be called with the scope that was given to gw_rpc_init", function);
        else if (!root->error)
            scope_fail(root, GW_WRONG_STATE, "%s was called without gw_rpc_init", function);
        return;
    }
    if (is_process_fork(a->mark)) {
        agent_of(root);  // sets the error
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
        wait_until_over(a, root, way, timeout_ms);
    }
    env_leave(a->env);
}

void gw_rpc_shutdown_with(gw_scope *root, gw_rpc_shutdown_options options) {
    static const way together = { "gw_rpc_shutdown", leaving_ask_on_loop,
                                  "the others to call gw_rpc_shutdown" };
    int64_t timeout_ms = options.timeout_ms > 0 ? options.timeout_ms : GW_NO_TIMEOUT;
    if (options.timeout_ms < 0)  // it leaves all the same
        scope_fail(root, GW_INVALID,
                   "gw_rpc_shutdown: the timeout is %lld ms, but must not be negative",
                   (long long)options.timeout_ms);
    leave(root, &together, timeout_ms);
}

void gw_rpc_leave(gw_scope *root) {
    static const way alone = { "gw_rpc_leave", leaving_ask_alone_on_loop,
                               "calls and references of this worker to end" };
    leave(root, &alone, GW_NO_TIMEOUT);
}
