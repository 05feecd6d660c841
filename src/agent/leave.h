// Leaving, shared by the files that implement it: leave.c sends and handles the messages, leave_coordinator.c is the
// coordinator's part in leaving together, shutdown.c the program's. docs/protocol/shutdown.md has the states.
//
// Threads: with the loop lock.
#ifndef AGENT_LEAVE_H
#define AGENT_LEAVE_H

#include "agent/context.h"

// Messages about leaving.
typedef enum leaving_kind {
    KIND_ASK_LEAVE = 8,
    KIND_ALL_ASKED,
    KIND_WAVE,
    KIND_STATE,
    KIND_LEAVE,
    KIND_MISSING
} leaving_kind;

static inline bool leaving_is_kind(uint8_t kind) {
    return kind >= KIND_ASK_LEAVE && kind <= KIND_MISSING;
}

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

// This worker may leave, with |error| if that is not NULL. The thread in gw_rpc_shutdown does the
// rest, since sessions do not end inside callbacks.
void leaving_finish_on_loop(agent *a, const gw_error *error);

bool leaving_is_idle(const agent *a);
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
void leaving_handle_on_loop(agent *a, int from, leaving_kind kind, reader *r);
void leaving_send_state_on_loop(agent *a);

// leave_coordinator.c; these functions do nothing on workers that are not the coordinator.
void coordinator_asked_on_loop(agent *a, int from, reader *r);
void coordinator_check_asked_on_loop(agent *a);
void coordinator_check_answered_on_loop(agent *a);
void coordinator_state_received_on_loop(agent *a, int from, reader *r);
// "w1, w2": the present members whose *ask leave* this worker has not received.
void coordinator_name_missing(const agent *a, char *out, size_t size);

#endif
