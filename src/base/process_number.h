// Whether fork has made this process since it, or a process before it, has joined a job. What the library holds from before
// the fork stays as it is then: its locks may have been held by threads that this process does not have, and its
// connections are the parent's.
//
// Threads: any.
#ifndef BASE_PROCESS_NUMBER_H
#define BASE_PROCESS_NUMBER_H

#include <stdint.h>

// The number of forks between the process that began to count and this one. Changed by fork alone.
extern uint32_t process_number;

void process_number_count(void);  // begins to count

#endif
