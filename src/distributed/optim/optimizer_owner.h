// The owner side of optimizers: objects of class gw.optimizer, and the list of them on one agent.
//
// Ownership: references keep the object. Threads: a method has the object's turn; fields that other
// optimizers read are under the lock.
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

// All optimizers whose parameters the agent owns. The lock is a leaf and is held for moments only:
// a step computes values and puts them in place in the turns of the parameters, so neither steps of
// other trainers nor methods that read the parameters run meanwhile.
struct optimizers {
    pthread_mutex_t lock;
    list_node all;             // of owned_optimizer
    outcome ended[ENDED_MAX];  // the last ended objects that have committed a transaction
    int ended_count;
};

typedef struct owned_optimizer {
    gw_optimizer *optimizer;
    uint64_t id;
    turns turns;
    worker_set owners;
    uint64_t committed;  // the last transaction that this owner has committed
    bool is_fenced;      // another owner has queried |committed|, so it must not change any more
    list_node link;
    bool computes;      // a method computes new values now
    uint64_t prepared;  // the transaction that is prepared and not committed; 0: none
    uint64_t over;      // transactions up to this one are not prepared any more
    loaded load;        // a map that was checked and is not loaded yet
    bool has_load;
} owned_optimizer;

void optimizers_lock(const gw_scope *s);
void optimizers_unlock(const gw_scope *s);

// The options of one group, from |at| on in |list|.
bool owned_read_options(gw_scope *s, const rule *r, const gw_list *list, int at,
                        optimizer_group *g);
void owned_abort(owned_optimizer *self);  // drops the prepared step

// Methods: optimizer_owner_step.c.
gw_value serve_prepare(gw_scope *s, void *object, const gw_args *a);
gw_value serve_step(gw_scope *s, void *object, const gw_args *a);
gw_value serve_commit(gw_scope *s, void *object, const gw_args *a);
gw_value serve_abort(gw_scope *s, void *object, const gw_args *a);

// clipping.c
gw_value serve_unscale(gw_scope *s, void *object, const gw_args *a);

#endif
