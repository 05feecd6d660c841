// The workers of all hosts, for the monitor of this host: once a second the link requests a look (live/look.h) of each other link,
// and passes it to the monitor.
//
// Threads: the functions are called by the main thread of the link.
#ifndef GRADWIRE_LOOKS_H
#define GRADWIRE_LOOKS_H

#include <gradwire/scope.h>

#include <stdint.h>

// What is sent to the monitor, with a descriptor: a memfd that has the bytes of a look.
typedef struct looks_message {
    int32_t peer;  // of the link it is of
} looks_message;

// |mark|: of the job of this host, whose |expected| workers other hosts may look at.
void looks_init(const char *mark, int expected);

// Begins to look at other hosts in scopes inside |root|; |fd|: to the monitor, -1: this host has none.
void looks_open(gw_scope *root, int fd);
// After gw_rpc_leave, which ends its waits.
void looks_close(void);
void looks_stop(void);  // before it

#endif
