// Cancelling a future: a request, which is passed on to the call or continuation that would
// complete it. CALL-8 to CALL-10.
#include "future/future.h"

void future_cancel_on_loop(gw_future *f) {
    gw_error error;
    if (future_result(f)) return;
    if (f->source && f->source->cancel && f->source->cancel(f)) return;
    error_set(&error, GW_CANCELLED, "the future was cancelled");
    f->cancelled = true;
    canceller *c = f->on_cancel;
    f->on_cancel = NULL;
    future_fail_on_loop(f, &error);
    if (c) c->run(c);
}

void future_abandon_on_loop(gw_future *f) {
    uint32_t others = atomic_load_explicit(&f->handle.count, memory_order_acquire) - 1;
    if (f->opened) others += atomic_load_explicit(&f->awaits, memory_order_acquire) - 1;
    if (others == f->makers && !f->promise) future_cancel_on_loop(f);
}

static void let_go_all_on_loop(gw_future *f) {
    list_remove(&f->let_go);
    while (f->let_go_count) {  // it is freed in a task at the earliest
        f->let_go_count--;
        future_abandon_on_loop(f);
        future_await_release_on_loop(f);
    }
}

void future_drop_on_loop(gw_future *f) {
    agent *a = f->agent;
    if (!f->let_go_count++) list_append(&a->let_go, &f->let_go);
    if (a->lets_go) return;
    a->lets_go = true;
    while (!list_is_empty(&a->let_go))
        let_go_all_on_loop(list_entry(a->let_go.next, gw_future, let_go));
    a->lets_go = false;
}

void gw_cancel(gw_scope *s, gw_future *f) {
    (void)s;  // cancelling acts in a failed scope, too
    if (!f || f == &future_poison || agent_is_closed(f->agent)) return;
    env_enter(f->agent->env);
    future_cancel_on_loop(f);
    env_leave(f->agent->env);
}
