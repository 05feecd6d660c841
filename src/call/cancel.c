#include "call/cancel.h"

#include "base/mem.h"
#include "base/mutation.h"
#include "call/call.h"
#include "future/result.h"
#include "agent/work.h"

#include <stdio.h>

// ---- Futures ----

void future_cancel_on_loop(gw_future *f) {
    gw_error error;
    if (future_result(f)) return;
    if (f->call) {
        call_cancel_on_loop(f);
        return;
    }
    error_set(&error, GW_CANCELLED, "the future was cancelled");
    f->cancelled = true;
    canceller *c = f->on_cancel;
    f->on_cancel = NULL;
    future_fail_on_loop(f, &error);
    if (c) c->run(c);
}

void future_abandon_on_loop(gw_future *f) {
    uint32_t others = atomic_load_explicit(&f->handle.count, memory_order_acquire) - 1;
    if (others == f->makers && !f->promise) future_cancel_on_loop(f);
}

void gw_cancel(gw_scope *s, gw_future *f) {
    (void)s;  // acts also when it has failed
    if (!f || f == &future_poison || agent_is_closed(f->agent)) return;
    env_enter(f->agent->env);
    future_cancel_on_loop(f);
    env_leave(f->agent->env);
}

// ---- What is cancelled with a call ----

work *work_open(void) {
    work *w = mem_take(sizeof *w);
    if (!w) return NULL;
    *w = (work){ .count = 1 };
    list_init(&w->calls);
    return w;
}

work *work_retain_on_loop(work *w) {
    if (w) w->count++;
    return w;
}

void work_release_on_loop(work *w) {
    if (!w || --w->count) return;
    while (list_take(&w->calls)) continue;
    mem_give(w, sizeof *w);
}

void work_cancel_on_loop(work *w, cancel_reason reason) {
    if (w->cancelled) return;
    atomic_store_explicit(&w->cancelled, (uint8_t)reason, memory_order_release);
    if (has_mutation(MUTATION_CANCEL_IGNORED)) return;
    w->count++;
    for (list_node *l; (l = list_take(&w->calls));)
        future_cancel_on_loop(list_entry(l, gw_future, made));
    work_release_on_loop(w);
}

// ---- Contexts ----

work *context_work_on_loop(context *c) {
    if (!c->work) c->work = work_open();
    if (c->work) c->work->cancelled = c->cancelled;
    return c->work;
}

static cancel_reason reason_of(const context *c) {
    uint8_t reason = atomic_load_explicit(&c->cancelled, memory_order_acquire);
    if (!reason && c->work)
        reason = atomic_load_explicit(&c->work->cancelled, memory_order_acquire);
    return (cancel_reason)reason;
}

void context_cancel_on_loop(context *c, cancel_reason reason) {
    if (c->cancelled) return;
    atomic_store_explicit(&c->cancelled, (uint8_t)reason, memory_order_release);
    if (c->work) work_cancel_on_loop(c->work, reason);
    if (c->waiting) env_wake(c->agent->env, c->waiting);
}

static const char *describe(cancel_reason reason) {
    switch (reason) {
    case CANCELLED_CALLER_LOST: return "cancelled, since its caller is lost";
    case CANCELLED_BY_LEAVING: return "cancelled, since this worker leaves";
    default: return "cancelled by its caller";
    }
}

gw_status context_check_cancelled(gw_scope *s, gw_error *error) {
    for (context *c; (c = context_next(&s));)
        if (reason_of(c)) return error_set(error, GW_CANCELLED, "%s", describe(reason_of(c)));
    return GW_OK;
}

bool gw_cancelled(gw_scope *s) {
    int64_t deadline_ns = context_deadline_ns(s);
    if (deadline_ns != ENV_NEVER && scope_now_ns(s) >= deadline_ns) return true;
    for (context *c; (c = context_next(&s));)
        if (reason_of(c)) return true;
    return false;
}
