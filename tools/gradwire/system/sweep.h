// All processes below the launcher, however deep, whatever session or group they have moved to.
//
// The launcher is a subreaper (PR_SET_CHILD_SUBREAPER): a process whose parent has ended becomes
// its child, so that the tree under it stays whole and nothing started by a rank gets out of it.
#ifndef GRADWIRE_SWEEP_H
#define GRADWIRE_SWEEP_H

#include <sys/types.h>

enum { SWEEP_SPARED = 5 };

typedef struct sweep_options {
    pid_t spared[SWEEP_SPARED];  // these processes are left alone and not counted; 0: none
    const pid_t *spared_groups;  // these groups get no signal
    int spared_group_count;
} sweep_options;

// Sends |signal_number| (0: none) to all processes below this one. Returns how many live, -1 if it
// is not known.
int sweep(int signal_number, sweep_options options);

#endif
