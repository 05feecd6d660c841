// Contexts: the function that runs in a scope, and the slot and turns that it releases while it waits.
//
// The scope of a body has a context, which is found from every scope inside it; so has a scope that entered an object
// by gw_local. From the scope of an object, the context is found that has the object's turn.
#ifndef AGENT_BODIES_CONTEXT_H
#define AGENT_BODIES_CONTEXT_H

#include "agent/bodies/turn.h"
#include "agent/bodies/work.h"

typedef struct context {
    gw_scope *scope;   // where it hangs
    gw_scope *ending;  // of an object that ends in it, with it
    agent *agent;
    bool may_wait, has_place;
    uint8_t depth;   // of the call that is served; 0: none
    uint64_t order;  // of calls made in its scope; 0: not drawn yet
    int64_t deadline_ns;
    const char *function;  // NULL: a function of gw_then
    list_node turns;       // of held_turn
    bool own_memory;       // of gw_local: goes with its scope
    bool entered;          // an object, in it or in a scope inside

    // cancelling, if it |serves| a call
    bool serves;
    int caller;                 // its rank
    uint64_t call;              // its number at the caller
    uint64_t caller_scope;      // in which it called
    bool has_pass;              // a backward pass was made there
    _Atomic uint8_t cancelled;  // a cancel_reason
    work *work;                 // one count; NULL: nothing has been called yet
    waiter *waiting;            // of its thread
} context;

// Hangs |c| on its scope, which has none.
void context_attach(context *c);

// The nearest one above |s|, or NULL.
context *context_of(gw_scope *s);

// The rank of the worker whose call the function in |s| serves; -1: none.
int context_caller(gw_scope *s);

// The work that has the calls made in |c| from now on; NULL without memory.
work *context_work_on_loop(context *c);

// Cancels the function in |c|: its wait ends, and so do the calls made in it.
void context_cancel_on_loop(context *c, cancel_reason reason);
// CANCELLED, if the call that |s| is part of has been cancelled.
gw_status context_check_cancelled(gw_scope *s, gw_error *error);

// When a body began: on the clock of |c|'s env, and in the CPU time of its thread.
typedef struct body_start {
    int64_t now_ns, cpu_ns;
} body_start;

body_start context_body_starts(const context *c);
// A line for the user, if a body that may not wait has computed for long since |began|. A thread that was only late, as on
// a busy machine, is not named. Returns the time since |began|.
int64_t context_report_if_long(const context *c, body_start began);

// Whether a thread may wait in |s|; else fails |error| with WOULD_BLOCK.
gw_status context_check_wait(gw_scope *s, gw_error *error);
int64_t context_deadline_ns(gw_scope *s);  // the least of all above |s|
// The same, but at most |timeout_ms| from now on, if that is not GW_NO_TIMEOUT.
int64_t context_deadline_within_ns(const agent *a, gw_scope *s, int64_t timeout_ms);
// Until when to wait in |s| from now on. As for calls, a scope without a deadline does not wait for ever.
int64_t context_until_ns(const agent *a, gw_scope *s);

// Takes the turn |t| for |h|, which |s| returns when it closes (h->left). Fails with WOULD_BLOCK,
// TIMEOUT, NO_MEMORY, and INVALID in a scope that outlives the function in it. Without the loop lock.
gw_status context_enter(agent *a, gw_scope *s, turn *t, held_turn *h, gw_error *error);
// Whether the context of |s| has the turn |t| already.
bool context_has_turn(gw_scope *s, const turn *t);
// The turn that the function in |s| has: of the object whose scope it is, else of the one entered last.
// NULL without one.
turn *context_turn_on_loop(gw_scope *s);

// A thread that waits in context_wait_on_loop, on its stack: one of the agent's |waits|.
typedef struct context_wait {
    list_node link;
    const waiter *waiter;
    gw_scope *scope;   // in which it waits
    int tid;           // of its thread
    int64_t since_ns;  // when it was first seen by observe_on_loop; 0: not yet
} context_wait;

// Waits as env_wait does, and releases the worker thread slot and turns meanwhile; returns at once when the call that |s|
// is part of is cancelled.
bool context_wait_on_loop(agent *a, gw_scope *s, waiter *w, int64_t until_ns);

#endif
