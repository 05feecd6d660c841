// What the launcher of a job over several hosts does because of the others.
//
// They end together: the first failure, a signal or the loss of a host ends the job on all of them,
// each says the same of it and has the same exit code. Host 0 decides which failure was the first.
#ifndef GRADWIRE_OTHERS_H
#define GRADWIRE_OTHERS_H

#include "job.h"

// Waits for the other hosts, if there are any. False: they did not come, or somebody did not want to
// wait; then |out_code| is the exit code.
bool others_meet(job *j, int *out_code);

// A rank has failed, or could not be started. Said here if this host is alone; else by all hosts,
// once they know which failure was the first.
void others_part_failed(job *j, int code, const char *why);

// The same with --on-failure=keep: said at once, where it happens, and the exit code of all when
// all have ended.
void others_keep_failure(job *j, int code, const char *why);

void others_take(job *j);  // what they have said

// This host's part is over: tells the others, and whether they are waited for.
bool others_are_awaited(job *j);
int64_t others_deadline_ms(const job *j);  // of that; INT64_MAX: none

#endif
