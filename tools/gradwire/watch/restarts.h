// Ranks that start again after a failure: docs/protocol/launcher.md. The rules are options/budget.h, and options/policy.h for
// all ranks together. In a job over several hosts host 0 applies them (hosts/coordinator.h), and decides for all hosts.
#ifndef GRADWIRE_RESTARTS_H
#define GRADWIRE_RESTARTS_H

#include "job/job.h"

// |r| has failed, as |why| describes. Returns whether it, or all ranks, start again, and prints so; or whether host 0 decides
// that. Otherwise the failure ends the job, and the reason is added to |why|, of |size| bytes.
bool restarts_take_failure(job *j, rank *r, char *why, size_t size);

// What host 0 has decided: a rank of any host starts again, or all ranks do.
void restarts_take_one(job *j, const link_message *m);
void restarts_take_all(job *j, const link_message *m);

// All processes of all ranks of this host have ended, and all ranks are to start again: they do so once this is so on all
// hosts, by
void restarts_end_round(job *j);
void restarts_begin_round(job *j);

// Starts the ranks that are due. False: they cannot start, for the reason in |refusal| of the job; then |out_code| is the exit
// code.
bool restarts_start(job *j, int *out_code);

// A rank whose failure host 0 has not decided about for long; NULL: none.
rank *restarts_find_undecided(job *j);

bool restarts_are_awaited(const job *j);
int64_t restarts_deadline_ms(const job *j);  // of restarts_start; INT64_MAX: none

#endif
