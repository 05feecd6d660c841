// Starts the workers of one job on this machine, when no launcher did.
#ifndef WORKERS_H
#define WORKERS_H

#include <gradwire.h>

// Runs |work| in |world_size| child processes, with RANK, WORLD_SIZE and |init_method| set. The first failure ends all
// workers; a worker that hangs is killed, and counts as failed, once other workers have declared it dead. Returns the
// exit code of the first failure (128 + signal for a killed worker, which is also printed), 0 if none failed.
int workers_run(int world_size, int (*work)(const char *init_method, void *context), void *context);

#endif
