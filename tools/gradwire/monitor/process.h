// The monitor of gradwire run: a process that serves the page of the job while the launcher runs.
//
// The job does not depend on it. If it ends, the launcher starts it once more, with the same address and key.
//
// Ownership: run.c opens and closes it. Threads: one.
#ifndef GRADWIRE_MONITOR_PROCESS_H
#define GRADWIRE_MONITOR_PROCESS_H

#include <sys/types.h>

#include "monitor/listen.h"

typedef struct monitor_process {
    pid_t pid;  // 0: there is none
    int lifeline_fd;
    bool was_restarted;
    monitor_site site;
    // arguments
    const char *mark;  // of the processes of the job; it outlives this
    int expected;      // workers of this host
    int looks_fd;      // on which looks at other hosts arrive; -1: the job has one host
} monitor_process;

// |m| has its arguments. Returns false, with a sentence in |why|.
bool monitor_process_open(monitor_process *m, const monitor_options *o, char *why, size_t why_size);
void monitor_process_close(monitor_process *m);

// It has ended, and was waited for. Returns whether it runs again.
bool monitor_process_restart(monitor_process *m);

#endif
