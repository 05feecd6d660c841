// Messages between the agent and its peers, itself included. agent.h has the functions with which services send.
//
// Threads: with the loop lock.
#ifndef AGENT_DISPATCH_H
#define AGENT_DISPATCH_H

#include "agent/agent.h"

// Called by the sessions; |user| is the agent.
void dispatch_receive(void *user, int from, message *m);

// Hands |m|, which it takes, to the service of its kind; a sender that breaks the protocol is lost.
void dispatch_on_loop(agent *a, int from, message *m);
void dispatch_protocol_error_on_loop(agent *a, int rank, const gw_error *why);
void dispatch_writable(void *user, int rank);

// Drops messages of this worker to itself that are not handled yet.
void dispatch_drop_loopback(agent *a);

message *dispatch_make_spare(void);  // NULL without memory

#endif
