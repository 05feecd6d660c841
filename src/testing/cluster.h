// A job of several workers in the simulator, from gw_rpc_init to the end of the root scopes.
//
//     static void play(gw_scope *root, int rank, void *context) {
//         if (rank == 0) assert_int_equal(gw_int_of(root, gw_rpc_sync(root, "w1", "answer")), 42);
//     }
//
//     cluster_run(seed, (cluster_options){ .world_size = 2 }, play, NULL);
//
// Workers are named w0, w1, ... Each runs the same main with its own root scope, then calls
// gw_rpc_shutdown. The test fails if the simulation does not end, or a worker's root scope has an error
// that its main has not cleared.
#ifndef TESTING_CLUSTER_H
#define TESTING_CLUSTER_H

#include "testing/sim.h"
#include <gradwire/collective.h>
#include <gradwire/ref.h>

enum { CLUSTER_WORKERS_MAX = 8, CLUSTER_NO_TIMEOUT = -1 };

typedef struct cluster_options {
    int world_size;
    int threads;         // worker threads of each pool; 0: the usual
    int64_t timeout_ms;  // of calls; 0: the usual; CLUSTER_NO_TIMEOUT
    const char *key;     // of the job, a file; NULL: none
    sim_options network;
    bool leaves[CLUSTER_WORKERS_MAX];        // by rank: closes its scope without gw_rpc_shutdown
    bool serves_later[CLUSTER_WORKERS_MAX];  // by rank
    bool fails;                              // the caller checks errors at the end
    sim_faults faults;                       // if it has nodes: a plan that the seed chooses
    void (*direct)(sim *s, void *context);   // plans more, before it begins; NULL: nothing
} cluster_options;

typedef struct cluster_outcome {
    gw_error errors[CLUSTER_WORKERS_MAX];
    gw_rpc_stats stats[CLUSTER_WORKERS_MAX];  // before shutdown
    int owned[CLUSTER_WORKERS_MAX];           // values kept for references, after shutdown
    bool crashed[CLUSTER_WORKERS_MAX];        // nothing else is recorded of these
    sim_counts counts;
    uint64_t trace_hash;
    int64_t took_ns;  // of virtual time
} cluster_outcome;

// Lets |ms| of virtual time pass. TIMEOUT, unless the scope around |s| ends before.
gw_error cluster_pause_ms(gw_scope *s, int64_t ms);
// The same, where nothing ends |s| before.
void cluster_sleep_ms(gw_scope *s, int64_t ms);

// The group of the |count| workers from rank |first| on. |timeout_ms|: 0 for that of the agent.
gw_group *cluster_open_group(gw_scope *s, int first, int count, const char *name,
                             int64_t timeout_ms);

// For workers that a test starts by itself, since they join at different times. Lets |ms| pass on |e| before the worker
// has an agent; opens worker "w<node>" of an elastic job, which node 0 creates and the others join.
void cluster_delay_ms(env *e, int64_t ms);
void cluster_join(gw_scope *root, env *e, int node);

typedef void cluster_main(gw_scope *root, int rank, void *context);

cluster_outcome cluster_run(uint64_t seed, cluster_options options, cluster_main *main,
                            void *context);

#endif
