// The states of a participant's part of a pass, and how it ends. With the role but where it says so.
#include "distributed/autograd/passes.h"

#include "base/mem.h"

#include <assert.h>

// ---- Ending, once whoever runs it has left it ---------------------------------------------------

static void free_grads(across *x) {
    for (int i = 0; i < x->grad_count; i++) {
        handle_release(x->grads[i].leaf);
        handle_release(x->grads[i].grad);
    }
    mem_free(x->grads);
    x->grads = NULL;
    x->grad_count = 0;
}

static void run_held(agent *a, int from) {
    list_each(l, &a->graphs->passes) {
        across *x = list_entry(l, across, link);
        if (x->initiator == from) across_schedule_on_loop(x, 0);
    }
}

// Without the role: what is let go of may be a user's.
void across_end(across *x) {
    env *e = x->agent->env;
    env_enter(e);
    bool dropped = x->state == ACROSS_DROPPED, settled = x->settled;
    env_leave(e);
    if (settled) across_give_up_graph(x);
    across_fini(x);
    env_enter(e);
    // A pass that has been settled may have been dropped since.
    bool again = !dropped && x->state == ACROSS_DROPPED;
    agent *a = x->agent;
    int from = x->initiator;
    x->ends = x->settled = false;
    list_remove(&x->ending);
    if (settled) run_held(a, from);
    env_leave(e);
    if (!dropped && !again) return;
    free_grads(x);
    mem_free(x);
}

static void end_task(task *t) {
    across_end(list_entry(t, across, task));
}

static void end_soon(across *x) {
    if (x->ends) return;
    x->ends = true;
    list_append(&x->agent->graphs->ending, &x->ending);
    if (x->runs) return;  // whoever runs it will see to it
    x->task.run = end_task;
    env_defer(x->agent->env, &x->task);
}

// ---- Actions ------------------------------------------------------------------------------------

static void nothing(across *x) {
    (void)x;
}

// It knows how many gradients to wait for. Those that were there too early have come in time.
static void begin(across *x) {
    across_leave_early_on_loop(x);
    for (uint32_t i = 0; i < x->marks.count; i++)
        x->awaited += x->marks.items[i].rank == (uint32_t)x->agent->rank;
}

static void tell_done(across *x) {
    across_done_on_loop(x);
    leaving_check_on_loop(x->agent);
}

static void forget_marks(across *x) {
    passes_peer *by = x->by >= 0 ? passes_peer_find_on_loop(x->agent, x->by) : NULL;
    if (by) by->mark_count -= x->counted_marks;
    x->counted_marks = 0;
}

static void settle(across *x) {
    forget_marks(x);
    x->settled = true;
    end_soon(x);
}

static void drop(across *x) {
    passes_peer *by = x->by >= 0 ? passes_peer_find_on_loop(x->agent, x->by) : NULL;
    if (by) by->open_count--;
    forget_marks(x);
    list_remove(&x->link);
    end_soon(x);
    leaving_check_on_loop(x->agent);
}

static void drop_early(across *x) {
    across_leave_early_on_loop(x);
    drop(x);
}

static void settle_and_drop(across *x) {
    x->settled = true;
    drop(x);
}

// Others may have heard that it is settled, and do not release any more what they had of this worker.
static void give_up_sends_and_drop(across *x) {
    x->unsure = true;
    settle_and_drop(x);
}

// ---- The table ----------------------------------------------------------------------------------

typedef struct rule {
    across_state from;
    across_event event;
    across_state to;
    void (*action)(across *x);
    const char *why;
} rule;

