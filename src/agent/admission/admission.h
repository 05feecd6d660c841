// Admits workers to the group while this worker is its coordinator. docs/protocol/joining.md.
//
// Threads: with the loop lock. One thread of this file waits for join requests and for the store.
#ifndef AGENT_ADMISSION_ADMISSION_H
#define AGENT_ADMISSION_ADMISSION_H

#include "agent/state/agent.h"

// Starts the admission if this worker is the coordinator of a group. It hosts the group's store first, if the store is
// at an address and not hosted. Does nothing if the admission has been started.
void admission_check_on_loop(agent *a);

void admission_end_on_loop(agent *a);   // asks its thread to end, if there is one
void admission_join_on_loop(agent *a);  // waits until it is gone

#endif
