// Meetings: what several named workers do together, led by the lowest rank among them. docs/protocol/collectives.md.
#ifndef COLLECTIVE_LEADER_H
#define COLLECTIVE_LEADER_H

#include "agent/agent.h"

// What workers call to meet, like any other function; ends at one without a name.
extern const function gathering_functions[];

void gatherings_lost_on_loop(agent *a, int rank);
void gatherings_close_on_loop(agent *a, const gw_error *why);
void gatherings_free(agent *a);

#endif
