// What the program of a worker does, for others that wait for it: where its threads wait, and for whom.
//
// Ownership: plain values. Threads: with the loop lock.
#ifndef COLLECTIVE_DOING_H
#define COLLECTIVE_DOING_H

#include "collective/run.h"

enum { DOING_WAITS_MAX = 8, DOING_RANKS_MAX = 16 };

// One collective of one group of the job.
typedef struct collective_id {
    uint64_t group, key, number;
} collective_id;

// A thread waits in a collective for members that have not entered it, by their ranks in the job.
typedef struct doing_wait {
    collective_id in;
    char group_name[LIMIT_NAME_BYTES + 1];
    int count;
    int ranks[DOING_RANKS_MAX];
} doing_wait;

typedef struct doing {
    bool has_entered;  // what it is asked about
    char text[SIGNATURE_TEXT_MAX];
    int wait_count;
    doing_wait waits[DOING_WAITS_MAX];
} doing;

// Whether a thread waits for |r|, or for a pass that it is part of.
bool doing_waits_for(const run *r);
// Of this worker, when it is awaited in |about|.
void doing_look_on_loop(const agent *a, const collective_id *about, doing *out);

void doing_encode(bytes *out, const doing *x);
bool doing_decode(reader *in, doing *out);  // false for bytes that mean nothing

#endif
