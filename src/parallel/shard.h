// Sharded optimizers between the files of this room: the remote part of one whose parameters are all
// here, but not their state.
#ifndef PARALLEL_SHARD_H
#define PARALLEL_SHARD_H

#include "optim/remote_part.h"
#include <gradwire/parallel.h>

// Numbers of a parameter whose state one member has, and whose steps it computes.
typedef struct piece {
    int parameter, owner;
    int64_t first, count;
} piece;

// From what the new values of a parameter were prepared before the step.
typedef struct early {
    gw_tensor *mean;  // counted; NULL: they were not
    uint32_t mean_version, version;
    optimizer_group options;
} early;

typedef struct shard {
    remote_part part;
    gw_group *group;  // one count
    gw_optimizer
        *own;  // with |flat|, of this member's pieces, as views of the parameters; else NULL
    bool is_flat;

    piece *pieces;  // in the order of parameters, then of numbers
    int piece_count;
    int covered;     // so many parameters have been shared out
    int64_t *loads;  // by member: its numbers

    // With |overlap|.
    early *early;  // by parameter; NULL without
    int early_count;
    bool is_stepping, is_preparing;  // with the loop lock; each on one thread
    waiter *stepper;                 // waits for the end of |is_preparing|; NULL
} shard;

extern const remote_part_class shard_class;

// NULL if |o| is not sharded.
static inline shard *shard_of(const gw_optimizer *o) {
    return o->remote && o->remote->class == &shard_class ? (shard *)o->remote : NULL;
}

// ---- Sharing out (shard.c) ----------------------------------------------------------------------

// Shares out the parameters that were added since; all members call it. False with |s| failed.
bool shard_extend(gw_scope *s, gw_optimizer *o);

// ---- A step (shard_step.c) ----------------------------------------------------------------------

void shard_step(gw_scope *s, gw_optimizer *o);
bool shard_unscale(gw_scope *s, const gw_optimizer *o, double by, bool not_finite);

// ---- Before the step (shard_early.c) ------------------------------------------------------------

// The parameters of |o| are prepared as their gradients come. False with |s| failed.
bool shard_overlap(gw_scope *s, gw_optimizer *o);
// Around what changes |o|: nothing is prepared meanwhile.
void shard_begin(shard *x);
void shard_end(shard *x);
// Discards what was prepared from other gradients than those of |s|, or with other options.
void shard_settle(const gw_scope *s, gw_optimizer *o);
void shard_forget_early(shard *x);

// ---- State (shard_state.c) ----------------------------------------------------------------------

void shard_write(gw_scope *s, const gw_optimizer *o, gw_map *map);
void shard_load(gw_scope *s, gw_optimizer *o, gw_map *map);

#endif
