// Answers of a member that has no part of its own in what the others enter: it brings nothing, so that
// they need not wait. UNEVEN-4 of docs/protocol/replicas.md.
//
// Threads: as the functions say.
#ifndef COLLECTIVE_SHADOW_H
#define COLLECTIVE_SHADOW_H

#include "collective/group.h"

// From here on the agent answers in the groups of that list of members, but those that a room has of
// its own and those for which |is_known|; what has come already, too. Without the loop lock.
void shadow_begin(agent *a, uint64_t list, bool (*is_known)(void *context, const gw_group *g),
                  void *context);
// Returns when all that has come is answered. What a verdict has said meanwhile the program need not
// know. Without the loop lock, where a thread may wait.
void shadow_end(agent *a, uint64_t list);

// An enter waits here, or may be answered now.
void shadow_enters_on_loop(gw_group *g);

#endif
