// The inside of what an owner serves: objects of class gw.optimizer, and all of them of one agent.
//
// Ownership: a reference has the object. Threads: a method has the object's turn; what others look at is under the lock.
#ifndef DISTRIBUTED_OPTIM_OPTIMIZER_OWNER_H
#define DISTRIBUTED_OPTIM_OPTIMIZER_OWNER_H

#include "distributed/autograd/distributed_pass.h"
#include "distributed/optim/optimizer.h"
#include "distributed/optim/optimizers.h"
#include "distributed/optim/turns.h"
#include "optim/state.h"

#include <pthread.h>

enum { ENDED_MAX = 64 };

typedef struct outcome {
    uint64_t id, committed;
} outcome;

// All of an agent. The lock is a leaf, held for moments only: values are computed and put in place in the turns of the
// parameters, so that neither steps of other trainers nor methods that read them run meanwhile.
struct optimizers {
    pthread_mutex_t lock;
    list_node all;             // of served_optimizer
    outcome ended[ENDED_MAX];  // of those that staged steps, the last ones
    int ended_count;
};

typedef struct served_optimizer {
    gw_optimizer *optimizer;
    uint64_t id;
    turns turns;
    worker_set owners;
    uint64_t committed;  // the last ticket of a step that was staged
    bool is_fenced;      // another owner has been told so: it stays
    list_node link;
    bool computes;    // new values, now
    uint64_t staged;  // the ticket of the step between stage and commit; 0: none
    uint64_t over;    // tickets up to this one are not staged any more
    loaded load;      // a map between being checked and being taken over
    bool has_load;
} served_optimizer;

void optimizers_lock(const gw_scope *s);
void optimizers_unlock(const gw_scope *s);

// The options of one group, from |at| on in |list|.
bool served_read_options(gw_scope *s, const rule *r, const gw_list *list, int at,
                         optimizer_group *g);
void served_discard(served_optimizer *self);  // what is staged

// Methods: optimizer_served_step.c.
gw_value serve_stage(gw_scope *s, void *object, const gw_args *a);
gw_value serve_step(gw_scope *s, void *object, const gw_args *a);
gw_value serve_commit(gw_scope *s, void *object, const gw_args *a);
gw_value serve_abort(gw_scope *s, void *object, const gw_args *a);

#endif
