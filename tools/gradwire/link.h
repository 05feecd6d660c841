// The link: a small process beside each launcher of a job over several hosts, through which these
// launchers talk (docs/protocol/launcher.md).
//
// It is a worker of a job of its own, with a worker for each host: so who is there, who is lost and
// who is cut off is known by the rules of membership, and what is said is encrypted with the job's
// key, without a second protocol for either. The launcher itself uses nothing of the library; it
// and its link send each other structs over a socket.
#ifndef GRADWIRE_LINK_H
#define GRADWIRE_LINK_H

#include <sys/types.h>

#include "beats.h"
#include "run_options.h"

enum { LINK_TEXT_SIZE = 768, LINK_JOB_ID_SIZE = 48 };

typedef enum link_kind {
    LINK_READY,  // to the launcher: all are there; |number| is the port of rank 0, |text| the job's id
    LINK_CANNOT,  // to the launcher: they will not be; |text| says why
    LINK_FAILED,  // a host's part has failed, with exit code |number|: |text| says why
    LINK_SIGNAL,  // a user's signal |number| ends the job
    LINK_DONE,  // all ranks of a host have ended, the exit code is |number|; to the launcher: of all
    LINK_DEAD,  // a member is dead to the others, and may be of any host: its incarnation, and why
    LINK_ABSENT,  // a rank of a host has ended without having joined: |text| is the line for those that join
    LINK_LOST,  // to the launcher: |node| is gone; its own, that it is cut off itself
} link_kind;

typedef struct link_message {
    link_kind kind;
    int node;  // whom it is about
    int number;
    char text[LINK_TEXT_SIZE];
} link_message;

typedef struct link_options {
    const run_options *run;
    int port;            // of host 0
    const char *job_id;  // of host 0
    pid_t launcher;
    beats *beats;
} link_options;

// Runs in a process of its own until the launcher closes the other end of |fd|.
_Noreturn void link_main(int fd, const link_options *o);

#endif
