// The current activity of a worker's program, for members that wait for it: where its threads wait, and for which
// workers.
//
// Ownership: plain values. Threads: with the loop lock.
#ifndef COLLECTIVE_RUN_ACTIVITY_H
#define COLLECTIVE_RUN_ACTIVITY_H

#include "collective/run/run.h"

enum { ACTIVITY_WAITS_MAX = 8, ACTIVITY_RANKS_MAX = 16 };

// One collective of one group of the job.
typedef struct collective_id {
    uint64_t group, key, number;
} collective_id;

// A thread waits in a collective for members that have not entered it, given by their ranks in the job.
typedef struct activity_wait {
    collective_id in;
    char group_name[LIMIT_NAME_BYTES + 1];
    int count;
    int ranks[ACTIVITY_RANKS_MAX];
} activity_wait;

typedef struct activity {
    bool has_entered;  // the collective that the query is about
    char text[SIGNATURE_TEXT_MAX];
    int wait_count;
    activity_wait waits[ACTIVITY_WAITS_MAX];
} activity;

// Whether a thread waits for |r|, or for a pass that it is part of.
bool activity_waits_for(const run *r);
// Of this worker, which the sender of the query waits for in |about|.
void activity_read_on_loop(const agent *a, const collective_id *about, activity *out);

void activity_encode(bytes *out, const activity *x);
bool activity_decode(reader *in, activity *out);  // false if malformed

#endif
