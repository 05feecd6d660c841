// Signs of life of a launcher and its link (link.h): two counters in memory that both see. Each counts
// its own one up while it runs, and looks whether the other one's changes. So a process that is
// stopped is noticed although all its descriptors and connections are open.
//
// Ownership: nodes.c opens and closes them. Threads: any.
#ifndef GRADWIRE_BEATS_H
#define GRADWIRE_BEATS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum {
    BEAT_MS = 500,     // how often to count
    SILENT_MS = 7000,  // as long as a member may be silent (T_dead)
};

typedef struct beats {
    _Atomic uint32_t launcher, link;
} beats;

beats *beats_open(void);  // NULL, with errno
void beats_close(beats *b);

// One counter as the other process sees it.
typedef struct pulse {
    uint32_t last;
    int64_t changed_ms, looked_ms;  // 0: has not looked yet
} pulse;

// Whether |now| has not changed for SILENT_MS. When a look comes late, the delay is no silence: who
// looks has not run either.
bool pulse_is_silent(pulse *p, uint32_t now, int64_t now_ms);

#endif
