// Watches: events of membership on their way to the program; lists of members.
//
// Threads: functions whose names end with _on_loop with the loop lock, others without it.
#ifndef AGENT_CHANGES_MEMBER_EVENTS_H
#define AGENT_CHANGES_MEMBER_EVENTS_H

#include "agent/state/agent.h"
#include <gradwire/membership.h>

void watches_notify_on_loop(agent *a, gw_member_event_kind kind, int rank);

// All workers of a job of known size, in the order of ranks, those that are gone too; of another job the present ones.
// Belongs to |s|.
const gw_worker *agent_workers_of_job(gw_scope *s, int *out_count);

// Ends the waits for events.
void watches_close_on_loop(agent *a);

#endif
