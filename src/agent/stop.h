// The end of operations: of those with a member that is lost, and of all when this worker leaves or is fenced
// (agent_leave_on_loop, agent_fence_on_loop).
//
// Threads: with the loop lock.
#ifndef AGENT_STOP_H
#define AGENT_STOP_H

#include "agent/agent.h"

// All operations with the member of rank |rank| end with |why|.
void stop_member_on_loop(agent *a, int rank, bool left, const gw_error *why);

#endif
