// The flight recorder of the job: what the workers of this host did last, from their memory (src/trace/layout.h), which
// outlives them.
//
// Threads: one.
#ifndef GRADWIRE_FLIGHT_H
#define GRADWIRE_FLIGHT_H

#include "job/job.h"

// Writes flight.gwt, of workers that run and that have ended. Of a program that is no worker nothing is written.
void flight_failed(job *j);  // a rank has failed; at most FLIGHTS_MAX times in a job
void flight_take_signal(job *j, int signal_number);  // prints the path
void flight_print_path(
    const job *j);  // of the file about the failure that ends the job, as the last line

// The process that traces the job (--trace) has ended.
void flight_lose_trace(job *j);

// Prints who waits for whom, once, when no call and no collective has ended for --hang-after while a worker waits. To be
// called at hang_deadline_ms; INT64_MAX: never.
void hang_check(job *j);
int64_t hang_deadline_ms(const job *j);

// The same before the launcher kills a process that is |how|, with what this one does: later nothing is known of it. At most
// FLIGHTS_MAX times in a job; nothing if no rank is a worker.
void hang_before_kill(job *j, pid_t pid, const char *how);

// The same with the stacks of the process, which takes up to 3 s.
void hang_before_kill_with_stacks(job *j, pid_t pid, const char *how);

#endif
