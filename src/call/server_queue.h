// Strands: calls of one caller and order start in the order in which they came. docs/PROTOCOL.md, C6.
//
// Ownership: a strand lives while it has calls that have not started. Threads: with the role.
#ifndef CALL_SERVER_QUEUE_H
#define CALL_SERVER_QUEUE_H

#include "agent/agent.h"

struct serving;

typedef struct strand {
    agent *agent;
    uint64_t key;
    uint32_t admitted;  // not started yet
    const void *where;  // the one queue that they are in, which keeps their order
    list_node waiting;  // of serving, not admitted
    list_node inlined;  // of serving, admitted, to run one after another
    bool running;       // |inlined| is being run, beginning with |first|
    struct serving *first;
    task task;
} strand;

// |s| is ready. It is admitted now or later: serving_admit_on_loop. NO_MEMORY.
gw_status strand_enter_on_loop(agent *a, struct serving *s, gw_error *error);
void strand_started_on_loop(struct serving *s);  // leaves its strand
void strand_cancel_on_loop(struct serving *s);   // the same for one that will not start

// An admitted call that is to run inline, one after another with its like.
void strand_run_on_loop(struct serving *s);

// Starts |s|, whose body has ended inline, and tells what runs next; NULL: nothing.
struct serving *strand_next_on_loop(struct serving *s);

#endif
