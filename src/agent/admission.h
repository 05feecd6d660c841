// admission: lets others into the group while this worker is its coordinator.
// docs/protocol/joining.md.
//
// Threads: with the loop lock; it has one of its own, which waits for those who knock and for the
// store.
#ifndef AGENT_ADMISSION_H
#define AGENT_ADMISSION_H

#include "agent/agent.h"

// Has one if this worker is the coordinator of a group; it opens the group's door first, if that is
// an address and shut. Nothing else happens if there is one.
void admission_check_on_loop(agent *a);

void admission_end_on_loop(agent *a);   // tells it to go, if there is one
void admission_join_on_loop(agent *a);  // waits until it is gone

// The keys of the store: of a worker that wants to come in, and of the answer.
enum { DOOR_KEY_MAX = 32 };
void door_key(char key[DOOR_KEY_MAX], const char *what, uint64_t incarnation);

#endif
