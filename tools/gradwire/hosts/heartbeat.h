// The heartbeats of a launcher and its link (link.h): two counters in memory that both processes share. Each process
// increments its own counter while it runs, and checks whether the counter of the other process changes. So a stopped
// process is noticed although all its descriptors and connections are open.
//
// Ownership: nodes.c opens and closes them. Threads: any.
#ifndef GRADWIRE_HEARTBEAT_H
#define GRADWIRE_HEARTBEAT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum {
    HEARTBEAT_MS = 500,  // how often a process increments its counter
    SILENT_MS = 7000,    // as long as a member may be silent (T_dead)
};

typedef struct heartbeats {
    _Atomic uint32_t launcher, link;
} heartbeats;

heartbeats *heartbeats_open(void);  // NULL, with errno
void heartbeats_close(heartbeats *b);

// One counter as the other process sees it.
typedef struct heartbeat_check {
    uint32_t last;
    int64_t changed_ms, checked_ms;  // 0: not checked yet
} heartbeat_check;

// Whether |now| has not changed for SILENT_MS. When a check is late, the delay is no silence: the process that checks
// has not run either.
bool heartbeat_is_silent(heartbeat_check *p, uint32_t now, int64_t now_ms);

#endif
