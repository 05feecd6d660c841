// The environment of a real process: the kernel's clock, threads and descriptors.
//
// Waiting threads make the progress: one of them at a time polls, preferably a thread that waits for a reply, else an
// idle thread. Both kinds of threads spin for a while before they sleep. While no thread waits nothing is read.
#ifndef NET_ENV_OS_H
#define NET_ENV_OS_H

#include "base/env.h"

// Fails with SYSTEM or NO_MEMORY.
gw_status env_os_open(env **out, gw_error *error);

// Tests: every connection is cut, as by a failing network, after its |count|-th send or receive;
// bytes on their way are lost. 0: never. The environment variable GW_TEST_CUT_EVERY sets it for a
// whole program.
void env_os_cut_every(env *e, int count);

// The cost of the loop so far; the counters do not change while nothing happens.
typedef struct env_os_counts {
    uint64_t polls;   // checks for ready sources
    uint64_t sleeps;  // times a thread went to sleep in the kernel
    uint64_t idles;   // of these, idle ones
    uint64_t kicks;   // sleeping threads woken by another
    uint64_t wakes;   // other processes notified to check their memory
} env_os_counts;

env_os_counts env_os_count(env *e);

#endif
