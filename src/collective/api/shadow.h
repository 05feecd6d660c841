// Shadow collectives: a member without inputs enters the collectives of the other members with neutral inputs, so that
// the other members do not wait. UNEVEN-4 of docs/protocol/replicas.md.
//
// Threads: as stated at each function.
#ifndef COLLECTIVE_API_SHADOW_H
#define COLLECTIVE_API_SHADOW_H

#include "collective/group/group.h"

// From here on the agent shadows the groups with that list of members, except those of the library's own and those
// for which |is_known|; also enters that have arrived already. Without the loop lock.
void shadow_begin(agent *a, uint64_t list, bool (*is_known)(void *context, const gw_group *g),
                  void *context);
// Returns when all enters that have arrived are answered. The program need not read the errors of aborts that have
// arrived meanwhile. Without the loop lock, on a thread that may wait.
void shadow_end(agent *a, uint64_t list);

#endif
