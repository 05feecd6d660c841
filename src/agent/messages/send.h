// Sending messages. state/agent.h has the functions with which services send.
//
// Threads: with the loop lock.
#ifndef AGENT_MESSAGES_SEND_H
#define AGENT_MESSAGES_SEND_H

#include "agent/state/agent.h"

message *send_make_spare(void);  // NULL without memory

// Drops messages of this worker to itself that are not handled yet.
void send_drop_loopback(agent *a);

#endif
