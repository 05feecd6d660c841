// The post: messages between the agent and its peers, itself included. agent.h has what others send with.
//
// Threads: with the role.
#ifndef AGENT_DISPATCH_H
#define AGENT_DISPATCH_H

#include "agent/agent.h"

// What the sessions call; |user| is the agent.
void post_receive(void *user, int from, message *m);

// Does what |m| says, which it takes; whoever cannot be understood is lost.
void post_dispatch_on_loop(agent *a, int from, message *m);
void post_blame_on_loop(agent *a, int rank, const gw_error *why);
void post_room(void *user, int rank);

// Messages to oneself that have not come.
void post_drop_loopback(agent *a);

message *post_make_spare(void);  // NULL without memory

#endif
