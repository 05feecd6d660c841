// Changes of the members: members/members.h decides; services, watches and the launcher are notified.
//
// Threads: with the loop lock.
#ifndef AGENT_CHANGES_MEMBER_CHANGES_H
#define AGENT_CHANGES_MEMBER_CHANGES_H

#include "agent/state/agent.h"

// Opens |membership| for this worker, whose rank and addresses are in the member table.
gw_status member_changes_open_on_loop(agent *a, bool joins, gw_error *error);

#endif
