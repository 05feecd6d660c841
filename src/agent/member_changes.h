// Changes of the members: agent/members.h decides; services, watches and the launcher are notified.
//
// Threads: with the loop lock.
#ifndef AGENT_MEMBER_CHANGES_H
#define AGENT_MEMBER_CHANGES_H

#include "agent/agent.h"

// Opens |membership| for this worker, whose rank and addresses are known.
gw_status member_changes_open_on_loop(agent *a, bool joins, gw_error *error);

#endif
