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
#include "options/run_options.h"

enum { LINK_TEXT_SIZE = 768, LINK_JOB_ID_SIZE = 48 };

typedef enum link_kind {
    LINK_READY,  // to the launcher: all hosts have met; |number| is the port of rank 0, |text| the job's id
    LINK_CANNOT,  // to the launcher: the hosts do not meet; |text| is the reason
    LINK_FAILED,  // the part of a host has failed, with exit code |number|; |text| is the reason
    LINK_SIGNAL,  // a user's signal |number| ends the job
    LINK_DONE,  // all ranks of a host have ended, the exit code is |number|; to the launcher: of all hosts
    LINK_DEAD,  // a member of any host was declared dead: its incarnation, and why
    LINK_ABSENT,  // a rank of a host has ended without having joined: |text| is the line for joining workers
    LINK_LOST,  // to the launcher: |node| is lost; if it is this host, this host is cut off
} link_kind;

typedef struct link_message {
    link_kind kind;
    int node;  // the host that the message is about
    int number;
    char text[LINK_TEXT_SIZE];
} link_message;

typedef struct link_options {
    const run_options *run;
    int port;            // of host 0
    const char *job_id;  // of host 0
    pid_t launcher;
    heartbeats *heartbeats;
} link_options;

// Runs in a process of its own until the launcher closes the other end of |fd|.
_Noreturn void link_main(int fd, const link_options *o);

#endif
