// The remote part of an optimizer: the state that the optimizer's trainer (the worker that made it) has about the
// owners of its parameters. docs/protocol/training.md is the specification.
//
// Ownership: the optimizer owns the remote part, which holds a reference to an object of class gw.optimizer on each
// owner. Threads: the same as for the optimizer.
#ifndef DISTRIBUTED_OPTIM_OPTIMIZER_H
#define DISTRIBUTED_OPTIM_OPTIMIZER_H

#include "call/registry.h"
#include "optim/remote_part.h"
#include "agent/bodies/context.h"
#include <gradwire/ref.h>

typedef struct owner {
    gw_rref *object;  // one count
    int rank;
} owner;

// The remote part of an optimizer.
typedef struct owners {
    remote_part part;
    uint64_t id;  // of the optimizer, in the job
    owner *items;
    int count;
    int *owner_of;  // by a parameter's number; -1: this worker
    int number_count;
    uint64_t transaction;  // number of the last one
    double *sent;          // the options that all owners have
    int sent_count;        // 0: none
} owners;

// The remote part of |o|; NULL if it has none.
static inline owners *owners_of(const gw_optimizer *o) {
    return (owners *)o->remote;
}

// ---- Calls to owners (owner_calls.c) ------------------------------------------------------------

// A scope for calls on behalf of |s|: it has the id of the gradients of |s|. Its errors are its own
// until it is merged.
gw_scope *calls_open(gw_scope *s);

// Whether |s| may wait; else fails it.
bool calls_may_wait(gw_scope *s, const char *what);

// The options of all groups, in the order of the rule's table.
int options_count(const gw_optimizer *o);
void options_write(const gw_optimizer *o, double *out);

// ---- The functions of owners_class --------------------------------------------------------------

void owners_step(gw_scope *s, gw_optimizer *o);
void owners_write(gw_scope *s, const gw_optimizer *o, gw_map *map);
void owners_load(gw_scope *s, gw_optimizer *o, gw_map *map);
double owners_squares(gw_scope *s, const gw_list *params);
void owners_scale(gw_scope *s, const gw_list *params, double by);
bool owners_unscale(gw_scope *s, const gw_optimizer *o, double by, bool not_finite);
extern const remote_part_class owners_class;

extern const function optimizer_functions[], clipping_functions[];

#endif
