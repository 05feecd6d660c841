// Simulated workers that wait for each other until no message is under way: then kept and freed memory can be checked.
//
//     quiescence rest = { .sim = sim, .delay_max_ns = ..., .count = 4, .is_out = is_out, .context = scene };
//     if (quiescence_await(&rest, env, rank)) look_at(scene);  // on each worker
//
// Ownership: a plain value of the test. Threads: those of the simulation, which run one at a time.
#ifndef TESTING_QUIESCENCE_H
#define TESTING_QUIESCENCE_H

#include "testing/sim.h"

enum { QUIESCENCE_WORKERS_MAX = 12 };

typedef struct quiescence {
    // arguments
    sim *sim;
    int64_t delay_max_ns;  // of the network
    int count;             // of workers
    bool (*is_out)(const void *context,
                   int worker);  // no worker waits for it: it has ended, or has crashed
    const void *context;

    // progress
    int phases[QUIESCENCE_WORKERS_MAX];  // how often each has arrived
    int checked;                         // and how often one has checked
} quiescence;

// Waits until all remaining workers have arrived as often as |worker|, and then for as long as past faults may take
// to reach all. True for the first of them, which is to check.
bool quiescence_await(quiescence *q, env *e, int worker);

// Lets |ns| of virtual time pass.
void sim_pass_time(env *e, int64_t ns);

#endif
