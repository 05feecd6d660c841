// The end of operations: of those with a member that is lost, and of all when this worker leaves or is fenced.
//
// Threads: with the loop lock.
#ifndef AGENT_CHANGES_STOP_H
#define AGENT_CHANGES_STOP_H

#include "agent/state/agent.h"

// Ends all operations with the member of rank |rank|, which is lost, with |why|.
void agent_stop_member_on_loop(agent *a, int rank, bool left, const gw_error *why);

// Fails all operations, and ends the sessions: nothing is sent or received any more. Not in callbacks.
void agent_leave_on_loop(agent *a);

// The same for a worker that is fenced, with |why|; also in callbacks.
void agent_fence_on_loop(agent *a, const gw_error *why);

#endif
