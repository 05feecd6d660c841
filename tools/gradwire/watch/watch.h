// Watching over a job until nothing of it is left.
#ifndef GRADWIRE_WATCH_H
#define GRADWIRE_WATCH_H

#include "job/job.h"

// Not all ranks could be started: those that exist are killed, and |code| will be the exit code.
void watch_start_failed(job *j, int code);

// Passes on output, input and signals, stops the job when it has to stop, and returns the exit code
// when it is over.
int watch(job *j);

#endif
