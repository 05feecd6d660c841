// The store of a group that has addresses: the coordinator of the group hosts the store at the first address at which
// it can listen. docs/protocol/joining.md (JOIN-3).
//
// Threads: with the loop lock.
#ifndef AGENT_ADMISSION_GROUP_STORE_H
#define AGENT_ADMISSION_GROUP_STORE_H

#include "agent/state/agent.h"

// How long a joining worker waits for the next coordinator to host the store, once the last one is lost: several times
// as long as the members need to detect the loss.
enum { STORE_MOVES_MS = 30000 };

// Listens at one of |a->group_addresses| and hosts the store there, without the key `job` at first. Fails as listening
// does, with the error of each address.
gw_status group_store_open_on_loop(agent *a, gw_error *error);

// Sets the key `job`: from here on others can join.
gw_status group_store_write_job_on_loop(agent *a, gw_error *error);

#endif
