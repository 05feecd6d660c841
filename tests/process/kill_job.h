// A job of real processes of which one is killed at a failpoint, and what the others say about it.
#ifndef TESTS_KILL_JOB_H
#define TESTS_KILL_JOB_H

#include <stdbool.h>
#include <stdint.h>

enum { KILL_WORKERS_MAX = 4 };

typedef struct kill_case {
    const char *point;  // a name of src/base/failpoint.h's users
    int pass;           // it is killed when it comes there for this time
    int signal;  // SIGKILL, SIGTERM, SIGSTOP; a stopped one goes on once all others have an error
    int world_size, victim;
    bool tcp;     // the store is with rank 0, else in a file
    bool group;   // of members, instead of a job of a world size
    bool trains;  // all share a model, which worker0 trains
    bool lends;   // large tensors go to and fro, and some stay
    bool cuts;    // connections break again and again
    int pause_ms;  // it is stopped there so long, which nobody may take for its end; then it is killed
} kill_case;

// Runs the job. Fails the test if a survivor does not get the error that it should get, or if a
// process or file is left. Returns the nanoseconds between the signal and the last survivor's
// error.
int64_t kill_run(const kill_case *c);

// Writes "signal point microseconds" for each survivor to the file that GW_KILL_REPORT names, if it
// does.
void kill_report(const kill_case *c, int64_t latency_ns);

#endif
