// Call queues: calls of one caller and order start in the order in which they arrived. CALL-6.
//
// Ownership: a call queue lives while it has calls that have not started. Threads: with the loop
// lock.
#ifndef CALL_SERVER_QUEUE_H
#define CALL_SERVER_QUEUE_H

#include "agent/state/agent.h"
#include "agent/messages/message_io.h"

struct served_call;

typedef struct call_queue {
    agent *agent;
    uint64_t key;
    uint32_t admitted;  // not started yet
    const void *where;  // the one queue that they are in, which keeps their order
    list_node waiting;  // of served_call, not admitted
    list_node inlined;  // of served_call, admitted, to run one after another
    bool running;       // |inlined| is being run, beginning with |first|
    struct served_call *first;
    task task;
} call_queue;

// |s| is ready. It is admitted now or later: served_call_admit_on_loop. NO_MEMORY.
gw_status call_queue_enter_on_loop(agent *a, struct served_call *s, gw_error *error);
void call_queue_started_on_loop(struct served_call *s);  // leaves its call queue
void call_queue_cancel_on_loop(struct served_call *s);   // the same for one that will not start

// The arguments of a call are complete; its |user| is the served call.
void call_queue_whole_on_loop(incoming *p);

// An admitted call that is to run inline, one after another with its like.
void call_queue_run_on_loop(struct served_call *s);

// Starts |s|, whose body has ended inline, and returns the next one to run; NULL: nothing.
struct served_call *call_queue_next_on_loop(struct served_call *s);

#endif
