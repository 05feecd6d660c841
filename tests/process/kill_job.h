// A job of real processes of which one is killed at a failpoint, and the reports of the others.
#ifndef TESTS_KILL_JOB_H
#define TESTS_KILL_JOB_H

#include <stdbool.h>
#include <stdint.h>

enum { KILL_WORKERS_MAX = 4 };

typedef struct kill_case {
    const char *point;  // a name of src/base/failpoint.h's users
    int pass;           // it is killed when it reaches the point for this time
    int signal;  // SIGKILL, SIGTERM, SIGSTOP; a stopped one continues once all others have an error
    int world_size, victim;
    bool tcp;     // the store is with rank 0, else in a file
    bool group;   // of members, instead of a job of a world size
    bool trains;  // all share a model, which worker0 trains
    bool lends;   // large tensors are sent and returned, and some are kept
    bool cuts;    // connections break again and again
    int pause_ms;  // it is stopped there for this time, in which no worker may declare it dead; then it is killed
} kill_case;

// Runs the job. Fails the test if a survivor does not get the expected error, or if a process or file is left. Returns
// the nanoseconds between the signal and the last survivor's error.
int64_t kill_run(const kill_case *c);

// Writes "signal point microseconds" for each survivor to the file of GW_KILL_REPORT, if that is set.
void kill_report(const kill_case *c, int64_t latency_ns);

#endif
