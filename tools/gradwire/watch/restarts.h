// Ranks that start again after a failure: docs/protocol/launcher.md. The rules are options/budget.h, and options/policy.h for
// all ranks together.
#ifndef GRADWIRE_RESTARTS_H
#define GRADWIRE_RESTARTS_H

#include "job/job.h"

// |r| has failed, as |why| describes. Returns whether it, or all ranks, start again, and prints so. Otherwise the failure
// ends the job, and the reason is added to |why|, of |size| bytes.
bool restarts_take_failure(job *j, rank *r, char *why, size_t size);

// All processes of all ranks have ended: each starts again.
void restarts_begin_round(job *j);

// Starts the ranks that are due.
void restarts_start(job *j);

bool restarts_are_awaited(const job *j);
int64_t restarts_deadline_ms(const job *j);  // of restarts_start; INT64_MAX: none

#endif
