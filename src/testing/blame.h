// Whether what was done to the workers of a simulation explains an error: the error names one
// worker and what has become of it, "w2 (rank 1) was silent to w0 for 6.2 s", and both must be true
// by the time that the error is there. Node n of the simulation is called "wn".
//
//     if (!blame_explains(gw_scope_error(s), &facts, involved)) fail_msg(...);
//
// Threads: any of the simulation.
#ifndef TESTING_BLAME_H
#define TESTING_BLAME_H

#include "testing/sim.h"
#include <gradwire/status.h>

typedef enum blame_reason {
    BLAME_NONE,     // the text names nobody
    BLAME_ENDED,    // its process has ended
    BLAME_SILENT,   // it was silent, or did not answer
    BLAME_CUT_OFF,  // it heard too few others
    BLAME_ALONE,    // all others had ended when it asked them
    BLAME_LEFT,     // it leaves, or has left
} blame_reason;

typedef struct blame {
    blame_reason reason;
    int node;
} blame;

// What the test knows.
typedef struct blame_facts {
    const sim *sim;
    int count;       // of workers, on nodes 0 to |count| - 1
    uint64_t ended;  // nodes whose workers leave or have ended by themselves, as bits
    uint64_t late;   // nodes whose workers had not come when others waited to hear them
    bool lost_most;  // the others of a worker may seem to be cut off for another reason
} blame_facts;

enum { BLAME_EVERYBODY = -1 };

// What the sentence of an error says in the end, behind the names of those that pass it on.
blame blame_in(const char *text);

// Whether |node| may be gone for others: its process has ended, or it has been stopped or parted
// from others for so long that it may be fenced.
bool blame_may_be_gone(const blame_facts *f, int node);

// Whether an error by a lost worker, DISCONNECTED, REF_LOST or FENCED, is true. |involved|: the
// nodes that the operation goes through, as bits; BLAME_EVERYBODY: it is not known.
bool blame_explains(const gw_error *error, const blame_facts *f, int64_t involved);

#endif
