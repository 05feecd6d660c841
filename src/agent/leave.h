// Leaving, between the files that do it: leaving.c tells and is told, coordinator.c is the
// coordinator's part in leaving together, shutdown.c the program's. docs/protocol/shutdown.md, has
// the states.
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
    PATIENCE_S = 1,  // until a worker says that it is not idle
    BOUND_S = 30,    // the coordinator's, from the moment all have asked; of one that leaves alone
    OWN_BOUND_S = 35,  // the others', in case they do not hear from it
    GOODBYE_S = 1,     // for the last messages
    ANSWER_S = 1,      // for the names of those that are missing
    REMINDER_S = 10    // until a line says who is missing
};

void leaving_set_timer(agent *a, timer *t, void (*fire)(timer *t), int64_t seconds);
void leaving_disarm(agent *a, timer *t);

// This worker may leave, with |error| if that is not NULL. The thread in gw_rpc_shutdown does the
// rest, since sessions do not end inside callbacks.
void leaving_finish_on_loop(agent *a, const gw_error *error);

bool leaving_is_idle(const agent *a);
leaving_sums leaving_sum(agent *a);     // of this worker, over the members as it knows them
bool leaving_together(const agent *a);  // it has asked for shutdown

// Waits for the end of what the program has asked for: everybody's leaving, or this worker's alone.
void leaving_ask_on_loop(agent *a);
void leaving_ask_alone_on_loop(agent *a);

// Asks the coordinator who has not called gw_rpc_shutdown: SHUT-10. The thread in it is woken by the answer.
void leaving_ask_missing_on_loop(agent *a);

// Tells |to| what there is to tell; again later if there is no memory for it. The coordinator tells
// itself at once.
void leaving_tell_on_loop(agent *a, int to, leaving_kind kind);
void leaving_tell_all_on_loop(agent *a, leaving_kind kind);
void leaving_told_on_loop(agent *a, int from, leaving_kind kind, reader *r);
void leaving_send_state_on_loop(agent *a);

// coordinator.c; they do nothing on workers that are not the coordinator.
void coordinator_asked_on_loop(agent *a, int from, reader *r);
void coordinator_check_asked_on_loop(agent *a);
void coordinator_check_answered_on_loop(agent *a);
void coordinator_state_came_on_loop(agent *a, int from, reader *r);
// "w1, w2": those that are there and have not asked, as far as this worker has heard.
void coordinator_name_missing(const agent *a, char *out, size_t size);

#endif
