// All groups of an agent: the state of their service.
//
// Threads: with the loop lock.
#ifndef COLLECTIVE_GROUPS_STATE_H
#define COLLECTIVE_GROUPS_STATE_H

#include "collective/group.h"

// Gives |g| its id, and takes in what came for it early. DUPLICATE, LIMIT, NO_MEMORY, DISCONNECTED,
// WRONG_STATE.
gw_status groups_add_on_loop(gw_group *g, gw_error *error);
void groups_remove_on_loop(gw_group *g);
// The next one behind |*at|, which begins with 0; NULL at the end.
gw_group *groups_next_on_loop(const agent *a, size_t *at);

#endif
