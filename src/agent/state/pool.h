// The pool: threads for bodies that wait or compute. docs/protocol/calls.md.
//
// Threads: with the loop lock held, except for the jobs' |run|.
#ifndef AGENT_STATE_POOL_H
#define AGENT_STATE_POOL_H

#include "base/env.h"

typedef struct pool_job {
    list_node link;
    int depth;
    bool (*taken)(
        struct pool_job
            *j);  // with the loop lock, when a thread has taken it; false: not to be run now
    void (*run)(struct pool_job *j);  // without it
} pool_job;

typedef struct pool {
    env *env;
    int slots;
    int busy;          // jobs that run
    int started;       // jobs that run or wait
    int thread_count;  // all
    int roused;        // threads woken or made that have not checked the queue yet
    list_node queue;   // of pool_job
    int queue_count;
    list_node idle;     // of pool_thread, latest first
    list_node errands;  // of task
    bool taking;        // a job's |taken| is being called
    bool ending;
    waiter *closer;
} pool;

void pool_init(pool *p, env *e, int slots);

// At the start: the one thread that is always idle. The pool adds others by itself.
gw_status pool_add_thread_on_loop(pool *p, gw_error *error);

void pool_submit_on_loop(pool *p, pool_job *j);

// Runs |t| soon, at the end of this turn; if this thread is about to run a job, on another thread, since the effects of the
// job must follow its start.
void pool_run_soon_on_loop(pool *p, task *t);

bool pool_withdraw_on_loop(pool *p, pool_job *j);  // false if it was taken already

// Around a wait of a job's thread.
void pool_give_place_on_loop(pool *p);
void pool_regain_place_on_loop(pool *p);

// Ends the threads; those that run a job end with it. Jobs in the queue are the caller's again, by
// pool_take_on_loop.
void pool_end_on_loop(pool *p);
pool_job *pool_take_on_loop(pool *p);
void pool_join_on_loop(pool *p);  // waits until no thread is left

#endif
