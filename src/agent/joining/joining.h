// Finding the other workers, which fills the member table.
//
// Threads: with the loop lock.
#ifndef AGENT_JOINING_JOINING_H
#define AGENT_JOINING_JOINING_H

#include "agent/state/agent.h"

// In a job of known size (join.c).
gw_status join_on_loop(agent *a, const join_options *options, gw_error *error);

// In a group (group.c): as its first worker, or as one that joins.
gw_status group_found_on_loop(agent *a, const join_options *options, gw_error *error);
gw_status group_join_on_loop(agent *a, const join_options *options, gw_error *error);

#endif
