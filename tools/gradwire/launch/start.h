// Starting ranks of a job, all or none.
#ifndef GRADWIRE_START_H
#define GRADWIRE_START_H

#include "job/job.h"

typedef enum start_result {
    START_OK,
    START_REFUSED,      // |out_code| is the exit code; the reason was printed
    START_INTERRUPTED,  // a signal that ends the job is pending
} start_result;

// Starts each rank that waits for it until |now_ms| (slot_is_due): in a process group of its own, killed by the kernel when
// the launcher ends in any way. They wait until all of them exist; then the first becomes the program, and if that
// works, the others do.
// Whatever the result, ranks with a pid have to be stopped and waited for.
start_result start_ranks(job *j, int64_t now_ms, int *out_code);

#endif
