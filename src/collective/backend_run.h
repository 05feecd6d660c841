// A collective whose values a backend carries: what the run does once all members have entered, and
// when it may.
//
// A verdict, or the end of the group, ends what the program sees of it. If all members have entered it, it
// goes on in the backend all the same, on all of them: one that had begun it could not stop, and what
// comes behind it would be taken for a part of it. Such a run is *draining*: its result is dropped.
//
// Ownership: the run's, which each call under way counts; a group counts what is draining. Threads: as
// runs; see collective/run.h.
#ifndef COLLECTIVE_BACKEND_RUN_H
#define COLLECTIVE_BACKEND_RUN_H

#include "collective/backend.h"
#include "collective/run.h"

enum { BACKEND_HEAD_FIELDS = 2 + LIMIT_DIMS };  // of broadcast: dtype, dims, sizes

struct backend_run {
    // with the loop lock
    list_node link;  // among those that wait for their turn, in their order
    run *run;
    int channel;  // -1: it has not entered
    bool has_queued, waits, has_ended;
    gw_error error;

    // the worker's; those of a call under way belong to the backend
    bool is_under_way;
    int phase;  // calls that have ended
    backend_call call;
    gw_tensor *pieces, *sums;  // of all for this member, and what it has made of them
    gw_tensor *result;
    uint64_t head[BACKEND_HEAD_FIELDS];
    uint64_t *sizes_from, *sizes_to, *rows, *own_rows;  // of each member
    // Of gatherings: what each member has, and whether that is more than one call can carry.
    uint64_t *member_bytes;
    bool in_pieces;
    uint64_t arrays[];
};

// Whether a collective of |g| goes through its backend.
bool backend_takes(const gw_group *g, const run_request *x);
plan_kind backend_plan(const gw_group *g, const run_request *x);  // then

bool backend_run_open(run *r);  // false without memory
void backend_run_free(run *r);

// The run's worker: goes on as far as it can. True: the result is there, or |r->scope| has failed.
bool backend_run_continue(run *r);
gw_value backend_run_result(run *r);

// ---- backend_turn.c -----------------------------------------------------------------------------

// The run's worker: |r->backend->call| begins when it may; there is no more of them.
void backend_start_call(run *r);
void backend_end_turn(run *r);

void backend_run_entered_on_loop(run *r);
// Whether something has ended that the worker has not seen, which it has then.
bool backend_run_take_events_on_loop(run *r);
// The run is over.
void backend_run_forget_on_loop(run *r);
// A verdict has ended |r|, and all members have entered what is below |all|, or may have: whether it goes
// on in the backend.
bool backend_run_detaches_on_loop(const run *r, uint64_t all);
run *backend_find_detached_on_loop(const gw_group *g, uint64_t key, uint64_t number);  // NULL

gw_status backend_group_open(gw_group *g, const char *name, gw_error *error);
// Runs that all members have entered, and that are not over.
uint32_t backend_count_detached_on_loop(const gw_group *g);
// A member is lost, or has failed in the middle of a collective, or this one ends: what is under way may
// never end, and what is behind it would be taken for it, so that nothing is begun any more.
void backend_group_down_on_loop(gw_group *g);
void backend_group_close(gw_group *g);

#endif
