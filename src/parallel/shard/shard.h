// What the files of this room share. A sharded optimizer uses the remote part of an optimizer: all parameters are on
// this worker, but their state is divided among the members.
#ifndef PARALLEL_SHARD_SHARD_H
#define PARALLEL_SHARD_SHARD_H

#include "optim/remote_part.h"
#include "optim/state.h"
#include <gradwire/ddp.h>
#include <gradwire/parallel.h>

// Numbers of a parameter whose state one member has, and whose steps it computes.
typedef struct piece {
    int parameter, owner;
    int64_t first, count;
} piece;

// The inputs of new values that were prepared before the step.
typedef struct early {
    gw_tensor *mean;  // counted; NULL: they were not
    uint32_t mean_version, version;
    optimizer_group options;
} early;

// State of numbers of a parameter, which a member has.
typedef struct held_state {
    int parameter;
    int64_t first, count, steps;
    block *state[OPTIM_STATES_MAX];  // counted; NULL: there is none
} held_state;

typedef struct held_states {
    held_state *items;
    int count;
    int64_t at_step;  // of the optimizer
} held_states;

typedef struct shard {
    remote_part part;
    gw_group *group;  // one count
    gw_optimizer
        *own;  // with |flat|, of this member's pieces, as views of the parameters; else NULL
    bool is_flat, shares_gradients;
    // OWN-2: a step has failed while values went around, and others may have taken it. The prepared values stay
    // until the next one.
    bool is_in_doubt;
    // OWN-4: the state of this member before the optimizer was re-formed, until a step shows that all members have
    // re-formed theirs.
    held_states held;

    // By piece, in a step: how many rows of a table go around; -1: all numbers of it.
    int64_t *rows;
    piece *pieces;  // in the order of parameters, then of numbers
    int piece_count;
    int covered;     // so many parameters have been shared out
    int64_t *loads;  // by member: its numbers

    // With |overlap|.
    early *early;  // by parameter, of its piece that is this member's; NULL without
    int early_count;
    bool is_stepping, is_preparing;  // with the loop lock; each on one thread
    waiter *stepper;                 // waits for the end of |is_preparing|; NULL
} shard;

extern const char shard_kind[];

// NULL if |o| is not sharded.
static inline shard *shard_of(const gw_optimizer *o) {
    return o->remote && o->remote->class->kind == shard_kind ? (shard *)o->remote : NULL;
}

// ---- Life (shard.c) -----------------------------------------------------------------------------

// A sharing out of all parameters of |o|, which has nothing to do with |o| until that takes it. NULL with
// |s| failed.
shard *shard_open(gw_scope *s, const gw_optimizer *o, gw_group *g, bool is_flat);
void shard_close(remote_part *part);

// ---- Sharing out (shard_pieces.c) ----------------------------------------------------------------------

// Shares out the parameters that were added since; all members call it. False with |s| failed.
bool shard_extend(gw_scope *s, gw_optimizer *o);
bool shard_share_out(gw_scope *s, const gw_optimizer *o,
                     shard *x);  // of |x|, which need not be |o|'s
bool shard_compare_parameters(gw_scope *s, const gw_group *g, const gw_optimizer *o);
// Where the state of each parameter is now.
void shard_note_elsewhere(gw_optimizer *o, const shard *x, int from);
// The gradients of |d|, NULL: of all models of |o|, go where the state is. False with |s| failed.
bool shard_share_gradients(gw_scope *s, const gw_optimizer *o, gw_ddp *d);
// The part of |g|, the gradient of a parameter or of a piece of it, that is of |at|. |s| owns it.
gw_tensor *shard_cut(gw_scope *s, const gw_optimizer *o, const piece *at, gw_tensor *g);
// With ranges: the options are those of |o|, whose rates schedules change.
void shard_take_options(const gw_optimizer *o, shard *x);

// ---- A step (shard_step.c) ----------------------------------------------------------------------

void shard_step(gw_scope *s, gw_optimizer *o);
bool shard_unscale(gw_scope *s, const gw_optimizer *o, double by, bool not_finite);
void shard_commit(gw_optimizer *o, shard *x);
void shard_abort(gw_optimizer *o, shard *x);

// ---- Tables (shard_rows.c) ----------------------------------------------------------------------

// Whether the gradients of some parameters are sparse by rows; the same on all members.
bool shard_has_tables(const gw_optimizer *o, const shard *x);
bool shard_is_table(const gw_optimizer *o, const shard *x, const piece *at);
// Members exchange which rows of tables they have computed, and take memory for those of others.
// False if that has failed on all; else |s| may have failed here.
bool shard_exchange_rows(gw_scope *s, gw_optimizer *o, shard *x);
int64_t shard_numbers_of(const gw_optimizer *o, const shard *x, int piece);  // that go around

// ---- Before the step (shard_early.c) ------------------------------------------------------------

// The parameters of |o| are prepared as their gradients arrive. False with |s| failed.
bool shard_overlap(gw_scope *s, gw_optimizer *o);
// Around changes of |o|: nothing is prepared meanwhile.
void shard_begin(shard *x);
void shard_end(shard *x);
// Discards values that were prepared from other gradients than those of |s|, or with other options.
void shard_discard_stale(const gw_scope *s, gw_optimizer *o);
void shard_forget_early(shard *x);

// ---- State (shard_state.c) ----------------------------------------------------------------------

void shard_write(gw_scope *s, const gw_optimizer *o, gw_map *map);
void shard_load(gw_scope *s, gw_optimizer *o, gw_map *map);

// ---- Another group (shard_reform.c, shard_held.c, shard_move.c) -----------------------------------------------

// OWN-3, on all members of |g|. |saved| may be NULL.
void shard_reform(gw_scope *s, gw_optimizer *o, gw_group *g, gw_map *saved,
                  gw_optimizer_reformed *out);
// The same with |d|, which is in |g| already, and whose gradients are shared out anew.
void shard_follow(gw_scope *s, gw_optimizer *o, gw_ddp *d, gw_group *g);
void held_forget(held_states *all);
// The state of this member: its part, and the states held since the last re-forming. False with |s| failed.
bool held_collect(gw_scope *s, const gw_optimizer *o, held_states *out);
// The state of this member's pieces of |next|, in their order, from all members of |g|, which contribute
// what they have in |own| and |saved|, NULL: nothing. False with |s| failed.
bool held_move(gw_scope *s, const gw_optimizer *o, const shard *next, gw_group *g,
               const held_states *own, const loaded *saved, held_states *out,
               gw_optimizer_reformed *counts);

#endif
