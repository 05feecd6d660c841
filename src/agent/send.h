// Sending messages. agent.h has the functions with which services send.
//
// Threads: with the loop lock.
#ifndef AGENT_SEND_H
#define AGENT_SEND_H

#include "agent/awaits.h"
#include "agent/leave.h"

message *send_make_spare(void);  // NULL without memory

// Whether it counts among those that leaving workers compare.
static inline bool send_is_counted(const message *m) {
    return !leaving_is_kind(m->kind) && !await_is_kind(m->kind);
}

// Drops messages of this worker to itself that are not handled yet.
void send_drop_loopback(agent *a);

#endif
