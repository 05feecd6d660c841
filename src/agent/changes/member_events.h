// Watches: events of membership on their way to the program.
//
// Threads: with the loop lock.
#ifndef AGENT_CHANGES_MEMBER_EVENTS_H
#define AGENT_CHANGES_MEMBER_EVENTS_H

#include "agent/state/agent.h"
#include <gradwire/membership.h>

void watches_notify_on_loop(agent *a, gw_member_event_kind kind, int rank);

// Ends the waits for events.
void watches_close_on_loop(agent *a);

#endif
