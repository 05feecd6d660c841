// Waits that only the programs of other members can end, as a send ends a receive: one list for all of them, and one rule
// that decides when such a wait is over. docs/protocol/waits.md.
//
// A service embeds an await in the waiting object, opens it with the wait, and closes it when the wait ends.
//
// Threads: with the loop lock.
#ifndef AGENT_LEAVING_AWAITS_H
#define AGENT_LEAVING_AWAITS_H

#include "agent/bodies/context.h"

typedef struct await await;

typedef struct await_class {
    bool any;     // an action of one of the members is enough; else all of them have to act
    bool by_all;  // of one member: any worker may call it to do that
    // The ranks of the members whose programs it waits for, one after the other, |*at| from 0; then -1.
    int (*next)(const await *w, int *at);
    // Member |rank| will not do it, since |why|; -1 if |any|: none of them will. May close |w|, which
    // is asked about again after a while if it does not.
    void (*end)(await *w, int rank, const gw_error *why);
} await_class;

struct await {
    list_node link;
    agent *agent;
    const await_class *class;
    int waiter;         // the rank of the worker that waits
    int caller;         // the worker whose called function waits; -1: the waiter's program waits
    uint64_t question;  // answers to this one and to later ones count; 0: none was asked
    int64_t due_ns;     // when it is asked next
    // of |any|: the rank asked about now; of |by_all|: the rank asked now; -1: none yet
    int at, candidate;
    gw_error *why;  // of |any|: why the one before will not do it; NULL
};

void awaits_open_on_loop(agent *a, await *w, const await_class *class, int waiter, int caller);
void awaits_close_on_loop(await *w);  // one that was never opened is all zeros

// Adds the workers whose programs |w| waits for.
void activity_add_await(struct trace_activity *out, const await *w);

// The rank of the worker that has called the function running in |s|, or -1: the program runs there.
int awaits_caller_on_loop(const agent *a, gw_scope *s);

// This worker's program will not act any more, unless another worker calls it.
bool awaits_is_idle_on_loop(const agent *a);
// WRONG_STATE if the program has called gw_rpc_shutdown or gw_rpc_leave, and nothing that it serves runs.
gw_status awaits_check_acts_on_loop(const agent *a, gw_error *error);

// The program continues in |s|: if that is the scope that the agent was opened on, and has failed, the program has
// failed.
void awaits_note_root(gw_scope *s);

// ---- Events -------------------------------------------------------------------------------------

gw_status awaits_received_on_loop(agent *a, int from, message *m, gw_error *error);  // takes |m|
void awaits_check_on_loop(agent *a);  // an operation has ended: this worker may be idle now
void awaits_lost_on_loop(agent *a, int rank);
void awaits_stop_on_loop(agent *a);

#endif
