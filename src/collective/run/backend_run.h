// A run whose values a backend moves: its steps after all members have entered, and its turn.
//
// An abort, or the end of the group, ends the collective for the program. If all members have entered the collective,
// it continues in the backend on all of them: a member that has begun the collective cannot stop, and the next call
// would be matched with the unfinished one. A run that continues after an abort is *detached*: its result is dropped.
//
// Ownership: the run owns this state, and each call under way holds a count; a group counts its detached runs. Threads:
// as runs; see collective/run/run.h.
#ifndef COLLECTIVE_RUN_BACKEND_RUN_H
#define COLLECTIVE_RUN_BACKEND_RUN_H

#include "collective/backend/backend.h"
#include "collective/run/run.h"

enum { BACKEND_HEAD_FIELDS = 2 + LIMIT_DIMS };  // of broadcast: dtype, dims, sizes

struct backend_run {
    // with the loop lock
    list_node link;  // among those that wait for their turn, in order
    run *run;
    int channel;  // -1: it has not entered
    bool has_queued, waits, has_ended;
    gw_error error;

    // the worker's; those of a call under way belong to the backend
    bool is_under_way;
    int phase;  // calls that have ended
    backend_call call;
    gw_tensor *pieces, *sums;  // of all members for this one, and their sum
    gw_tensor *result;
    uint64_t head[BACKEND_HEAD_FIELDS];
    uint64_t *sizes_from, *sizes_to, *rows, *own_rows;  // of each member
    // Of gathers: the bytes of each member, and whether they exceed one call.
    uint64_t *member_bytes;
    bool in_pieces;
    uint64_t arrays[];
};

// Whether a collective of |g| goes through its backend.
bool backend_takes(const gw_group *g, const run_request *x);
plan_kind backend_plan(const gw_group *g, const run_request *x);  // the plan of such a collective

bool backend_run_open(run *r);  // false without memory

// The run's worker: continues as far as possible. True: the result is complete, or |r->scope| has failed.
bool backend_run_continue(run *r);
gw_value backend_run_result(run *r);

// ---- backend_turn.c -----------------------------------------------------------------------------

// The run's worker: |r->backend->call| begins in its turn; the other function ends the turn after the last call.
void backend_start_call(run *r);
void backend_end_turn(run *r);

void backend_run_entered_on_loop(run *r);
// Whether a call has ended that the worker has not seen yet; marks it as seen.
bool backend_run_take_events_on_loop(run *r);
// The run is over.
void backend_run_forget_on_loop(run *r);
// An abort has ended |r|, and all members have entered the numbers below |all|, or may have: whether it continues in
// the backend.
bool backend_run_detaches_on_loop(const run *r, uint64_t all);

gw_status backend_group_open(gw_group *g, const char *name, gw_error *error);
void backend_group_close(gw_group *g);

#endif
