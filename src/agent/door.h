// The door of a group that is met at addresses: the group's store, which its coordinator hosts at
// the first of them that it can have. docs/protocol/joining.md (JOIN-3).
//
// Threads: with the loop lock.
#ifndef AGENT_DOOR_H
#define AGENT_DOOR_H

#include "agent/agent.h"

// How long a worker that joins waits for the next coordinator to open the door, once the last one
// has gone: what it takes the members to miss that one, several times over.
enum { DOOR_MOVES_MS = 30000 };

// Listens at one of |a->door| and hosts the store there, which nobody has founded a group in yet.
// Fails as listening does, with what each address has answered.
gw_status door_open_on_loop(agent *a, gw_error *error);

// From here on others can come in: it is the group's.
gw_status door_write_job_on_loop(agent *a, gw_error *error);

#endif
