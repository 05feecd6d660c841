// Whether the faults of the workers of a simulation explain an error: the error names one
// lost worker and how it was lost, and both must be true by the time of the error. Node n
// of the simulation is called "wn".
//
//     if (!blame_explains(gw_scope_error(s), &facts, involved)) fail_msg(...);
//
// Threads: any of the simulation.
#ifndef TESTING_BLAME_H
#define TESTING_BLAME_H

#include "testing/sim.h"
#include <gradwire/status.h>

// The facts that the test has.
typedef struct blame_facts {
    const sim *sim;
    int count;       // of workers, on nodes 0 to |count| - 1
    uint64_t ended;  // nodes whose workers leave or have ended by themselves, as bits
    uint64_t late;   // nodes whose workers had not joined when others waited for them
    bool lost_most;  // the others of a worker may seem to be cut off for another reason
} blame_facts;

enum { BLAME_ANY = -1 };

// Whether |node| may be gone for others: its process has ended, or it has been stopped or parted
// from others for so long that it may be fenced.
bool blame_may_be_gone(const blame_facts *f, int node);

// Whether an error by a lost worker, DISCONNECTED, REF_LOST or FENCED, is true. |involved|: the
// nodes that the operation goes through, as bits; BLAME_ANY: any.
bool blame_explains(const gw_error *error, const blame_facts *f, int64_t involved);

#endif
