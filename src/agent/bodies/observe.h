// What tools see of this worker: while it has any activity, a table of its waits, bodies and counts is published once a
// second (trace/table.h). A worker without activity publishes one last table, and then none.
//
// Threads: with the loop lock.
#ifndef AGENT_BODIES_OBSERVE_H
#define AGENT_BODIES_OBSERVE_H

#include "agent/bodies/context.h"
#include "trace/table.h"

typedef struct observation {
    bytes table;
    int64_t now_ns;
    int count;  // of activities
    uint64_t counters[TRACE_COUNTERS];
    trace_peers peers;
    const trace_sums *sums[TRACE_SUM_KINDS];  // of services; NULL: none
} observation;

// An activity that was first seen at |*since_ns|; 0: now, which is then written there.
void observation_add(observation *out, trace_activity *activity, int64_t *since_ns);

// Its kind, as the wait of the body in |s|; with |what| cut where it is too long.
trace_activity activity_of(trace_activity_kind kind, const char *what, gw_scope *s);

// |origin|: "src/train.c:12"; may be NULL.
void activity_set_site(trace_activity *out, const char *origin);
// That the turn |t| is held by a body of this worker.
void activity_add_turn(trace_activity *out, const agent *a, const turn *t);

// The table of |a|, in |out->table|, which the caller frees.
void observe_on_loop(const agent *a, observation *out);

// An activity begins.
void observe_begin_on_loop(agent *a);

// When |a| is made, has its name and rank, and ends.
void observe_open(agent *a);
void observe_identify(const agent *a);
void observe_close_on_loop(agent *a);

#endif
