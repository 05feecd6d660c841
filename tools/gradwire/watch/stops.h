// Ranks that are stopped (SIGSTOP, SIGTSTP). The members of a job find a member that does not run (LAUN-2); nothing but its launcher
// finds a rank that has not joined yet, or has left and does not end. The kernel reports stops to the launcher, which reads
// the clock only while a rank is stopped.
//
// Threads: one.
#ifndef GRADWIRE_STOPS_H
#define GRADWIRE_STOPS_H

#include "job/job.h"

// Notes which ranks have been stopped and continued since the last call.
void stops_take(job *j);

// Kills each rank that has been stopped for SILENT_MS and that other ranks wait for (LAUN-13). To be called at
// stops_deadline_ms, INT64_MAX while no rank is stopped: if a call is late, the delay does not count.
void stops_end(job *j);
int64_t stops_deadline_ms(const job *j);

#endif
