// Events of the sessions, and messages of this worker to itself.
//
// Threads: with the loop lock, except for receive_loopback.
#ifndef AGENT_DISPATCH_RECEIVE_H
#define AGENT_DISPATCH_RECEIVE_H

#include "agent/state/agent.h"

// Called by the sessions; |user| is the agent.
void receive_message(void *user, int from, message *m);
void receive_writable(void *user, int rank);

// The task |loopback_task| of the agent.
void receive_loopback(task *t);

#endif
