// The events that workers of the job report to the launcher, about joining and about each other, if they use gradwire:
// docs/protocol/launcher.md. The launcher works without them.
#ifndef GRADWIRE_EVENTS_H
#define GRADWIRE_EVENTS_H

#include "system/channels.h"

enum { EVENT_TEXT_SIZE = 512 };

typedef enum event_kind {
    EVENT_JOINS,    // the sender wants to become a member, or
    EVENT_JOINED,   // is one, or
    EVENT_REFUSED,  // did not become one
    EVENT_DEAD,     // the sender has declared that member dead, since it was silent
    EVENT_LOST,     // the sender has lost that member: it has ended, or was declared dead
    EVENT_FAILED,  // the program of the sender has failed, by an error that arose in that member (WAIT-6), or
    EVENT_CONTINUES,  // has failed no longer
    EVENT_ELASTIC,    // the sender is a member of an elastic job, or
    EVENT_LEFT,       // has left its job, by gw_rpc_shutdown or gw_rpc_leave, or
    EVENT_FINISHED,   // has done the work of an elastic job, with all others
    EVENT_STOP,       // gradwire stop: the job is to end
} event_kind;

typedef struct worker_event {
    event_kind kind;
    uint64_t incarnation;  // of the member that the event is about
    const channel *from;
    char why[EVENT_TEXT_SIZE];
} worker_event;

bool events_take(channels *c, worker_event *out);  // false: there is none now

#endif
