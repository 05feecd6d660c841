// A small process that outlives a killed launcher until it has killed the processes that the launcher has left behind.
//
// When the launcher is killed by SIGKILL, the kernel kills the ranks (PR_SET_PDEATHSIG), but not
// what they have started.
// The guard detects the launcher's end by the end of a pipe, and kills every process that has the job's mark in the
// environment it was started with.
#ifndef GRADWIRE_GUARD_H
#define GRADWIRE_GUARD_H

#include <stdbool.h>
#include <sys/types.h>

typedef struct guard {
    pid_t pid;  // 0: there is none
    int lifeline_fd;
} guard;

// |mark| occurs in the environment of no process yet. Returns false with errno.
bool guard_open(guard *g, const char *mark);
void guard_close(guard *g);

#endif
