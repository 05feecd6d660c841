// Meetings: what several named workers do together, led by the lowest rank among them. docs/PROTOCOL.md, "Meetings".
#ifndef RPC_GATHER_H
#define RPC_GATHER_H

#include "rpc/agent.h"

// The library's own functions of this name, which are called like any other; NULL: none.
const function *gathering_find_function(const char *name);

void gatherings_lost_on_loop(agent *a, int rank);
void gatherings_close_on_loop(agent *a, const gw_error *why);
void gatherings_free(agent *a);

#endif
