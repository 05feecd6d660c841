// The link: a small process next to each launcher of a job over several hosts. The launchers exchange messages through
// their links (docs/protocol/launcher.md).
//
// A link is a worker of a separate job that has a worker for each host. So the rules of membership determine which hosts
// are present, lost or cut off, and the messages are encrypted with the job's key, without a second protocol for either.
// The launcher itself runs no agent; it and its link send each other structs over a socket.
#ifndef GRADWIRE_LINK_H
#define GRADWIRE_LINK_H

#include <sys/types.h>

#include "hosts/heartbeat.h"
#include "hosts/message.h"
#include "options/run_options.h"

typedef struct link_options {
    const run_options *run;
    int port;            // of host 0
    const char *job_id;  // of host 0
    pid_t launcher;
    heartbeats *heartbeats;
    const char *mark;  // of the processes of this host's ranks
    int looks_fd;      // to the monitor (looks.h); -1: there is none
} link_options;

// Runs in a process of its own until the launcher closes the other end of |fd|.
_Noreturn void link_main(int fd, const link_options *o);

#endif
