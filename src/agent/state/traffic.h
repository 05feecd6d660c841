// What an agent has exchanged with each other worker.
//
// Threads: with the loop lock.
#ifndef AGENT_STATE_TRAFFIC_H
#define AGENT_STATE_TRAFFIC_H

#include "agent/state/agent.h"

// With the member of rank |rank|, also after it was lost, and after this worker has left.
gw_peer_stats traffic_with(const agent *a, int rank);

// Keeps the counts of the peers, which are about to be closed.
void traffic_keep_on_loop(agent *a);

#endif
