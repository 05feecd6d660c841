// --health-check: a command that decides whether ranks start on this host (LAUN-46).
//
// Threads: one.
#ifndef GRADWIRE_HEALTH_H
#define GRADWIRE_HEALTH_H

#include "job/job.h"

// Waits until the check has passed, before this host takes part in the job. Returns false if a signal, or gradwire stop, has
// ended the wait; then |out_code| is the exit code.
bool health_await(job *j, int *out_code);

// A rank of this host has failed: the check must pass before a rank starts again.
void health_require(job *j);
bool health_is_awaited(const job *j);

// Starts the check when it is due, and kills one that takes too long. To be called at health_deadline_ms, INT64_MAX: never.
void health_run(job *j);
int64_t health_deadline_ms(const job *j);

// The process of the check has ended, and was waited for.
void health_ended(job *j, int status);

// Kills a check that runs.
void health_close(job *j);

#endif
