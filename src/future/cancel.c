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

void gw_cancel(gw_scope *s, gw_future *f) {
    (void)s;  // cancelling acts in a failed scope, too
    if (!f || f == &future_poison || agent_is_closed(f->agent)) return;
    env_enter(f->agent->env);
    future_cancel_on_loop(f);
    env_leave(f->agent->env);
}
