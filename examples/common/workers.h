// Starting the workers of one job on this machine, when no launcher did.
#ifndef WORKERS_H
#define WORKERS_H

#include <gradwire.h>

// Runs |work| in |world_size| child processes, with the job's place in RANK, WORLD_SIZE and
// |init_method|. The first that fails ends the others; one that hangs is ended once the others have
// declared it dead, which is a failure. Returns its exit code, 128 + signal if it
// was killed, which is said, 0 if none failed.
int workers_run(int world_size, int (*work)(const char *init_method, void *context), void *context);

#endif
