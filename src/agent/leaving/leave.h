// Leaving: the events that other files pass to it. docs/protocol/shutdown.md has the states. Services call
// leaving_check_on_loop of state/agent.h.
//
// Threads: with the loop lock.
#ifndef AGENT_LEAVING_LEAVE_H
#define AGENT_LEAVING_LEAVE_H

#include "agent/state/agent.h"

gw_status leaving_received_on_loop(agent *a, int from, message *m, gw_error *error);  // takes |m|
void leaving_lost_on_loop(agent *a, int rank);
void leaving_coordinator_changed_on_loop(agent *a);

// This worker may leave, with |error| if that is not NULL. The thread in gw_rpc_shutdown does the
// rest, since sessions do not end inside callbacks.
void leaving_finish_on_loop(agent *a, const gw_error *error);
void leaving_stop_on_loop(agent *a);  // its timers

#endif
