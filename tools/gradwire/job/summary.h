// The block at the end of a job that has failed: the first failure, with all that is known about it.
#ifndef GRADWIRE_SUMMARY_H
#define GRADWIRE_SUMMARY_H

#include "job/job.h"

// Prints it, for a job with restarts or with --log-dir. |r|: the rank that failed first.
void summary_print(job *j, const rank *r);

#endif
