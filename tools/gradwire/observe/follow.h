// A capture of a job that runs, for a time.
#ifndef GRADWIRE_FOLLOW_H
#define GRADWIRE_FOLLOW_H

#include "observe/capture.h"
#include "observe/find.h"

// |wanted|: as in find_job. Adds the processes of the job to |c|, also those that start meanwhile, and reads their records until
// |for_ms| have passed, all have done the wanted steps, no process of the job runs, or SIGINT, SIGTERM, SIGHUP or SIGUSR1 arrives; then
// levels are as before. |begun|: is called when the levels of all are on; may be NULL. Returns false, with a sentence, if there is no such
// job, or a process of it cannot be traced.
bool follow_job(capture *c, const char *wanted, int64_t for_ms, void (*begun)(int process_count),
                char *why, size_t why_size);

// The signal that has ended it; 0: none, or SIGUSR1, by which a program ends the trace that it has started.
int follow_signal(void);

#endif
