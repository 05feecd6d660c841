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

// ---- State (shard_state.c) ----------------------------------------------------------------------

void shard_write(gw_scope *s, const gw_optimizer *o, gw_map *map);
void shard_load(gw_scope *s, gw_optimizer *o, gw_map *map);

#endif
