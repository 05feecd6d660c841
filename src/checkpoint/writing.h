// A checkpoint of a group that is being written on this member: CKPT-3 to CKPT-9 of docs/protocol/checkpoint.md.
//
// Ownership: gw_checkpoint_begin makes it; once it has started, a job of the pool owns it. Threads: first the thread
// of the call, then that of the job; |future| and the state of the service with the loop lock.
#ifndef CHECKPOINT_WRITING_H
#define CHECKPOINT_WRITING_H

#include "agent/state/agent.h"
#include "agent/state/pool.h"
#include "checkpoint/home.h"
#include "checkpoint/index.h"
#include "future/future.h"

typedef struct writing {
    pool_job job;
    agent *agent;       // one count
    gw_future *future;  // one count
    gw_scope *scope;    // of the agent: has all texts, and the group

    // Arguments.
    const char *home;
    int64_t step;
    int keep;
    int64_t bytes_per_second;

    // The values of the call. Their tensors, which pin the blocks, are of |snapshot|.
    gw_scope *snapshot;  // inside |scope|; NULL: all is written
    checkpoint values, own;
    bool has_own;

    gw_group *group;  // of |scope|; NULL: this worker alone
    int rank, members;

    // Progress.
    home_draft draft;  // of rank 0
    const char *path;  // of the checkpoint
    int *writers;      // their ranks
    int writer_count;
    shares shares;
    part_facts *parts, *owns;  // by rank
    bool is_whole;             // on rank 0: its index has its name
} writing;

// The service: what is being written keeps the worker from leaving.
typedef struct writings {
    int count;
    _Atomic bool stops;  // the agent has left, or is fenced
} writings;

extern const service_data writings_data;
extern const service checkpoint_service;

void writing_start(writing *w);  // takes |w|
void writing_free(writing *w);   // one that has not started

#endif
