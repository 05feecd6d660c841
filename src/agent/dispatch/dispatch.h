// Hands messages to the services.
//
// Threads: with the loop lock.
#ifndef AGENT_DISPATCH_DISPATCH_H
#define AGENT_DISPATCH_DISPATCH_H

#include "agent/state/agent.h"

// Hands |m|, which it takes, to the service of its kind; a sender that breaks the protocol is lost.
void dispatch_on_loop(agent *a, int from, message *m);
void dispatch_protocol_error_on_loop(agent *a, int rank, const gw_error *why);

#endif
