// The rank that the others wait for, step after step (--straggler, LAUN-48).
//
// Threads: one.
#ifndef GRADWIRE_STRAGGLERS_H
#define GRADWIRE_STRAGGLERS_H

#include "job/job.h"

// Names a straggler, once for each attempt, and asks it to leave if it is to be replaced. To be called at
// stragglers_deadline_ms; INT64_MAX: never.
void stragglers_check(job *j);
int64_t stragglers_deadline_ms(const job *j);

// |r| has ended: its next attempt follows if it has left as a straggler.
void stragglers_replace(job *j, rank *r);

#endif
