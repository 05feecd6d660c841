// Ranks that make no step while other ranks wait for them (--progress-timeout, LAUN-45).
//
// Threads: one.
#ifndef GRADWIRE_HUNG_H
#define GRADWIRE_HUNG_H

#include "job/job.h"

// Kills each rank that has made steps, but has ended nothing for --progress-timeout, while other ranks of this host have
// waited for it as long. To be called at hung_deadline_ms, INT64_MAX: never. If a call is late, the delay does not count.
void hung_end(job *j);
int64_t hung_deadline_ms(const job *j);

#endif
