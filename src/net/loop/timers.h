// Armed timers in the order in which they are due: a pairing heap (Fredman, Sedgewick, Sleator,
// Tarjan, 1986) whose nodes are the timers themselves, so that arming needs no memory.
// Arming and disarming a timer that is not the earliest, as a call with a deadline does, takes
// few instructions.
#ifndef NET_LOOP_TIMERS_H
#define NET_LOOP_TIMERS_H

#include "base/env.h"

// Zero-initialised. Its owner decides who may touch it.
typedef struct timers {
    timer *first;       // the earliest; NULL when none is armed
    uint64_t order;     // timers due at the same time fire in the order in which they were armed
    int64_t firing_ns;  // while some fire
} timers;

// Arms |t|, again if it was armed; ENV_NEVER disarms.
void timers_set(timers *all, timer *t, int64_t due_ns);

// When the earliest is due; ENV_NEVER when none is armed.
static inline int64_t timers_due_ns(const timers *all) {
    return all->first ? all->first->due_ns : ENV_NEVER;
}

// Disarms and returns the earliest if it is due at |now_ns|, else NULL.
timer *timers_take_due(timers *all, int64_t now_ns);

// Fires all that are due. Those armed meanwhile fire in the next call, after others that have
// become due by then, so that a timer that always rearms itself at once does not keep the others
// from firing.
void timers_fire_due(timers *all, int64_t now_ns);

#endif