// clang-format off
static const rule rules[] = {
    { ACROSS_MARKING,  ACROSS_MARKED,    ACROSS_RUNNING,  begin,                  "what it waits for is known" },
    { ACROSS_MARKING,  ACROSS_SUCCEEDED, ACROSS_DROPPED,  drop_early,             "what is over and not complete here has failed" },
    { ACROSS_MARKING,  ACROSS_HEARD,     ACROSS_MARKING,  nothing,                "only its initiator can say that it is over" },
    { ACROSS_MARKING,  ACROSS_FAILED,    ACROSS_DROPPED,  drop_early,             "nothing has been done" },
    { ACROSS_MARKING,  ACROSS_CLOSED,    ACROSS_MARKING,  nothing,                "its end has been told, or is when an older one has ended" },
    { ACROSS_MARKING,  ACROSS_LOST,      ACROSS_DROPPED,  drop_early,             "nobody is left who wants it" },

    { ACROSS_RUNNING,  ACROSS_DONE,      ACROSS_COMPLETE, tell_done,              "all marked slots have had their gradient, and what follows is sent" },
    { ACROSS_RUNNING,  ACROSS_SUCCEEDED, ACROSS_DROPPED,  drop,                   "what is over and not complete here has failed" },
    { ACROSS_RUNNING,  ACROSS_HEARD,     ACROSS_RUNNING,  nothing,                "only its initiator can say that it is over" },
    { ACROSS_RUNNING,  ACROSS_FAILED,    ACROSS_DROPPED,  drop,                   "here or elsewhere; the graph stays as it was" },
    { ACROSS_RUNNING,  ACROSS_CLOSED,    ACROSS_RUNNING,  nothing,                "its end has been told, or is when an older one has ended" },
    { ACROSS_RUNNING,  ACROSS_LOST,      ACROSS_DROPPED,  drop,                   "nobody is left who wants it" },

    { ACROSS_COMPLETE, ACROSS_SUCCEEDED, ACROSS_SETTLED,  settle,                 "it has succeeded everywhere: the graph goes, gradients stay" },
    { ACROSS_COMPLETE, ACROSS_HEARD,     ACROSS_SETTLED,  settle,                 "before the next pass of its initiator meets the graph" },
    { ACROSS_COMPLETE, ACROSS_FAILED,    ACROSS_DROPPED,  drop,                   "elsewhere; the graph stays as it was" },
    { ACROSS_COMPLETE, ACROSS_CLOSED,    ACROSS_DROPPED,  settle_and_drop,        "it was not aborted, so it has succeeded; nobody asks for gradients any more" },
    { ACROSS_COMPLETE, ACROSS_LOST,      ACROSS_DROPPED,  give_up_sends_and_drop, "whether it has succeeded nobody can say any more" },

    { ACROSS_SETTLED,  ACROSS_SUCCEEDED, ACROSS_SETTLED,  nothing,                "so it was heard" },
    { ACROSS_SETTLED,  ACROSS_HEARD,     ACROSS_SETTLED,  nothing,                "so it is" },
    { ACROSS_SETTLED,  ACROSS_FAILED,    ACROSS_DROPPED,  drop,                   "what was heard of it was wrong" },
    { ACROSS_SETTLED,  ACROSS_FOLDED,    ACROSS_DROPPED,  drop,                   "an older one of its scope has its gradients, too" },
    { ACROSS_SETTLED,  ACROSS_CLOSED,    ACROSS_DROPPED,  drop,                   "nobody asks for gradients any more" },
    { ACROSS_SETTLED,  ACROSS_LOST,      ACROSS_DROPPED,  drop,                   "nobody asks for gradients any more" },

    { ACROSS_DROPPED,  ACROSS_DONE,      ACROSS_DROPPED,  nothing,                "it was dropped while it ran" },
    { ACROSS_DROPPED,  ACROSS_FAILED,    ACROSS_DROPPED,  nothing,                "it was dropped while it ran" },
};
// clang-format on

void across_apply_on_loop(across *x, across_event event) {
    const rule *r = NULL;
    for (size_t i = 0; i < sizeof rules / sizeof *rules && !r; i++)
        if (rules[i].from == x->state && rules[i].event == event) r = &rules[i];
    assert(r);  // what comes from others is an event only where it can mean something
    x->state = r->to;
    r->action(x);
}
