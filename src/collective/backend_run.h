// A collective whose values a backend carries: what the run does once all members have entered.
//
// Ownership: the run's, which each call under way counts. Threads: as runs; see collective/run.h.
#ifndef COLLECTIVE_BACKEND_RUN_H
#define COLLECTIVE_BACKEND_RUN_H

#include "collective/backend.h"
#include "collective/run.h"

// Whether a collective of |g| goes through its backend.
bool backend_takes(const gw_group *g, const run_request *x);
plan_kind backend_plan(const gw_group *g, const run_request *x);  // then

bool backend_run_open(run *r);  // false without memory
void backend_run_free(run *r);

// The run's worker: goes on as far as it can. True: the result is there, or |r->scope| has failed.
bool backend_run_continue(run *r);
gw_value backend_run_result(run *r);

void backend_run_entered_on_loop(run *r);
// What goes with its enters: of how many verdicts this member knew. False: what has come is none.
gw_value backend_run_enter_value(const run *r);
bool backend_run_take_enter(run *r, gw_value v);
// Whether something has ended that the worker has not seen, which it has then.
bool backend_run_take_news_on_loop(run *r);
// The run is over, before its time.
void backend_run_forget_on_loop(run *r);

gw_status backend_group_open(gw_group *g, const char *name, gw_error *error);
void backend_group_close(gw_group *g);

#endif
