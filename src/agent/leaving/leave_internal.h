// Shared by the files that implement leaving: leave.c sends and handles the messages, leave_coordinator.c is the
// coordinator's part in leaving together, shutdown.c the program's.
//
// Threads: with the loop lock.
#ifndef AGENT_LEAVING_LEAVE_INTERNAL_H
#define AGENT_LEAVING_LEAVE_INTERNAL_H

#include "agent/leaving/leave.h"
#include "agent/messages/kinds.h"

#define SECOND INT64_C(1000000000)

enum {
    LEAVE_TEXT_MAX = 512,
    PATIENCE_S = 1,    // until a worker reports that it is not idle
    BOUND_S = 30,      // the coordinator's, from *all asked* on; of one that leaves alone
    OWN_BOUND_S = 35,  // the others', in case they receive nothing from the coordinator
    GOODBYE_S = 1,     // for the last messages
    ANSWER_S = 1,      // for the names of those that are missing
    REMINDER_S = 10    // until a line names the missing workers
};

void leaving_set_timer(agent *a, timer *t, void (*fire)(timer *t), int64_t seconds);
void leaving_disarm(agent *a, timer *t);

leaving_sums leaving_sum(agent *a);     // of this worker, over the members of its view
bool leaving_together(const agent *a);  // it has called gw_rpc_shutdown

// Begins the leaving that the program has called for: of all workers together, or of this worker alone.
void leaving_ask_on_loop(agent *a);
void leaving_ask_alone_on_loop(agent *a);

// Requests from the coordinator the names of workers that have not called gw_rpc_shutdown: SHUT-10. The answer wakes the
// thread in gw_rpc_shutdown.
void leaving_ask_missing_on_loop(agent *a);

// Sends |to| a message of |kind| with the current state; later if there is no memory for it. The coordinator handles its
// own message at once.
void leaving_send_on_loop(agent *a, int to, leaving_kind kind);
void leaving_send_all_on_loop(agent *a, leaving_kind kind);

// leave_coordinator.c; these functions do nothing on workers that are not the coordinator.
void coordinator_asked_on_loop(agent *a, int from, reader *r);
void coordinator_check_asked_on_loop(agent *a);
void coordinator_check_answered_on_loop(agent *a);
void coordinator_state_received_on_loop(agent *a, int from, reader *r);
// "w1, w2": the present members whose *ask leave* this worker has not received.
void coordinator_name_missing(const agent *a, char *out, size_t size);

#endif
