// Several jobs at once on threads of the pool.
#ifndef PARALLEL_THREAD_TEAM_H
#define PARALLEL_THREAD_TEAM_H

#include "agent/state/agent.h"

// Calls |run| for each number from |first| up to |end|, and behind the last of them |done|, which may
// free |context|; on any threads. False without memory, and nothing is called.
bool thread_team_start(agent *a, int first, int end, void (*run)(void *context, int number),
                       void (*done)(void *context), void *context);

#endif
