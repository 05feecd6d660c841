// Calls of the library's own functions whose replies need the program of the callee, as a point-to-point message
// needs a receiver: WAIT-1.
#include "agent/leaving/awaits.h"
#include "base/mem.h"
#include "call/call.h"
#include "future/future.h"

typedef struct call_await {
    await await;
    gw_future *future;  // of a call that is out, which ends with it: no count
} call_await;

static int next(const await *w, int *at) {
    const call_await *x = list_entry(w, const call_await, await);
    return (*at)++ ? -1 : x->future->to;
}

static void end(await *w, int rank, const gw_error *why) {
    (void)rank;
    gw_error error = *why;
    call_end_on_loop(list_entry(w, call_await, await)->future, error);
}

static const await_class reply_await = { .next = next, .end = end };
static const await_class reply_by_all_await = { .by_all = true, .next = next, .end = end };

// Without memory it waits until its deadline.
void call_needs_program(gw_scope *s, gw_future *f, bool by_all) {
    if (f == &future_poison) return;
    agent *a = f->agent;
    env_enter(a->env);
    call_await *x = f->call && !f->await ? mem_calloc(sizeof *x) : NULL;
    if (x) {
        x->future = f;
        f->await = x;
        awaits_open_on_loop(a, &x->await, by_all ? &reply_by_all_await : &reply_await, a->rank,
                            awaits_caller_on_loop(a, s));
    }
    env_leave(a->env);
}

void call_close_await_on_loop(gw_future *f) {
    if (!f->await) return;
    awaits_close_on_loop(&f->await->await);
    mem_free(f->await);
    f->await = NULL;
}
