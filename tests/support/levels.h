// The levels of records of the workers of a job that runs.
#ifndef TESTS_LEVELS_H
#define TESTS_LEVELS_H

#include <stdint.h>
#include <sys/types.h>

// Of all of its workers; 0 if they differ.
uint32_t levels_of_job(pid_t launcher);

// Waits until all have these.
void await_levels_of_job(pid_t launcher, uint32_t levels);

#endif
